"""Tests of the mutation run: its lists are valid, and as many faults are detected as they say, 90 % as a rule. The
latter takes minutes."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
STANDS_IN = {"headway_policies": "policies", "headway": "plugin", "headway_tools": "plugin"}


def source(file: str) -> str:
    """A file of the packages, without its indentation and line breaks."""
    path = ROOT / STANDS_IN[file.split("/")[0]] / file
    return " ".join(path.read_text(encoding="utf-8").split())


def test_every_file_and_test_to_be_tried_exists() -> None:
    """A file that moved would be tried no more, in silence."""
    targets = tomllib.loads((HERE / "targets.toml").read_text(encoding="utf-8"))
    for target in targets.values():
        assert [one for one in target["files"] if not source(one)] == []
        assert [one for one in target["tests"] if not (ROOT / one.split("::")[0]).is_file()] == []
        assert target["tests"] == sorted(target["tests"])
        assert 0.5 <= target.get("least_ratio", 0.9) <= 0.9


def test_every_accepted_fault_is_explained_and_still_possible() -> None:
    """Each stands once, with its reason, and the line it changes is still there."""
    groups = tomllib.loads((HERE / "accepted.toml").read_text(encoding="utf-8"))["group"]
    listed = [one for group in groups for one in group["faults"]]
    faults = [(one["file"], one.get("functions"), one["old"], one["new"]) for one in listed]
    assert all(len(group["why"]) > 20 for group in groups)
    assert len(faults) == len(set(faults))
    assert [(file, old) for file, _, old, _ in faults if " ".join(old.split()) not in source(file)] == []


@pytest.mark.skipif(not os.environ.get("HEADWAY_LONG_TESTS"), reason="takes minutes: make test-long")
def test_nine_of_ten_faults_are_noticed() -> None:
    """A sample of each file that decides which requests are served: mutmut generates the faults, the fast tests have to
    fail."""
    done = subprocess.run([sys.executable, str(HERE / "run.py")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-1000:]
