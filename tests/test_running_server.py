from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

KILLED = """
import os, pathlib, signal, sys
import pytest
from running_server import RunningServer
server = RunningServer([sys.executable, "-c", "import signal; signal.pause()"], pathlib.Path(sys.argv[1])).launch()
print(server.process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_a_server_ends_with_the_test_process_that_started_it(tmp_path: Path) -> None:
    """Also where that one is killed, as Ctrl-C does with the workers of pytest-xdist."""
    support = str(Path(__file__).parent / "support")
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {support!r})\n{KILLED}", str(tmp_path / "log")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(done.stdout)).wait(60)
