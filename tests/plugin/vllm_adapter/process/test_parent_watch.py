"""The parent watch: it ends the processes of a killed server; small programs stand for vLLM's processes.

tests/chaos/test_orphans.py has the same with the real engine.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

SERVER = Path(__file__).parents[3] / "support" / "child_processes.py"
KINDS = 13
WITHIN_S = 5.0


@pytest.fixture
def started() -> Iterator[dict[str, psutil.Process]]:
    """Processes by name, which are ended after the test, whatever it found."""
    found: dict[str, psutil.Process] = {}
    yield found
    for process in found.values():
        with suppress(psutil.NoSuchProcess):
            process.kill()


def left_by_a_killed_server(started: dict[str, psutil.Process], *arguments: str) -> set[str]:
    """The processes that outlive a server that is killed once all its children have started."""
    server = subprocess.Popen([sys.executable, str(SERVER), *arguments], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    with server.stdout:
        for _ in range(KINDS):
            name, _, pid = server.stdout.readline().strip().rpartition(" ")
            started[name] = psutil.Process(int(pid))
        others = psutil.Process(server.pid).children(recursive=True)
        started |= {
            " ".join([*process.cmdline(), str(process.pid)]): process
            for process in others
            if process not in started.values()
        }
        server.kill()
        server.wait()
    left = psutil.wait_procs(started.values(), timeout=WITHIN_S)[1]
    return {name for name, process in started.items() if process in left}


@pytest.mark.slow
def test_nothing_below_a_process_outlives_it(tmp_path: Path, started: dict[str, psutil.Process]) -> None:
    """However it was started; the file is gone, and so are the processes that waited for the end."""
    file = tmp_path / "left.progress"
    file.touch()
    assert left_by_a_killed_server(started, str(file)) == set()
    assert len([name for name in started if "orphan_killer" in name]) == 2
    assert not file.exists()


@pytest.mark.slow
def test_without_it_they_all_do(started: dict[str, psutil.Process]) -> None:
    """So the test above can fail. A server below the other one watches for itself."""
    assert left_by_a_killed_server(started) >= {"a program", "stopped", "spawned", "only forked", "a grandchild"}
