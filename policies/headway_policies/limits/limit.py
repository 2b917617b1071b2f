"""The protocol of a limit, its inputs and its settings.

A limit computes a number; the desk enforces it (the split of Netflix's concurrency-limits). Its inputs are what the
engine reports step by step: the time between tokens, KV use, preemptions, lengths. Never the end-to-end latency, which
grows with the length of the answers and with every batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field


@dataclass(frozen=True, slots=True)
class Load:
    """What the engine reported for one step.

    ``inter_token_s`` is the mean time since the previous token over the sequences that had one before; None when no
    sequence did. ``prefill_tokens`` are the prompt tokens computed in the step. ``gpu_busy_ratio`` is the share of time
    in which the busiest GPU computed, read every few seconds; None without a GPU.
    """

    running: int
    waiting: int
    kv_usage_ratio: float
    inter_token_s: float | None = None
    prefill_tokens: int = 0
    preemptions: int = 0
    kv_capacity_tokens: int | None = None
    gpu_busy_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Signals:
    """One step's load, with the desk's state at that moment.

    ``limited``: since the last step a request waited for no other reason than the limit. The means are over
    finished requests, in tokens a sequence; 0 while nothing has finished. ``sequence_tokens_std`` is the standard
    deviation of prompt + output tokens of a sequence.
    """

    load: Load
    seats_taken: int
    queued: int
    limited: bool
    prompt_tokens_mean: float = 0.0
    output_tokens_mean: float = 0.0
    sequence_tokens_std: float = 0.0


class Limit(Protocol):
    """Decides how many seats may be taken."""

    @property
    def why(self) -> str:
        """What decided the current limit: a key of ``governor.WHYS``."""
        ...

    def seats(self, now_s: float) -> int:
        """The number of seats allowed now, at least 1."""
        ...

    def proposed(self, now_s: float) -> int:
        """The number it would allow without shadow mode; equal to ``seats`` otherwise."""
        ...

    def observe(self, signals: Signals, now_s: float) -> None:
        """Learn from one engine step."""
        ...


@dataclass(frozen=True, slots=True)
class FixedLimit:
    """A constant limit."""

    allowed: int
    why: str = "fixed"

    def seats(self, now_s: float) -> int:
        """The number given."""
        return self.allowed

    def proposed(self, now_s: float) -> int:
        """The number given."""
        return self.allowed

    def observe(self, signals: Signals, now_s: float) -> None:
        """Nothing to learn."""


class LimitSettings(BaseModel):
    """``[limit]`` of a preset: which policy sets the limit, and within which bounds.

    ``policy``: ``fixed``, ``aimd``, ``sla`` (noisy binary search, arXiv 2503.05248), ``model`` (fitted step time), or
    the import path ``package.module:Class`` of a custom policy. ``inter_token_slo_ms`` is the time between tokens
    that must hold, where it is left out the shortest one of the classes; the policies aim at ``set_point_ratio`` of it.
    ``memory_aware`` adds the bound by KV space. ``shadow`` computes and reports the limit but applies the fixed one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    policy: str = Field(default="fixed", pattern=r"^(fixed|aimd|sla|model|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$")
    memory_aware: bool = False
    inter_token_slo_ms: float = Field(default=75.0, gt=0, le=60_000)
    set_point_ratio: float = Field(default=0.92, gt=0, le=1)
    min_seats: int = Field(default=1, ge=1, le=65_536)
    max_seats: int | None = Field(default=None, ge=1, le=65_536)
    kv_reserve_ratio: float = Field(default=0.05, ge=0, lt=1)
    stale_after_s: float = Field(default=10.0, gt=0, le=3600)
    shadow: bool = False
