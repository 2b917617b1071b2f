"""The actions that are taken when memory becomes short.

    condition                               action
    KV cache over ``kv_usage_ratio``        fewer seats; the engine evicts cached prefixes by itself
    GPU memory over ``gpu_usage_ratio``     fewer seats, and the caches are cleared
    a job of ``large_job_tokens`` ended     the caches are cleared as soon as at most ``clear_max_running`` run
    ``clear_every_requests`` have ended     the same; off unless it is set
    server grown by ``server_growth_bytes`` its heap is trimmed then, and growth counts anew from what is left
    engine grown by ``recycle_growth_bytes``, or older than ``recycle_every_s``: it is replaced

Clearing slows the next requests, so it happens at most once in ``clear_every_s``. The GPU threshold is never below what
the engine holds from its start plus half of what that leaves free. Growth is counted from the first reading, to be
taken when the engine is warm; a full queue does not count as growth. Known weak spot: on a CPU an engine grows by its
whole KV cache while that is first filled.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from headway_policies.memory.seat_cap import SeatCap
from headway_policies.memory.settings import Cache, Memory

_REPLACE_AGAIN_S = 600.0  # an engine that is large from the start is not replaced over and over


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """Memory use at one moment.

    ``gpu_usage_ratio`` is of the fullest card, None without one. ``largest_job_tokens`` is the largest sequence, prompt
    and output, that has ended since the last reading; 0 when none has. ``requests`` have been completed since the
    server started.
    """

    running: int = 0
    kv_usage_ratio: float = 0.0
    gpu_usage_ratio: float | None = None
    server_bytes: int = 0
    engine_bytes: int = 0
    queue_bytes: int = 0
    largest_job_tokens: int = 0
    requests: int = 0


@dataclass(frozen=True, slots=True)
class CapSeats:
    """Use this share of the limit from now on."""

    ratio: float


@dataclass(frozen=True, slots=True)
class Clear:
    """Clear these caches now; ``why`` is ``GPU memory``, ``growth``, ``large job`` or ``requests``."""

    caches: tuple[Cache, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Recycle:
    """Replace the engine; ``why`` is ``schedule`` or ``growth``."""

    why: str


Remedy = CapSeats | Clear | Recycle


@dataclass(frozen=True, slots=True)
class _Thresholds:
    """A usage ratio is under pressure above ``high``, and back to normal at or below ``low``."""

    high: float
    low: float

    @classmethod
    def above(cls, base_ratio: float, threshold_ratio: float, leave_ratio: float) -> _Thresholds:
        """The thresholds of a ratio that never falls below ``base_ratio``."""
        high = 1.0 if threshold_ratio >= 1 else max(threshold_ratio, (1 + base_ratio) / 2)
        return cls(high, base_ratio + leave_ratio * (high - base_ratio))


class MemoryPolicy:
    """Remembers the memory use of the warm engine, and the actions since."""

    def __init__(self, now_s: float) -> None:
        self._cap = SeatCap()
        self._replaced_s = now_s
        self._cleared_s = -math.inf
        self._large_job = False
        self._cleared_requests: int | None = None
        self._gpu_base_ratio: float | None = None
        self._server_base_bytes: int | None = None
        self._engine_base_bytes: int | None = None

    def update(self, reading: MemoryReading, config: Memory, now_s: float) -> list[Remedy]:
        """The actions that follow from a reading; the cap only when it changed. To be called every few seconds."""
        self._remember(reading, config)
        return [
            *self._check_seats(reading, config, now_s),
            *self._check_caches(reading, config, now_s),
            *self._check_engine(reading, config, now_s),
        ]

    def replaced(self, now_s: float) -> None:
        """The engine was replaced, for any reason: its age and its size count from now on."""
        self._replaced_s = now_s
        self._engine_base_bytes = self._gpu_base_ratio = None

    # ------------------------------------------------------------------ inside

    def _remember(self, reading: MemoryReading, config: Memory) -> None:
        self._large_job = self._large_job or reading.largest_job_tokens >= config.large_job_tokens
        if self._cleared_requests is None:
            self._cleared_requests = reading.requests
        if self._gpu_base_ratio is None:
            self._gpu_base_ratio = reading.gpu_usage_ratio
        if self._server_base_bytes is None:
            self._server_base_bytes = _own_bytes(reading)
        if self._engine_base_bytes is None:
            self._engine_base_bytes = reading.engine_bytes

    def _check_seats(self, reading: MemoryReading, config: Memory, now_s: float) -> Iterator[Remedy]:
        before = self._cap.ratio
        kv = _Thresholds(config.kv_usage_ratio, config.leave_ratio * config.kv_usage_ratio)
        gpu, gpu_ratio = self._gpu(config), reading.gpu_usage_ratio or 0.0
        pressed = reading.kv_usage_ratio > kv.high or gpu_ratio > gpu.high
        kv_quiet = reading.kv_usage_ratio <= kv.low or kv.high >= 1  # a ratio of 1 turns its rule off
        quiet = kv_quiet and (gpu_ratio <= gpu.low or config.gpu_usage_ratio >= 1)
        if self._cap.update(config, now_s, pressed=pressed, quiet=quiet) != before:
            yield CapSeats(self._cap.ratio)

    def _check_caches(self, reading: MemoryReading, config: Memory, now_s: float) -> Iterator[Remedy]:
        if now_s < self._cleared_s + config.clear_every_s:
            return
        caches, why = self._to_clear(reading, config)
        if not caches:
            return
        self._cleared_s = now_s
        if Cache.HEAP in caches:
            self._server_base_bytes = None
        if why != "growth":
            self._large_job, self._cleared_requests = False, reading.requests
        yield Clear(caches, why)

    def _to_clear(self, reading: MemoryReading, config: Memory) -> tuple[tuple[Cache, ...], str]:
        """The most urgent rule that applies; the others follow at later readings."""
        if (reading.gpu_usage_ratio or 0.0) > self._gpu(config).high and config.caches:
            return config.caches, "GPU memory"
        if reading.running > config.clear_max_running:
            return (), ""
        if _own_bytes(reading) - (self._server_base_bytes or 0) > config.server_growth_bytes:
            return (Cache.HEAP,), "growth"
        if self._large_job:
            return config.caches, "large job"
        every, ended = config.clear_every_requests, reading.requests - (self._cleared_requests or 0)
        return (config.caches, "requests") if every is not None and ended >= every else ((), "")

    def _check_engine(self, reading: MemoryReading, config: Memory, now_s: float) -> Iterator[Remedy]:
        age_s = now_s - self._replaced_s
        grown_bytes = reading.engine_bytes - (self._engine_base_bytes or 0)
        too_old = config.recycle_every_s is not None and age_s >= config.recycle_every_s
        too_large = config.recycle_growth_bytes is not None and grown_bytes > config.recycle_growth_bytes
        if too_old or (too_large and age_s >= _REPLACE_AGAIN_S):
            self._replaced_s = now_s  # also where the replacement fails, so that it is not requested again at once
            yield Recycle("schedule" if too_old else "growth")

    def _gpu(self, config: Memory) -> _Thresholds:
        return _Thresholds.above(self._gpu_base_ratio or 0.0, config.gpu_usage_ratio, config.leave_ratio)


def _own_bytes(reading: MemoryReading) -> int:
    """The server's memory without what its queue holds."""
    return reading.server_bytes - reading.queue_bytes
