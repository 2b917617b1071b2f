from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path


def test_make_alone_teaches_every_target(root: Path) -> None:
    """`make` prints a line for each target, and changes nothing."""
    text = (root / "Makefile").read_text()
    targets = set(re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)[0].split())
    shown = subprocess.run(["make", "-C", root], capture_output=True, text=True, check=True).stdout
    assert targets == set(re.findall(r"^  make (\S+)  ", shown, re.MULTILINE))


def test_ci_runs_make_test_and_nothing_more(root: Path) -> None:
    """The script is executable and hands over to make, so that the runner's closing line is the last."""
    script = root / ".ci" / "run"
    lines = [line for line in script.read_text().splitlines() if line and not line.startswith("#")]
    assert os.access(script, os.X_OK)
    assert len(lines) == 1
    assert lines[0].startswith("exec make ")
    assert lines[0].endswith(" test")


def test_words_after_args_reach_the_command(root: Path) -> None:
    """`make demo ARGS=...` and `make test TESTS=... ARGS=...` pass them on as they are."""
    environment = {
        name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}
    }

    def planned(*words: str) -> str:
        return subprocess.run(
            ["make", "-n", "-C", root, *words], capture_output=True, text=True, check=True, env=environment
        ).stdout

    assert "exec .venv/bin/headway demo --exit-after 60" in planned("demo", "ARGS=--exit-after 60")
    assert "exec .venv/bin/pytest tests/policies -x" in planned("test", "TESTS=tests/policies", "ARGS=-x")
