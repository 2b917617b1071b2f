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


@pytest.mark.slow
def test_a_killer_that_has_died_is_replaced_at_the_next_start(tmp_path: Path) -> None:
    """With the same mark, so that it ends what was started before, too; without one an engine starts all the same."""
    server = subprocess.Popen(
        [sys.executable, "-c", _WITHOUT_KILLER, str(tmp_path / "file")], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    with server.stdout:
        left = [psutil.Process(int(pid)) for pid in server.stdout.readline().split()]
        server.kill()
        server.wait()
    assert psutil.wait_procs(left, timeout=WITHIN_S)[1] == []
    assert not (tmp_path / "file").exists()


_WITHOUT_KILLER = """
import pathlib, subprocess, sys, time
from headway.vllm_adapter.process import parent_watch
parent_watch.watch_this_process()
pathlib.Path(sys.argv[1]).touch()
parent_watch.remove_at_the_end(sys.argv[1])
before = subprocess.Popen(["sleep", "3600"], stdout=subprocess.DEVNULL)
parent_watch._watch._killer.kill()
parent_watch._watch._killer.wait()
parent_watch.remove_at_the_end("/nonexistent/headway-file")
parent_watch.watch_this_process()
after = subprocess.Popen(["sleep", "3600"], stdout=subprocess.DEVNULL)
print(before.pid, after.pid, flush=True)
time.sleep(3600)
"""
