"""Which proposals may move the limit, and how far?

A policy proposes from the means of an interval (interval); the governor keeps it on rails. In this order:

    kv, preemption   KV near full, or sequences preempted: a tenth fewer than are taken, whatever was proposed
    slo              no growth while the time between tokens is over the SLO: a latency breach beats any load
    idle             nothing moves while the limit held nobody up and the SLO is kept: there is nothing to learn from
    settling         no growth for ``_SETTLE_S`` after a fall, so that the limit does not swing
    step             up to half as many again as are taken, down to half of what is allowed; for ``_CAREFUL_S`` after
                     trouble with memory one seat at a time, since what has just begun has yet to fill the cache
    floor, ceiling   the preset's bounds, what the engine can give, and how many sequences its KV cache holds

When a running engine falls silent the preset's fixed number holds until it reports again (``stale``); so it does while
a policy raises or returns no number (``failed``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

from headway_policies.import_path import FAILURES, cause, find_class
from headway_policies.limits.aimd import Aimd
from headway_policies.limits.interval import Interval, IntervalMeter
from headway_policies.limits.limit import FixedLimit, Limit, LimitSettings, Signals
from headway_policies.limits.memory_bound import MemoryBound
from headway_policies.limits.model_fit import ModelFit
from headway_policies.limits.sla_search import SlaSearch

#: Every word that ``Limit.why`` may be, with its meaning.
WHYS = {
    "fixed": "the preset's number, which nothing moves",
    "start": "the preset's number, until the engine has shown enough",
    "policy": "as the policy proposed",
    "kv": "the KV cache is near full, or holds no more sequences",
    "preemption": "the engine preempted sequences",
    "slo": "no growth: the time between tokens is over the SLO",
    "settling": "no growth: the last fall was a moment ago",
    "idle": "unmoved: the limit held nobody up",
    "step": "towards the proposal, one bounded step at a time",
    "min_seats": "the least the preset allows",
    "ceiling": "the most the preset or the engine allows",
    "stale": "the preset's number: the engine runs but reports nothing",
    "failed": "the preset's number: the policy raised or returned no number",
}

_SETTLE_S = 1.5
_CAREFUL_S = 30.0
_FALL_RATIO = 0.9
_STEP_UP_RATIO = 1.5
_STEP_DOWN_RATIO = 0.5
_MAX_ERROR_CHARS = 160


@dataclass(frozen=True, slots=True)
class LimitFailure:
    """A limit policy that raised, or returned no number: its first error, when that came, and how often it failed."""

    policy: str
    error: str
    first_s: float
    times: int = 1


class LimitPolicy(Protocol):
    """Anything that proposes a limit. A policy of your own is made as ``Class(settings, fixed)``."""

    def propose(self, seen: Interval, allowed: int) -> int:
        """How many seats it would allow after this interval, ``allowed`` being what it allowed before."""
        ...


class Fixed:
    """Proposes the preset's number, for the rails to hold it where the KV cache is too small."""

    def __init__(self, settings: LimitSettings, fixed: int) -> None:
        self._fixed = fixed

    def propose(self, seen: Interval, allowed: int) -> int:
        """The number given."""
        return self._fixed


_POLICIES: dict[str, type[LimitPolicy]] = {"fixed": Fixed, "aimd": Aimd, "sla": SlaSearch, "model": ModelFit}


def make_limit(settings: LimitSettings, fixed: int, ceiling: int | None) -> Limit:
    """The limit that a preset describes. Raises ValueError for an import path that names no class."""
    if settings.policy == "fixed" and not settings.memory_aware:
        return FixedLimit(fixed)
    policy = _POLICIES.get(settings.policy) or find_class(settings.policy)
    return Governor(policy(settings, fixed), settings, fixed, ceiling)


