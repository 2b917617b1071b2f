"""The memory of vLLM's CPU backend: what is free for each worker, and the KV cache that is made of it.

vLLM's own choice is nine tenths of *all* memory of a node, and it ends with an error where less is free. There, and for
a quick start, which would spend seconds to fill so much, chosen is half of the free memory that the weights and vLLM's
processes leave, in whole GiB. Where vLLM's own choice fits it stays: a smaller cache holds fewer sequences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from headway_tools.console import Machine, model_of

SPACE: Final = "VLLM_CPU_KVCACHE_SPACE"
_GIB = 2**30
_WORKER_BYTES = _GIB  # a worker without weights: 1 GiB was seen
_FRONT_END_BYTES = 2 * _GIB  # API server and EngineCore: 1.6 GiB was seen
_API_SERVER_BYTES = _GIB  # each beside the first: 0.75 GiB was seen
_WEIGHTS_GROWTH = 1.2  # weights in memory, beside what loading them takes
_VLLM_RATIO = 0.92  # of a node's memory: vLLM's own choice (config/cache.py, gpu_memory_utilization)
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")


@dataclass(frozen=True, slots=True)
class WorkerMemory:
    """The bytes of one worker's share: those that are free, and what vLLM's front end and the weights take of them."""

    free: int
    front_end: int
    weights: float

    @classmethod
    def of(cls, machine: Machine, engine: Sequence[str], workers: int, api_servers: int) -> WorkerMemory:
        """The share of each of so many workers: vLLM gives it a memory node, and looks at that node alone."""
        by_node = min(machine.node_bytes) // math.ceil(workers / len(machine.node_bytes))
        free = by_node if machine.group_bytes is None else min(by_node, machine.group_bytes // workers)
        front_end = _FRONT_END_BYTES + _API_SERVER_BYTES * (api_servers - 1) // workers
        return cls(free, front_end, _WEIGHTS_GROWTH * _weight_bytes(engine) / workers)

    def with_twice_the_weights(self) -> WorkerMemory:
        """The share of a worker whose weights are loaded in a type of twice the size."""
        return replace(self, weights=2 * self.weights)

    @property
    def left(self) -> int:
        """The bytes beside weights and processes; below 0 where even those do not fit."""
        return self.free - self.front_end - _WORKER_BYTES - int(self.weights)

    @property
    def is_enough(self) -> bool:
        """Whether the smallest KV cache fits."""
        return self.left >= _GIB

    def space_gib(self) -> int:
        """Half of what is left, at least 1: an estimate must not refuse what may work."""
        return max(1, self.left // (2 * _GIB))

    def reason(self) -> str:
        """The choice in words."""
        return f"{SPACE}={self.space_gib()} (GiB, of {self.free / _GIB:.1f} free)"

    def warning(self) -> str:
        """The numbers of a machine that may be too small."""
        return (
            f"only {self.free / _GIB:.1f} GiB of memory are free for each worker; the weights and vLLM's processes "
            f"need about {(self.free - self.left) / _GIB:.1f} GiB, the KV cache 1 GiB or more: free some, or take a "
            "smaller model"
        )


def vllms_own_fits(machine: Machine, workers: int, front_end_bytes: int) -> bool:
    """Whether vLLM's own share of each worker's node is free beside the front end, so that it starts by itself."""
    if workers > len(machine.node_sizes):
        return False
    own = [math.ceil(_VLLM_RATIO * size) for size in machine.node_sizes]
    fits = all(free - front_end_bytes >= share for free, share in zip(machine.node_bytes, own, strict=True))
    return fits and (machine.group_bytes is None or machine.group_bytes - front_end_bytes >= workers * max(own))


def _weight_bytes(engine: Sequence[str]) -> int:
    """The size of the weights in a local folder; 0 where they are not here yet."""
    folder = Path(model_of(engine) or "")
    for pattern in _WEIGHTS:
        if model_of(engine) and (files := list(folder.glob(pattern))):
            return sum(file.stat().st_size for file in files if file.is_file())
    return 0
