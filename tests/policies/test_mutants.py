"""The mutation test with hand-written faults. Its run is behind HEADWAY_LONG_TESTS: some ten minutes."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SCRIPT = TESTS / "mutants.py"


def test_each_fault_can_be_put_into_the_code() -> None:
    """The text that it replaces is there, once: a fault that is nowhere proves nothing."""
    script = runpy.run_path(str(SCRIPT), run_name="mutants")
    for one in script["MUTANTS"]:
        text = (TESTS.parent / script["PACKAGES"][one.path.parts[0]] / one.path).read_text(encoding="utf-8")
        assert text.count(one.old) == 1, (one.file, one.fault)


@pytest.mark.skipif(not os.environ.get("HEADWAY_LONG_TESTS"), reason="takes minutes: make test-long")
def test_at_least_95_percent_of_the_faults_are_caught_and_the_others_explained() -> None:
    """Each fault is put into a copy of the code; the tests of its package have to fail on it."""
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
