from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest


def test_make_alone_lists_every_target(root: Path) -> None:
    """`make` prints a line for each target, and changes nothing."""
    text = (root / "Makefile").read_text()
    targets = set(re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)[0].split())
    shown = subprocess.run(["make", "-C", root], capture_output=True, text=True, check=True).stdout
    assert targets == set(re.findall(r"^  make (\S+)  ", shown, re.MULTILINE))


@pytest.mark.parametrize(("check", "test"), [(0, 0), (2, 0), (0, 2), (2, 2)])
def test_ci_runs_the_checks_and_then_the_tests(root: Path, tmp_path: Path, check: int, test: int) -> None:
    """Both whatever comes of the first, so that the runner's closing line is the last; it fails if either fails."""
    make = tmp_path / "make"
    make.write_text(f'#!/bin/sh\necho "$@"\n[ "$2" = check ] && exit {check}\nexit {test}\n')
    make.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([root / ".ci" / "run"], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout.splitlines() == ["--no-print-directory check", "--no-print-directory test"]
    assert done.returncode == max(check, test)


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
