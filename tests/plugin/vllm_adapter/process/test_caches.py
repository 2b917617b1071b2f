"""The caches of vLLM that are cleared, and how; on objects of its shape."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from headway import malloc_trim
from headway.engine.port import PlainAdapter
from headway.vllm_adapter.engine_adapter import VllmAdapter
from headway.vllm_adapter.engine_core_hooks import CLEAR_WORKERS
from headway.vllm_adapter.process.worker_cache import clear_worker_caches, forget
from headway_policies.memory.settings import Cache


class Engine:
    """vLLM's client, as far as its caches go. ``busy``: it refuses to reset the prefix cache."""

    def __init__(self, *, busy: bool = False) -> None:
        self.asked: list[str] = []
        self.engine_core = self
        self._busy = busy

    async def reset_prefix_cache(self) -> bool:
        self.asked.append("prefix")
        return not self._busy

    async def call_utility_async(self, method: str) -> int:
        self.asked.append(method)
        return 2


@pytest.mark.parametrize(
    ("cache", "busy", "asked", "cleared"),
    [
        pytest.param(Cache.PREFIX, False, ["prefix"], True, id="prefix"),
        pytest.param(Cache.PREFIX, True, ["prefix"], False, id="prefix, while something runs"),
        pytest.param(Cache.WORKER, True, [CLEAR_WORKERS], True, id="workers"),
        pytest.param(Cache.HEAP, False, [], False, id="the server's own heap is none of the engine's"),
    ],
)
async def test_each_cache_is_cleared_its_own_way(cache: Cache, busy: bool, asked: list[str], cleared: bool) -> None:
    """And the result is known; an engine of unknown type has no caches."""
    engine = Engine(busy=busy)
    assert await VllmAdapter().clear_cache(engine, cache) is cleared
    assert engine.asked == asked
    assert not await PlainAdapter().clear_cache(engine, cache)


@pytest.mark.parametrize("there", [True, False])
def test_every_worker_gives_back_what_it_does_not_use(there: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through PyTorch where it has an accelerator, and the heap in any case."""
    emptied: list[bool] = []
    torch: Any = ModuleType("torch")
    torch.accelerator = SimpleNamespace(is_available=lambda: there, empty_cache=lambda: emptied.append(True))
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(malloc_trim, "give_back", lambda: True)
    workers = [object(), object()]
    core = SimpleNamespace(collective_rpc=lambda method: [method(worker) for worker in workers])
    assert clear_worker_caches(core) == 2
    assert emptied == [True] * 2 * there
    monkeypatch.delattr(torch, "accelerator")
    assert forget(workers[0])


def test_freed_memory_goes_back_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the C library can; elsewhere nothing happens."""
    assert malloc_trim.give_back() in (True, False)
    monkeypatch.setattr(malloc_trim, "_trim", lambda: None)
    assert not malloc_trim.give_back()
