"""The processes of several API servers: each on a socket of its own; one may end, and the engine may not."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from headway.vllm_adapter.front_end_processes import (
    ENGINE_DIED,
    WORKER,
    EngineEndedError,
    Reports,
    loopback_sockets,
    run_worker,
    wait_for_processes,
)


@dataclass
class Processes:
    """Two API servers, an engine and the process that balances ranks: all of them only sleep."""

    servers: list[BaseProcess]
    engine: BaseProcess
    coordinator: BaseProcess
    lost: list[int] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)
    error: BaseException | None = None

    def wait(self) -> threading.Thread:
        """Wait for them in a thread."""
        thread = threading.Thread(target=self._wait, daemon=True)
        thread.start()
        return thread

    def _wait(self) -> None:
        engines, coordinator = SimpleNamespace(processes=[self.engine]), SimpleNamespace(proc=self.coordinator)
        reports = Reports(self.lost.append, self.dead.append)
        try:
            wait_for_processes(SimpleNamespace(processes=self.servers), engines, coordinator, reports=reports)
        except BaseException as error:
            self.error = error


@pytest.fixture
def processes() -> Iterator[Processes]:
    """They live until the end of the test."""
    context = multiprocessing.get_context("spawn")
    started = [context.Process(target=time.sleep, args=(600,), daemon=True) for _ in range(4)]
    for one in started:
        one.start()
    yield Processes(started[:2], started[2], started[3])
    for one in started:
        one.kill()
        one.join(10)
        one.close()


def test_one_api_server_may_end_and_the_last_one_may_not(processes: Processes) -> None:
    """Each end but the last is reported with its number."""
    waiting = processes.wait()
    processes.servers[1].kill()
    until(lambda: processes.lost == [1])
    assert (waiting.is_alive(), processes.dead, processes.engine.is_alive()) == (True, [], True)
    processes.servers[0].kill()
    waiting.join(30)
    assert (processes.lost, processes.dead) == ([1], ["all API servers have ended"])
    assert isinstance(processes.error, EngineEndedError)


@pytest.mark.parametrize("which", ["engine", "coordinator"])
def test_the_end_of_an_engine_process_is_the_end_of_all(processes: Processes, which: str) -> None:
    """It is reported before the API servers are killed, which would else answer with errors."""
    waiting = processes.wait()
    getattr(processes, which).kill()
    waiting.join(30)
    assert isinstance(processes.error, EngineEndedError)
    assert (processes.lost, len(processes.dead)) == ([], 1)
    for one in (*processes.servers, processes.engine, processes.coordinator):
        one.join(10)
        assert not one.is_alive()


def test_an_api_server_that_found_its_engine_dead_is_the_end_of_all(processes: Processes) -> None:
    """The engine's process may live on for seconds, in which the others would be lost one by one."""
    found = multiprocessing.get_context("spawn").Process(target=os._exit, args=(ENGINE_DIED,), daemon=True)
    found.start()
    processes.servers.insert(1, found)
    processes.wait().join(30)
    assert isinstance(processes.error, EngineEndedError)
    assert (processes.lost, processes.dead) == (
        [],
        ["the engine died of an error of its own, as API server 1 has found"],
    )
    for one in (*processes.servers, processes.engine, processes.coordinator):
        one.join(10)
        assert not one.is_alive()


def until(holds: Any) -> None:
    """Poll until it holds."""
    for _ in range(3000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it does not come to hold")


def test_each_api_server_listens_on_its_own_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """And on no other: it closes the others, and divides no connections with them."""
    ran: list[Any] = []
    module = ModuleType(WORKER[0])
    setattr(module, WORKER[1], lambda *arguments: ran.append(arguments))
    monkeypatch.setitem(sys.modules, WORKER[0], module)
    shared, first, second = loopback_sockets(3)
    ports = [one.getsockname()[1] for one in (shared, first, second)]
    assert len(set(ports)) == 3
    args = SimpleNamespace(host="0.0.0.0", port=8000)
    config = {"client_index": 1, "client_count": 2, "api_server_loads": [0, 0]}
    run_worker([first, second], "http://0.0.0.0:8000", shared, args, config)
    (address, own, same, alone) = ran[0]
    assert (address, own, same) == (f"http://127.0.0.1:{ports[2]}", second, args)
    assert (args.host, args.port) == ("127.0.0.1", ports[2])
    assert alone == {"client_index": 1, "client_count": 2}
    assert [one.fileno() for one in (shared, first)] == [-1, -1]
    second.close()
