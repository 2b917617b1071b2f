"""Whether memory allows two engines at a time, on a CPU and on GPUs, and what is said where it does not."""

from __future__ import annotations

import mmap
import os
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from headway.supervision.memory.probe import Gpu
from headway.vllm_adapter.process import spare_memory
from headway.vllm_adapter.process.spare_memory import why_no_spare

GIB = 2**30


def client(*, kv_gib: float | None = 2, ratio: float = 0.5, **parallel: Any) -> Any:
    """As much of an AsyncLLM as is looked at."""
    kv_bytes = None if kv_gib is None else int(kv_gib * GIB)
    cache = SimpleNamespace(kv_cache_memory_bytes=kv_bytes, gpu_memory_utilization=ratio)
    spread = {"data_parallel_size": 1, "world_size": 1, "distributed_executor_backend": "mp", **parallel}
    config = SimpleNamespace(cache_config=cache, parallel_config=SimpleNamespace(**spread))
    return SimpleNamespace(vllm_config=config, engine_core=None)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A machine on which the engine's two processes use 3 GiB together; a test sets the rest."""
    here: dict[str, Any] = {"free_gib": 6.0, "limit_gib": None, "cards": None, "untouched_gib": 2}
    monkeypatch.setattr(spare_memory, "processes", lambda core: [psutil.Process(os.getpid())] * 2)
    monkeypatch.setattr(spare_memory, "_own_bytes", lambda process: 3 * GIB // 2)
    monkeypatch.setattr(spare_memory, "_untouched_bytes", lambda process: here["untouched_gib"] * GIB // 2)
    monkeypatch.setattr(
        spare_memory.psutil,
        "virtual_memory",
        lambda: SimpleNamespace(available=int(here["free_gib"] * GIB)),
    )
    limit = lambda: None if here["limit_gib"] is None else int(here["limit_gib"] * GIB)  # noqa: E731 - one reading
    monkeypatch.setattr(spare_memory, "memory_free", limit)
    monkeypatch.setattr(spare_memory, "on_a_cpu", lambda: here["cards"] is None)
    monkeypatch.setattr(spare_memory, "Gpus", lambda: SimpleNamespace(read_of=lambda pids: here["cards"]))
    return here


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({}, ""),
        ({"free_gib": 5.4}, "not enough memory, needs 5.5 GiB, free 5.4 GiB"),
        ({"limit_gib": 5.4}, "not enough memory, needs 5.5 GiB, free 5.4 GiB"),
        ({"limit_gib": 5.6}, ""),
    ],
    ids=["a tenth to spare", "less free", "less within the limit", "enough within the limit"],
)
def test_a_cpu_engine_needs_its_memory_and_its_kv_space_again(
    machine: dict[str, Any], found: dict[str, Any], expected: str
) -> None:
    """3 GiB in use and a KV cache of 2 GiB, with a tenth more."""
    machine.update(found)
    assert why_no_spare(client()) == expected


@pytest.mark.parametrize(
    ("kv_gib", "untouched_gib", "needed_gib"),
    [(2, 0, 3.3), (2, 1, 4.4), (2, 9, 5.5), (None, 9, 13.2)],
    ids=["all touched", "half touched", "more than the cache", "a cache that is not set"],
)
def test_of_the_kv_space_only_the_untouched_part_comes_on_top(
    machine: dict[str, Any], kv_gib: float | None, untouched_gib: int, needed_gib: float
) -> None:
    """The rest is in the memory of the processes already."""
    machine.update(untouched_gib=untouched_gib, free_gib=needed_gib + 0.01)
    assert why_no_spare(client(kv_gib=kv_gib)) == ""
    machine.update(free_gib=needed_gib - 0.1)
    expected = f"not enough memory, needs {needed_gib:.1f} GiB, free {needed_gib - 0.1:.1f} GiB"
    assert why_no_spare(client(kv_gib=kv_gib)) == expected


@pytest.mark.parametrize(
    ("cards", "expected"),
    [
        ([Gpu("0", 30 * GIB, 80 * GIB)], ""),
        ([Gpu("0", 40 * GIB, 80 * GIB)], "not enough GPU memory, needs 40.0 GiB, free 40.0 GiB"),
        (
            [Gpu("0", 30 * GIB, 80 * GIB), Gpu("1", 76 * GIB, 80 * GIB)],
            "not enough GPU memory, needs 40.0 GiB, free 4.0 GiB",
        ),
        ([], "the free memory of its device is not known"),
    ],
    ids=["free", "just not", "one of two is full", "none is seen"],
)
def test_a_gpu_engine_needs_what_it_claims_of_each_card(
    machine: dict[str, Any], cards: list[Gpu], expected: str
) -> None:
    """By ``gpu_memory_utilization``; its KV cache is not in the memory of the machine."""
    machine.update(cards=cards, free_gib=3.5)
    assert why_no_spare(client()) == expected


def test_a_gpu_engine_needs_memory_of_the_machine_too(machine: dict[str, Any]) -> None:
    """For its processes."""
    machine.update(cards=[Gpu("0", 0, 80 * GIB)], free_gib=3.2)
    assert why_no_spare(client()) == "not enough memory, needs 3.3 GiB, free 3.2 GiB"


@pytest.mark.parametrize(
    ("parallel", "expected"),
    [
        ({"data_parallel_size": 2}, "the engine has several cores or machines"),
        ({"nnodes": 2}, "the engine has several cores or machines"),
        ({"distributed_executor_backend": "ray"}, "the engine's executor is ray"),
    ],
)
def test_an_engine_with_processes_elsewhere_is_not_started_twice(
    machine: dict[str, Any], parallel: dict[str, Any], expected: str
) -> None:
    """Its ports are fixed, or its memory is not here."""
    assert why_no_spare(client(**parallel)) == expected


def test_an_engine_whose_kv_cache_is_connected_is_not_started_twice(machine: dict[str, Any]) -> None:
    """The connection is by a port."""
    connected = client()
    connected.vllm_config.kv_transfer_config = SimpleNamespace(kv_connector="NixlConnector")
    assert why_no_spare(connected) == "the engine's KV cache is connected to other engines, by fixed ports"


def test_the_memory_of_a_real_process_is_known() -> None:
    """And one that has ended has none."""
    assert spare_memory._own_bytes(psutil.Process()) > 2**20
    ended = psutil.Popen(["true"])
    ended.wait(30)
    assert (spare_memory._own_bytes(ended), spare_memory._untouched_bytes(ended)) == (0, 0)


def test_untouched_memory_of_a_real_process_is_known() -> None:
    """Until it is written to."""
    here, size = psutil.Process(), 64 * 2**20
    before = spare_memory._untouched_bytes(here)
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as large:
        allocated = spare_memory._untouched_bytes(here) - before
        large.write(b"x" * size)
        touched = spare_memory._untouched_bytes(here) - before
    assert allocated >= 0.9 * size
    assert touched <= 0.1 * size
