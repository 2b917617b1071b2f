"""The mutation test with hand-written faults. Behind HEADWAY_LONG_TESTS: some ten minutes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "mutants.py"


@pytest.mark.skipif(not os.environ.get("HEADWAY_LONG_TESTS"), reason="takes minutes: make test-long")
def test_at_least_95_percent_of_the_faults_are_caught_and_the_others_explained() -> None:
    """Each fault is put into a copy of the code; the tests of its package have to fail on it."""
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
