"""The check whether memory allows a second engine beside the present one.

    host     the memory of the engine's processes, and on a CPU what they have allocated and not touched yet (vLLM's KV
             cache): with a tenth more, less than what is free on the machine and within its control groups
    device   what the configuration claims of each card, less than what is free there

The check is an estimate: what cannot be known, such as the free memory of a device that NVML does not see, counts as
not enough. Known weak spot: memory nodes are not told apart, so that a worker bound to a node may find less.
"""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import psutil

from headway.control_groups import memory_free
from headway.supervision import Gpus
from headway.vllm_adapter.process.core_start import processes
from headway.vllm_adapter.process.progress import on_a_cpu

_MARGIN = 1.1
_GIB = 2**30
_LARGE = 16 * 2**20  # the stack of a thread is smaller
_ANONYMOUS = "[anon]"


def why_no_spare(client: Any) -> str:
    """The reason why no second engine can run beside this client's; empty where it can. Slow: call it on a thread."""
    config, engine = client.vllm_config, processes(client.engine_core)
    return _not_twice(config) or _host_shortage(config, engine) or _device_shortage(config, engine)


def _not_twice(config: Any) -> str:
    """The parts of this configuration that cannot exist twice: fixed ports, and processes on other machines."""
    parallel = config.parallel_config
    if parallel.data_parallel_size > 1 or getattr(parallel, "nnodes", 1) > 1:
        return "the engine has several cores or machines"
    if parallel.distributed_executor_backend not in ("mp", "uni"):
        return f"the engine's executor is {parallel.distributed_executor_backend!s:.40}"
    if getattr(config, "kv_transfer_config", None) is not None or getattr(config, "kv_events_config", None) is not None:
        return "the engine's KV cache is connected to other engines, by fixed ports"
    return ""


def _host_shortage(config: Any, engine: list[psutil.Process]) -> str:
    own_bytes = sum(_own_bytes(process) for process in engine)
    needed_bytes = int(_MARGIN * (own_bytes + (_untouched_kv_bytes(config, engine) if on_a_cpu() else 0)))
    limit_bytes, free_bytes = memory_free(), psutil.virtual_memory().available
    return _shortage("memory", needed_bytes, free_bytes if limit_bytes is None else min(limit_bytes, free_bytes))


def _untouched_kv_bytes(config: Any, engine: list[psutil.Process]) -> int:
    """The memory that the KV cache may still take: as much as is untouched, at most the configured cache."""
    set_bytes = getattr(config.cache_config, "kv_cache_memory_bytes", None)
    untouched_bytes = sum(_untouched_bytes(process) for process in engine)
    return untouched_bytes if set_bytes is None else min(untouched_bytes, config.parallel_config.world_size * set_bytes)


def _device_shortage(config: Any, engine: list[psutil.Process]) -> str:
    if on_a_cpu():
        return ""
    cards = Gpus().read_of({process.pid for process in engine})
    if not cards:
        return "the free memory of its device is not known"
    ratio = config.cache_config.gpu_memory_utilization
    wanting = (
        _shortage("GPU memory", math.ceil(ratio * card.total_bytes), card.total_bytes - card.used_bytes)
        for card in cards
    )
    return next(filter(None, wanting), "")


def _shortage(what: str, needed_bytes: int, free_bytes: int) -> str:
    if free_bytes > needed_bytes:
        return ""
    return f"not enough {what}, needs {needed_bytes / _GIB:.1f} GiB, free {free_bytes / _GIB:.1f} GiB"


def _own_bytes(process: psutil.Process) -> int:
    """The memory of a process, with its part of shared memory where the system says; 0 where it has ended."""
    with suppress(psutil.Error):
        full = process.memory_full_info()
        return int(getattr(full, "pss", full.rss))
    return 0


def _untouched_bytes(process: psutil.Process) -> int:
    """Memory that a process has allocated in large pieces and not touched yet; 0 where it has ended."""
    with suppress(psutil.Error):
        maps = process.memory_maps(grouped=False)
        large = (
            region
            for region in maps
            if region.path == _ANONYMOUS and region.perms.startswith("rw") and region.size >= _LARGE
        )
        return sum(max(0, region.size - region.rss) for region in large)
    return 0
