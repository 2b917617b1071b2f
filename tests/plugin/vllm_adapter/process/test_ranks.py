"""The ranks of one engine begin and end together; small processes stand for vLLM's."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from headway.vllm_adapter.process.ranks import bind_ranks, ranks_of

_WITHIN_S = 20.0


def _run(order: Any) -> None:
    order.wait()


class Manager:
    """vLLM's manager of EngineCore processes, as far as it is bound."""

    def __init__(self, count: int = 2, vllm_config: Any = None) -> None:
        context = multiprocessing.get_context("fork")
        self.orders = [context.Event() for _ in range(count)]
        self.processes = [context.Process(target=_run, args=(order,), daemon=True) for order in self.orders]
        self.manager_stopped = threading.Event()
        self.watched = False
        for rank, process in enumerate(self.processes):
            if vllm_config is not None:
                vllm_config.parallel_config.assigned_physical_gpu_ids = [rank]
            process.start()

    def monitor_engine_liveness(self) -> None:
        """Called once some of them have ended."""
        self.watched = True


@pytest.fixture
def bound() -> type[Manager]:
    """Another class for each test, bound twice as vLLM loads the plugin more than once."""
    made = type("BoundManager", (Manager,), {})
    bind_ranks(made)
    bind_ranks(made)
    return made


@pytest.fixture
def managers() -> Iterator[list[Manager]]:
    """Managers whose processes are ended after the test."""
    found: list[Manager] = []
    yield found
    for manager in found:
        for process in manager.processes:
            process.kill()
            process.join()


def watch(manager: Manager) -> threading.Thread:
    """vLLM's monitor, which runs in a thread."""
    thread = threading.Thread(target=manager.monitor_engine_liveness, daemon=True)
    thread.start()
    return thread


def test_the_death_of_one_rank_ends_the_others_at_once(bound: type[Manager], managers: list[Manager]) -> None:
    """Before vLLM's own monitor acts, which would give them five seconds."""
    managers.append(manager := bound(3))
    monitor = watch(manager)
    began_s = time.monotonic()
    os.kill(manager.processes[1].pid or 0, signal.SIGKILL)
    for process in manager.processes:
        process.join(_WITHIN_S)
    monitor.join(_WITHIN_S)
    assert [process.exitcode for process in manager.processes] == [-signal.SIGKILL] * 3
    assert manager.watched
    assert time.monotonic() - began_s < 5


def test_a_rank_that_ends_in_order_ends_no_other(bound: type[Manager], managers: list[Manager]) -> None:
    """All were told to end, and each finishes what it runs: vLLM's monitor has the word."""
    managers.append(manager := bound())
    first, second = manager.processes
    monitor = watch(manager)
    manager.orders[0].set()
    monitor.join(_WITHIN_S)
    assert manager.watched
    assert first.exitcode == 0
    assert second.is_alive()


def test_an_ordered_end_kills_nobody(bound: type[Manager], managers: list[Manager]) -> None:
    """``--shutdown-timeout`` is the time that running requests have."""
    managers.append(manager := bound())
    manager.manager_stopped.set()
    watch(manager).join(_WITHIN_S)
    assert manager.watched
    assert all(process.is_alive() for process in manager.processes)


def test_one_rank_alone_is_left_to_vllm(bound: type[Manager], managers: list[Manager]) -> None:
    """The rank has no others; the monitor begins at once."""
    managers.append(manager := bound(1))
    watch(manager).join(_WITHIN_S)
    assert manager.watched


@pytest.mark.parametrize("given", [None, [4, 5]])
def test_the_devices_that_the_user_gave_are_put_back(
    bound: type[Manager], managers: list[Manager], given: list[int] | None
) -> None:
    """vLLM leaves those of the last rank in the configuration, from which the next engine starts."""
    config = SimpleNamespace(parallel_config=SimpleNamespace(assigned_physical_gpu_ids=given))
    managers.append(bound(vllm_config=config))
    assert config.parallel_config.assigned_physical_gpu_ids == given


def test_how_many_ranks_a_configuration_has() -> None:
    """One where it does not say."""
    assert ranks_of(SimpleNamespace(parallel_config=SimpleNamespace(data_parallel_size=4))) == 4
    assert ranks_of(SimpleNamespace()) == ranks_of(None) == 1


def test_what_a_version_lacks_is_not_bound() -> None:
    """No class, or one without a monitor."""
    bind_ranks(None)
    bare = type("Bare", (), {})
    bind_ranks(bare)
    assert not hasattr(bare, "headway_binds_ranks")
