"""The garbage collector of a process that is no worker of the tests: a worker has millions of objects to visit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).with_name("gc_control_tests.py")


def test_the_collector_is_controlled_and_left_as_it_was() -> None:
    """All of ``gc_control_tests``, in a process of their own."""
    options = ("-q", "-n", "0", "-p", "no:cacheprovider", "-p", "no:randomly")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(TESTS)], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout
    assert " passed" in run.stdout
