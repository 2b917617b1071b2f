"""What a check ran on, and what the GPUs did meanwhile: names and numbers, no host, no user, no serial number."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import platform
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from statistics import mean, pstdev
from typing import Any

from serving.machine import processor

from headway.release import version, vllm_version
from headway_tools.doctor.gpus import asked, gpus

_LOOK_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class GpuLoad:
    """The load of a GPU now; None for what its driver does not tell, such as of a slice of a card (MIG)."""

    memory_mib: float | None
    busy_percent: float | None
    power_w: float | None


def gpu_loads() -> list[GpuLoad]:
    """The load of each GPU now. Raises OSError where the driver does not say."""
    lines = asked("memory.used,utilization.gpu,power.draw", "csv,noheader,nounits")
    return [GpuLoad(*(_number(cell) for cell in (*line.split(","), "", "", "")[:3])) for line in lines]


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def versions() -> dict[str, Any]:
    """The GPUs with their driver, and the versions of all that takes part."""
    import torch

    found: dict[str, Any] = {
        "headway": version(),
        "vllm": vllm_version(),
        "python": platform.python_version(),
        "torch": importlib.metadata.version("torch"),
        "cuda": torch.version.cuda,
        "processor": processor(),
        "cores": os.cpu_count(),
        "gpus": [],
    }
    with suppress(OSError):
        lines = [line.split(", ") for line in gpus()]
        found["gpus"] = [{"name": one[0], "memory": one[1]} for one in lines]
        found["driver"] = lines[0][-1] if lines else None
    return found


@asynccontextmanager
async def watched(figures: dict[str, Any]) -> AsyncIterator[None]:
    """Put into ``figures`` at the end what each GPU used; nothing where there is none."""
    seen: list[list[GpuLoad]] = []
    looking = asyncio.create_task(_look(seen))
    try:
        yield
    finally:
        looking.cancel()
        if found := [_over_time(list(one)) for one in zip(*seen, strict=False)]:
            figures["gpus"] = found


async def _look(seen: list[list[GpuLoad]]) -> None:
    while True:
        with suppress(OSError):
            seen.append(await asyncio.to_thread(gpu_loads))
        await asyncio.sleep(_LOOK_EVERY_S)


def _over_time(loads: list[GpuLoad]) -> dict[str, float | None]:
    """The most memory, and the mean of the rest, of one GPU; None for what its driver does not tell.

    ``busy_cv`` says how steadily it computed: the coefficient of variation of the readings, 0 where all are the same.
    """
    memory, busy, power = (
        [value for one in loads if (value := getattr(one, name)) is not None]
        for name in ("memory_mib", "busy_percent", "power_w")
    )
    return {
        "most_memory_mib": max(memory, default=None),
        "busy_percent": round(mean(busy), 1) if busy else None,
        "busy_cv": round(pstdev(busy) / mean(busy), 3) if any(busy) else None,
        "power_w": round(mean(power), 1) if power else None,
    }
