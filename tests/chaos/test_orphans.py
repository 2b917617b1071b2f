"""Orphan processes: when the API server is killed at any moment (C3), its engine does not outlive it. Plain vLLM leaves
EngineCore and its worker running, and a process that is still importing cannot detect its parent's end by itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from counted_usage import usage_of
from engine_parts import engine_processes, killers, long_form, ready, session
from running_server import RunningServer, wait_until

from headway.usage import UsageStore
from headway_policies.usage import read_query, total

KINDS = {"headway serve": RunningServer.headway, "vllm serve": RunningServer.plain_vllm}
TERMS = {"HEADWAY_PRESET": "tight", "HEADWAY_WARMUP": "0"}
AFTER_S = 5  # the documented bound
EVERY_S = 2.5
DAY_S = 86_400


def spawned(server: RunningServer) -> list[psutil.Process]:
    """EngineCore first, then its workers, also those that do not bear their names yet."""
    return [one for one in session(server) if _is_engine(one)]


def _is_engine(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        words = " ".join(process.cmdline())
        return "spawn_main" in words or "VLLM::" in words
    return False


def is_ready(server: RunningServer) -> bool:
    """Whether the server responds and reports ready."""
    with suppress(Exception):
        return ready(server)
    return False


#: The moments: each follows at once upon what is awaited.
MOMENTS: dict[str, Callable[[RunningServer], object]] = {
    "EngineCore begins to import": lambda server: len(spawned(server)) == 1,
    "its worker begins to import": lambda server: len(spawned(server)) == 2,
    "it is ready": is_ready,
}


@pytest.fixture
def launched(request: pytest.FixtureRequest, real_engine: None, tmp_path: Path) -> Iterator[RunningServer]:
    """A server that has just been started, of the kind that the test names."""
    server = KINDS[request.param](tmp_path / "server.log", **TERMS).launch()
    assert server.process is not None
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait(10)
        for one in session(server):
            with suppress(psutil.NoSuchProcess):
                one.kill()


def kill_and_look(server: RunningServer) -> list[psutil.Process]:
    """Send SIGKILL, which no process can catch; returns the processes that are alive after the allowed time."""
    assert server.process is not None
    waiting = killers(server)
    server.process.kill()
    server.process.wait(10)
    until_s = time.monotonic() + AFTER_S
    while (left := session(server)) and time.monotonic() < until_s:
        time.sleep(0.05)
    return left + psutil.wait_procs(waiting, timeout=AFTER_S)[1]


@pytest.mark.ends_server
def test_no_process_outlives_a_server_that_is_killed(chaos_server: RunningServer) -> None:
    """After five seconds no process is alive, including those that waited for the server's end; its accounting has
    all that had ended before."""
    assert chaos_server.process is not None
    if chaos_server.process.poll() is not None:  # this is its second try
        chaos_server.start()
    assert engine_processes(chaos_server)
    wanted, now_s = usage_of(chaos_server), time.time()
    assert kill_and_look(chaos_server) == []
    store = UsageStore(Path(chaos_server.environment["HEADWAY_USAGE_DB"]))
    found = total(row.figures for row in store.read(read_query({"since": "2d"}, now_s + DAY_S), 10_000))
    assert found.requests == wanted["total"]["requests"] > 0
    assert found.output_tokens == wanted["total"]["output_tokens"] > 0


@long_form("the test above has a server that is ready; vllm_adapter/process/test_parent_watch has a start, of programs")
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("launched", KINDS, indirect=True)
def test_no_process_outlives_a_server_that_is_killed_while_it_starts(launched: RunningServer, moment: str) -> None:
    """Neither EngineCore nor its worker, which cannot detect their parent's end while they import."""
    wait_until(lambda: MOMENTS[moment](launched), moment, 240)
    began = spawned(launched)
    assert began
    assert kill_and_look(launched) == []


@long_form("40 starts")
@pytest.mark.parametrize("launched", KINDS, indirect=True)
@pytest.mark.parametrize("number", range(20))
def test_no_process_outlives_a_server_that_is_killed_at_any_moment(launched: RunningServer, number: int) -> None:
    """From one second on, every few seconds until long after it is ready."""
    time.sleep(1 + number * EVERY_S)
    assert kill_and_look(launched) == []


@long_form("tests/plugin/vllm_adapter/process/test_parent_watch ends all that is below a process that is killed")
@pytest.mark.parametrize("launched", KINDS, indirect=True)
def test_no_worker_outlives_an_engine_core_that_is_killed_while_it_starts(launched: RunningServer) -> None:
    """The server continues, or ends with an error; after five seconds the worker is gone."""
    wait_until(lambda: len(spawned(launched)) == 2, "the worker begins to import", 240)
    core, worker = sorted(spawned(launched), key=lambda one: one.create_time())
    assert worker.ppid() == core.pid
    core.kill()
    assert psutil.wait_procs([worker], timeout=AFTER_S)[1] == []


@long_form("tests/chaos/test_engine_hang stops each part of an engine")
@pytest.mark.parametrize("launched", ["headway serve"], indirect=True)
def test_stopped_processes_do_not_outlive_it_either(launched: RunningServer) -> None:
    """SIGSTOP holds up whatever a process would do by itself."""
    wait_until(lambda: is_ready(launched), "it is ready", 240)
    for one in engine_processes(launched):
        one.suspend()
    assert kill_and_look(launched) == []


@long_form("tests/engine/test_warmup: test_sigterm_ends_everything has it for `headway serve`")
@pytest.mark.parametrize("launched", KINDS, indirect=True)
def test_what_waits_for_its_end_ends_with_an_orderly_one_too(launched: RunningServer) -> None:
    """One for the server and one for EngineCore; they ignore signals that are meant for the server."""
    wait_until(lambda: is_ready(launched), "it is ready", 240)
    waiting = killers(launched)
    assert len(waiting) == 2
    for one in waiting:
        one.terminate()
    assert launched.stop() == 0
    assert psutil.wait_procs(waiting, timeout=AFTER_S)[1] == []
    assert session(launched) == []
