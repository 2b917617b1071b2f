"""The settings of the memory rules."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

_GIB = 2**30


class Cache(StrEnum):
    """The caches that can be cleared: two caches of the engine, and the server's own heap."""

    PREFIX = "prefix"
    WORKER = "worker"
    HEAP = "heap"


_Cache = Annotated[Cache, Field(strict=False)]  # TOML has lists of strings only


class Memory(BaseModel):
    """``[memory]`` of a preset. A usage ratio of 1 turns its rule off, and so does leaving out a ``recycle_`` key."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    check_interval_s: float = Field(default=5.0, ge=0.1, le=3600)
    kv_usage_ratio: float = Field(default=0.98, gt=0, le=1)
    gpu_usage_ratio: float = Field(default=0.98, gt=0, le=1)
    leave_ratio: float = Field(default=0.9, gt=0, lt=1)
    lower_after_s: float = Field(default=10.0, ge=0, le=3600)
    raise_after_s: float = Field(default=30.0, ge=0, le=3600)
    decrease_ratio: float = Field(default=0.8, gt=0, lt=1)
    min_ratio: float = Field(default=0.5, gt=0, le=1)
    caches: tuple[_Cache, ...] = Field(default=(Cache.WORKER,), strict=False)
    clear_every_s: float = Field(default=300.0, ge=1, le=86_400)
    large_job_tokens: int = Field(default=32_768, ge=1, le=100_000_000)
    clear_every_requests: int | None = Field(default=None, ge=1, le=1_000_000_000)
    clear_max_running: int = Field(default=0, ge=0, le=65_536)
    server_growth_bytes: int = Field(default=_GIB, ge=2**20, le=2**50)
    recycle_every_s: float | None = Field(default=None, ge=60, le=31_536_000)
    recycle_growth_bytes: int | None = Field(default=None, ge=2**20, le=2**50)
    recycle_drain_s: float = Field(default=300.0, ge=0, le=86_400)
