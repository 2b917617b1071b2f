"""What an engine's workers hold, counted by the storages behind their tensors."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from headway.vllm_adapter.process.worker_memory import KV_CACHE, WEIGHTS, engine_memory, worker_memory


@pytest.fixture(scope="module")
def torch() -> Any:
    """Imported by the worker that runs these tests, not by each that collects them."""
    return pytest.importorskip("torch")


def worker(torch: Any, kv_caches: Any) -> Any:
    """A worker with two layers, the second tied to the first, and this KV cache."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 4, bias=False), torch.nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    model.register_buffer("table", torch.zeros(10))
    return SimpleNamespace(model_runner=SimpleNamespace(model=model, kv_caches=kv_caches))


def test_tied_weights_and_layers_of_one_block_count_once(torch: Any) -> None:
    """Sixteen weights and ten entries of a table, of four bytes each; a KV cache of 1000, cut into two layers."""
    block = torch.zeros(1000, dtype=torch.int8)
    held = worker_memory(worker(torch, [block[:500], block[500:]]))
    assert held == {WEIGHTS: 4 * (16 + 10), KV_CACHE: 1000}


@pytest.mark.parametrize(
    "nest",
    [lambda part: [part], lambda part: {"layer": part}, lambda part: [(part, [part])]],
    ids=["list", "mapping", "nested"],
)
def test_a_kv_cache_is_found_in_any_structure(torch: Any, nest: Callable[[Any], Any]) -> None:
    """Versions of vLLM keep it differently."""
    assert worker_memory(worker(torch, nest(torch.zeros(7, dtype=torch.int8))))[KV_CACHE] == 7


def test_an_engine_is_the_sum_of_its_workers_and_names_only_what_is_known(torch: Any) -> None:
    """Two workers; where none knows its KV cache, it is left out and not 0."""
    workers = [worker(torch, [torch.zeros(size, dtype=torch.int8)]) for size in (5, 6)]
    core = SimpleNamespace(collective_rpc=lambda ask: [ask(worker) for worker in workers])
    assert engine_memory(core) == {WEIGHTS: 2 * 104, KV_CACHE: 11}
    without = SimpleNamespace(collective_rpc=lambda ask: [ask(worker(torch, ())), ask(SimpleNamespace())])
    assert engine_memory(without) == {WEIGHTS: 104}
