"""The memory of an engine by component: the weights, and the KV cache as it was allocated.

EngineCore reads it between two steps. Each worker counts in its own process, by the storages behind its tensors, so
that tied weights and a KV cache in one block count once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

WEIGHTS, KV_CACHE = "weights", "kv_cache"


def engine_memory(core: Any) -> dict[str, int]:
    """Bytes of all workers by component, without unknown components. ``core`` is EngineCore."""
    total: Counter[str] = Counter()
    for of_a_worker in core.collective_rpc(worker_memory):
        total.update(of_a_worker)
    return {component: size for component, size in total.items() if size}


def worker_memory(worker: Any) -> dict[str, int]:
    """Bytes of one worker by component; 0 where a version of vLLM keeps the component elsewhere."""
    runner = getattr(worker, "model_runner", None)
    model = getattr(runner, "model", None)
    weights = [] if model is None else [*model.parameters(), *model.buffers()]
    return {WEIGHTS: _bytes(weights), KV_CACHE: _bytes(_tensors(getattr(runner, "kv_caches", ())))}


def _tensors(nested: Any) -> Iterator[Any]:
    """The tensors of a structure of lists, tuples and mappings."""
    if hasattr(nested, "untyped_storage"):
        yield nested
        return
    for part in nested.values() if isinstance(nested, Mapping) else nested:
        yield from _tensors(part)


def _bytes(tensors: Iterable[Any]) -> int:
    storages = (tensor.untyped_storage() for tensor in tensors)
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())