class Governor:
    """A limit policy on rails. ``ceiling`` is the most seats the engine can give.

    ``failure`` says how the policy has failed so far; None as long as it has not.
    """

    def __init__(self, policy: LimitPolicy, settings: LimitSettings, fixed: int, ceiling: int | None) -> None:
        self.failure: LimitFailure | None = None
        self._policy = policy
        self._settings = settings
        self._max_seats = max(1, min(one for one in (settings.max_seats, ceiling, 65_536) if one is not None))
        self._min_seats = min(settings.min_seats, self._max_seats)
        self._fixed = max(self._min_seats, min(fixed, self._max_seats))
        self._allowed = self._fixed
        self._slo_s = settings.inter_token_slo_ms / 1000
        self._memory = MemoryBound(settings.kv_reserve_ratio) if settings.memory_aware else None
        self._meter = IntervalMeter(stall_s=settings.stale_after_s)
        self._decided = "start"
        self._failed = self._stale = self._running = False
        self._seen_s = self._timed_s = 0.0
        self._grows_from_s = self._careful_until_s = -math.inf

    @property
    def why(self) -> str:
        """What settled the last decision, in one word of ``WHYS``."""
        return "stale" if self._stale else self._decided

    def seats(self, now_s: float) -> int:
        """The limit in force: the preset's number in shadow mode, the governed one otherwise."""
        return self._fixed if self._settings.shadow else self.proposed(now_s)

    def proposed(self, now_s: float) -> int:
        """The governed limit; the preset's number while signals are stale or the policy fails."""
        self._stale = self._running and now_s - self._seen_s > self._settings.stale_after_s
        return self._fixed if self._stale or self._failed else self._allowed

    def observe(self, signals: Signals, now_s: float) -> None:
        """Count a step in; decide when it closes an interval."""
        self._seen_s = now_s
        if signals.load.inter_token_s is not None:
            self._timed_s = now_s
        self._running = signals.load.running > 0
        seen = self._meter.add(signals, now_s)
        if seen is not None:
            self._decide(seen, now_s)

    def _decide(self, seen: Interval, now_s: float) -> None:
        before = self._allowed
        try:
            proposal = int(self._policy.propose(seen, before))
        except FAILURES as error:  # whatever a policy of somebody else's raises; told as the reason "failed"
            self._failed, self._decided, self._allowed = True, "failed", self._fixed
            self._note(error, now_s)
            return
        self._failed = False
        if (
            now_s - self._timed_s > self._settings.stale_after_s
        ):  # nothing tells how long tokens take: no reason to stay low
            proposal = max(proposal, self._fixed)
        target, why = self._guard(seen, proposal, now_s)
        self._allowed, self._decided = self._clamp(seen, target, why)
        careful = now_s < self._careful_until_s
        if self._allowed < before or (careful and self._allowed > before):
            self._grows_from_s = now_s + _SETTLE_S

    def _note(self, error: BaseException, now_s: float) -> None:
        """Keep the first failure, and count them."""
        if self.failure is None:
            self.failure = LimitFailure(self._settings.policy, cause(error)[:_MAX_ERROR_CHARS], now_s)
        else:
            self.failure = replace(self.failure, times=self.failure.times + 1)

    def _guard(self, seen: Interval, proposal: int, now_s: float) -> tuple[int, str]:
        """What is left of a proposal, and why."""
        allowed = self._allowed
        lowest = int(_STEP_DOWN_RATIO * allowed)
        trouble = self._trouble(seen)
        if trouble is not None:
            self._careful_until_s = now_s + _CAREFUL_S
            draining = seen.seats_taken > allowed
            fall = allowed if draining else int(_FALL_RATIO * min(allowed, seen.seats_taken))
            return max(lowest, min(proposal, fall)), trouble
        unmoved = self._unmoved(seen, proposal, now_s)
        if unmoved is not None:
            return allowed, unmoved
        careful = now_s < self._careful_until_s
        highest = allowed + 1 if careful else max(allowed, int(_STEP_UP_RATIO * seen.seats_taken) + 1)
        target = max(lowest, min(proposal, highest))
        return target, "policy" if target == proposal else "step"

    def _trouble(self, seen: Interval) -> str | None:
        """Why the limit must fall at once."""
        if seen.preemptions:
            return "preemption"
        return "kv" if seen.kv_usage_ratio > 1 - self._settings.kv_reserve_ratio else None

    def _unmoved(self, seen: Interval, proposal: int, now_s: float) -> str | None:
        """Why the limit may not move the way it is proposed to."""
        breach = seen.inter_token_s is not None and seen.inter_token_s > self._slo_s
        if breach and proposal > self._allowed:
            return "slo"
        if not breach and not seen.limited:
            return "idle"
        return "settling" if proposal > self._allowed and now_s < self._grows_from_s else None

    def _clamp(self, seen: Interval, target: int, why: str) -> tuple[int, str]:
        """The target within the bounds, and the bound if it was one."""
        holds = self._memory.seats(seen) if self._memory is not None else None
        if holds is not None and holds < target:
            target, why = holds, "kv"
        if target < self._min_seats:
            return self._min_seats, "min_seats"
        return (self._max_seats, "ceiling") if target > self._max_seats else (target, why)
