"""The protocol of a limit, its inputs and its settings.

A limit computes a number; the desk enforces it (the split of Netflix's concurrency-limits). Its inputs are what the
engine reports step by step: the time between tokens, KV use, preemptions, lengths. Never the end-to-end latency, which
grows with the length of the answers and with every batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Annotated, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, Field

from headway_policies.import_path import named_policy
from headway_policies.limits.learnt import Learnt
from headway_policies.request import InterTokenObjective, resolve

_NORMAL_95 = 1.645  # standard deviations
_MEASURED_RATIO = 0.95
_KV_RESERVE_RATIO = 0.05


class RankLoad(NamedTuple):
    """The load of one rank of an engine after its last step. ``deferred`` as in ``Load``."""

    running: int
    waiting: int
    deferred: int
    kv_usage_ratio: float


@dataclass(frozen=True, slots=True)
class Load:
    """The engine's report of one step, or of ``steps`` equal ones.

    ``inter_token_s`` is the mean time since the previous token over the sequences that had one before; None when no
    sequence did. ``prefill_tokens`` are the prompt tokens computed in the step. ``gpu_busy_ratio`` is the share of time
    in which the busiest GPU computed, read every few seconds; None without a GPU. Of ``prefix_queried_tokens`` prompt
    tokens of new sequences the engine found ``prefix_hit_tokens`` in its prefix cache; ``prefix_cleared``: it was
    emptied. ``first_tokens`` sequences had their first token; None where the engine does not say. Of those that are
    ``waiting``, ``deferred`` wait for what no room in the engine gives them: a grammar, KV blocks from elsewhere. Of an
    engine with several ranks ``rank`` made the step, and ``own`` is its load; the rest is the load of all of them.
    """

    running: int
    waiting: int
    kv_usage_ratio: float
    inter_token_s: float | None = None
    prefill_tokens: int = 0
    preemptions: int = 0
    kv_capacity_tokens: int | None = None
    gpu_busy_ratio: float | None = None
    prefix_queried_tokens: int = 0
    prefix_hit_tokens: int = 0
    prefix_cleared: bool = False
    first_tokens: int | None = None
    steps: int = 1
    deferred: int = 0
    rank: int = 0
    own: RankLoad | None = None


@dataclass(frozen=True, slots=True)
class Signals:
    """The load of a step, with the desk's state at that moment.

    ``limited``: since the last step a request waited for no other reason than the limit; ``next_seats``: the most that
    such a request would have taken together, 1 where its number did not matter. The means are over finished requests,
    in tokens a sequence; 0 while nothing has finished. ``sequence_tokens_std`` is the standard deviation of prompt +
    output tokens of a sequence, ``pace_spread_ratio`` the coefficient of variation of the mean times between tokens of
    single requests. ``unloaded_token_s`` is the engine's time between tokens of a single sequence, None while not
    known.
    """

    load: Load
    seats_taken: int
    queued: int
    limited: bool
    prompt_tokens_mean: float = 0.0
    output_tokens_mean: float = 0.0
    sequence_tokens_std: float = 0.0
    pace_spread_ratio: float = 0.0
    unloaded_token_s: float | None = None
    next_seats: int = 1


@dataclass(frozen=True, slots=True)
class Interval:
    """Means per step over an interval, and the last values at its end.

    ``inter_token_s`` is None when no step had one. ``preemptions`` is their sum. ``limited``: a request waited for no
    other reason than the limit, ``next_seats``: the most that one would have taken together. Lengths are in tokens a
    sequence, 0 while unknown. ``gpu_busy_ratio`` is the last that was read, None without a GPU. ``unloaded_token_s`` is
    the time between tokens of a single sequence, None while not known. ``lasted_s``: the length of the interval.
    """

    running: float
    seats_taken: float
    prefill_tokens: float
    kv_usage_ratio: float
    inter_token_s: float | None = None
    preemptions: int = 0
    limited: bool = False
    queued: int = 0
    kv_capacity_tokens: int | None = None
    prompt_tokens_mean: float = 0.0
    output_tokens_mean: float = 0.0
    sequence_tokens_std: float = 0.0
    gpu_busy_ratio: float | None = None
    pace_spread_ratio: float = 0.0
    unloaded_token_s: float | None = None
    next_seats: int = 1
    lasted_s: float = 0.0


class Limit(Protocol):
    """Decides how many seats may be taken."""

    @property
    def why(self) -> str:
        """The reason for the current limit: a key of ``governor.WHYS``."""
        ...

    def seats(self, now_s: float) -> int:
        """The number of seats allowed now, at least 1."""
        ...

    def proposed(self, now_s: float) -> int:
        """The number it would allow without shadow mode; equal to ``seats`` otherwise."""
        ...

    def observe(self, signals: Signals, now_s: float) -> None:
        """Learn from one engine step, where the limit stands alone."""
        ...

    def decide(self, signals: Signals, seen: Interval | None, now_s: float) -> None:
        """Learn from a step, or equal ones, and from the interval that it closed, if any, which the fit has learnt."""
        ...

    def learnt(self) -> Learnt | None:
        """The learnt figures, for another process; None before any."""
        ...

    def recall(self, learnt: Learnt) -> None:
        """Start from the learnt figures of another process. To be called before the first step."""
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
        """Learn nothing."""

    def decide(self, signals: Signals, seen: Interval | None, now_s: float) -> None:
        """Decide nothing."""

    def learnt(self) -> Learnt | None:
        """Keep nothing."""
        return None

    def recall(self, learnt: Learnt) -> None:
        """The number stays."""


class LimitSettings(BaseModel):
    """``[limit]`` of a preset: which policy sets the limit, and within which bounds.

    ``policy``: ``fixed``, ``aimd``, ``sla`` (noisy binary search, arXiv 2503.05248), ``model`` (fitted step time),
    ``knee`` (as long as more sequences give more tokens), or the import path ``package.module:Class`` of a custom
    policy. ``inter_token_slo_ms`` is the time between tokens that must hold, absolute or relative to the engine
    (``request.objective``), where it is left out the shortest one of the classes; the policies but ``knee`` aim at
    ``set_point_ratio`` of it, or, unless prompts are paced, at less where requests differ so much that it takes less
    for 19 of 20 to keep it. A ``fixed`` limit keeps none; advice on a server's traffic compares with it all the same.
    ``pace_prompts``: the policy ``model`` spreads prompts besides, as far as the time between tokens bears them, and
    ``knee`` sends no more of them than the engine has use for.
    ``memory_aware`` adds the bound by KV space, of which ``kv_reserve_ratio`` stays free: left out 5 %, nothing
    where preemptions are cheap (``governor``). ``shadow`` computes and reports the limit but applies the fixed one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    policy: Annotated[str, named_policy("fixed", "aimd", "sla", "model", "knee")] = "fixed"
    pace_prompts: bool = True
    memory_aware: bool = False
    inter_token_slo_ms: InterTokenObjective = 75.0
    set_point_ratio: float = Field(default=0.92, gt=0, le=1)
    min_seats: int = Field(default=1, ge=1, le=65_536)
    max_seats: int | None = Field(default=None, ge=1, le=65_536)
    kv_reserve_ratio: float | None = Field(default=None, ge=0, lt=1)
    stale_after_s: float = Field(default=10.0, gt=0, le=3600)
    shadow: bool = False

    def slo_s(self, unloaded_token_s: float | None) -> float:
        """The objective on an engine that takes so long for a token of a single sequence; infinite while a relative
        one cannot be resolved, and under ``knee``, which keeps none.
        """
        if self.policy == "knee":
            return inf
        if unloaded_token_s is None:
            return inf if isinstance(self.inter_token_slo_ms, str) else self.inter_token_slo_ms / 1000
        return resolve(self.inter_token_slo_ms, 1000 * unloaded_token_s) / 1000

    def set_point_s(self, pace_spread_ratio: float, unloaded_token_s: float | None = None) -> float:
        """The mean time between tokens to aim at: so far below the objective that 19 of 20 requests keep it.

        Their paces, of this coefficient of variation, are taken for normally distributed. Where prompts are paced it is
        ``set_point_ratio`` alone: what then still differs are short answers, and a lower aim would not help them. Under
        a relative objective it is less by ``_MEASURED_RATIO``: what the engine takes alone is known to some per cent.
        """
        ratio = self.set_point_ratio
        if isinstance(self.inter_token_slo_ms, str):
            ratio *= _MEASURED_RATIO
        if not self.paces:
            ratio = min(ratio, 1 / (1 + _NORMAL_95 * pace_spread_ratio))
        return ratio * self.slo_s(unloaded_token_s)

    def usable_kv_ratio(self, *, cheap: bool = False) -> float:
        """The part of the KV space that sequences may fill; ``cheap``: preemptions are."""
        if self.kv_reserve_ratio is None:
            return 1.0 if cheap else 1 - _KV_RESERVE_RATIO
        return 1 - self.kv_reserve_ratio

    @property
    def moves(self) -> bool:
        """Whether the limit follows the engine's steps: an adaptive policy, or the memory."""
        return self.policy != "fixed" or self.memory_aware

    @property
    def paces(self) -> bool:
        """Whether prompts are paced as well: by the policies that know what they cost."""
        return self.policy in ("model", "knee") and self.pace_prompts and not self.shadow
