from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path


def test_make_alone_lists_every_target(root: Path) -> None:
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
    """`make demo ARGS=...` and `make test TESTS=... ARGS=...` pass them on as they are, after all other options."""
    assert "exec .venv/bin/headway demo --exit-after 60" in planned(root, "demo", "ARGS=--exit-after 60")
    for target in ("test", "test-fast"):
        lines = planned(root, target, "TESTS=tests/policies", "ARGS=-x").splitlines()
        (command,) = [line for line in lines if "pytest" in line]
        assert command.startswith("exec .venv/bin/pytest -n auto ")
        assert command.endswith(" tests/policies -x")


def test_the_fast_tests_omit_what_has_a_mark_for_it(root: Path) -> None:
    """The marks of the target are marks of the project, and `make test` leaves out none."""
    (marks,) = re.findall(r'-m "(.*?)"', planned(root, "test-fast"))
    names = re.fullmatch(r"not (\w+) and not (\w+) and not (\w+)", marks)
    assert names is not None
    project = tomllib.loads((root / "pyproject.toml").read_text())
    known = {line.split(":")[0] for line in project["tool"]["pytest"]["ini_options"]["markers"]}
    assert set(names.groups()) == known
    assert " -m " not in planned(root, "test")


def planned(root: Path, *words: str) -> str:
    """What make would run."""
    environment = {
        name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}
    }
    return subprocess.run(
        ["make", "-n", "-C", root, *words], capture_output=True, text=True, check=True, env=environment
    ).stdout
