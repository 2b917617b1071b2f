"""The bounds on a limit policy: which proposals may move the limit, and how far.

A policy proposes from the means of an ``Interval``. The governor applies these rules, in this order:

    kv, preemption   KV near full, or sequences preempted: a tenth fewer than are taken, whatever the proposal; again
                     only once those beyond the last fall have left, or ``_DRAINS_S`` later. Where to compute a sequence
                     anew takes less than a step of one, only as soon as preemptions take ``_WASTE_RATIO`` of the time
    slo              no growth while the time between tokens is over the SLO, however long the queue is
    idle             no change while no request waited for the limit and the SLO is kept: there is nothing to learn. A
                     growth proposed then begins as soon as the seats are taken and a request waits
    saturated        no growth while the GPU computes all the time and the last growth only made the tokens come more
                     slowly: the engine is bound by its compute, and more sequences give no more tokens
    settling         no growth for ``_SETTLE_S`` after a fall, so that the limit does not oscillate
    step             up to twice as many as are taken, or as the next request needs that takes several together; down
                     to half of what is allowed; for ``_CAREFUL_S`` after KV pressure or preemption one seat at a time,
                     since new sequences have yet to fill the cache; and by more than a quarter only as far as requests
                     wait in the queue. Where that has bounded a growth, the limit goes on doubling every
                     ``_GROWTH_STEPS`` engine steps, between the intervals, while the next request has no seats,
                     requests wait and tokens come within the SLO, until it is at the proposal
    min_seats        the preset's lower bound
    ceiling          the preset's upper bound and the engine's capacity; ``kv``: what its KV cache holds

When a running engine reports nothing, the preset's fixed number applies until it reports again (``stale``); the same
while a policy raises or returns no number (``failed``).
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from headway_policies.import_path import FAILURES, cause, find_class
from headway_policies.limits.aimd import Aimd
from headway_policies.limits.fit.engine_fit import EngineFit
from headway_policies.limits.interval import IntervalMeter
from headway_policies.limits.knee import Knee
from headway_policies.limits.learnt import Learns, Learnt
from headway_policies.limits.limit import FixedLimit, Interval, Limit, LimitSettings, Signals
from headway_policies.limits.memory_bound import MemoryBound
from headway_policies.limits.model_fit import ModelFit
from headway_policies.limits.saturation import Saturation
from headway_policies.limits.sla_search import SlaSearch

#: Every value of ``Limit.why``, and ``pacing`` and ``adapter``, with its meaning.
WHYS = {
    "fixed": "fixed by the preset",
    "start": "the preset's number, until there is enough data",
    "recalled": "learnt under another limit or before the restart, until there is enough data",
    "policy": "as the policy proposed",
    "kv": "the KV cache is near full, or has no room for more sequences",
    "preemption": "the engine preempted sequences",
    "slo": "no growth: the time between tokens is over the SLO",
    "saturated": "no growth: the GPU is saturated, and more sequences made tokens slower but no more",
    "settling": "no growth: the limit fell a moment ago",
    "idle": "unchanged: no request waited for the limit",
    "step": "towards the proposal, in bounded steps of at most twice the seats taken",
    "min_seats": "the lowest the preset allows",
    "ceiling": "the highest the preset or the engine allows",
    "pacing": "seats are free: the next prompt waits until the time between tokens bears it, or the engine needs one",
    "adapter": "seats are free: the waiting requests need further LoRA adapters than the engine can run at once",
    "stale": "the preset's number: the engine runs but reports nothing",
    "failed": "the preset's number: the policy raised or returned no number",
}

#: The reasons for which the engine's memory bears no sequence more.
MEMORY_WHYS = frozenset({"kv", "preemption"})

_SETTLE_S = 1.5
_CAREFUL_S = 30.0
_DRAINS_S = 3.0
_FALL_RATIO = 0.9
_STEP_UP_RATIO = 2.0
_GROWTH_STEPS = 2
_STEP_DOWN_RATIO = 0.5
_WASTE_RATIO = 0.15
_MAX_ERROR_CHARS = 160


@dataclass(frozen=True, slots=True)
class LimitFailure:
    """The failures of a limit policy that raised or returned no number: the first error, its time, and the count."""

    policy: str
    error: str
    first_s: float
    times: int = 1


class LimitPolicy(Protocol):
    """Proposes a limit. A custom policy is created as ``Class(settings, fixed)``."""

    def propose(self, seen: Interval, allowed: int) -> int:
        """The proposed seats after this interval; ``allowed`` is the limit so far."""
        ...


class Fixed:
    """Proposes the preset's number; the governor lowers it where the KV cache is too small."""

    def __init__(self, settings: LimitSettings, fixed: int) -> None:
        self._fixed = fixed

    def propose(self, seen: Interval, allowed: int) -> int:
        """The number given."""
        return self._fixed


_POLICIES: dict[str, type[LimitPolicy]] = {"fixed": Fixed, "aimd": Aimd, "sla": SlaSearch}


def make_limit(settings: LimitSettings, fixed: int, ceiling: int | None, engine: EngineFit | None = None) -> Limit:
    """The limit that a preset describes. Raises ValueError for an import path that names no class.

    ``engine`` is what is known of the engine, which its owner feeds; None: a policy that uses it feeds one of its own.
    """
    if not settings.moves:
        return FixedLimit(fixed)
    if settings.policy == "model":
        model = ModelFit(settings, fixed, engine)
        return Governor(model, settings, fixed, ceiling, engine, start=model.start())
    if settings.policy == "knee":
        return Governor(Knee(settings, fixed, engine), settings, fixed, ceiling, engine)
    policy = _POLICIES.get(settings.policy) or find_class(settings.policy)
    return Governor(policy(settings, fixed), settings, fixed, ceiling, engine)


class Governor:
    """A limit policy within bounds.

    ``ceiling`` is the most seats the engine has, ``engine`` its fitted costs, ``start`` what the limit begins with if
    not the preset's number ``fixed``.

    ``failure`` describes the policy's failures so far; None: none.
    """

    def __init__(
        self,
        policy: LimitPolicy,
        settings: LimitSettings,
        fixed: int,
        ceiling: int | None,
        engine: EngineFit | None = None,
        *,
        start: int | None = None,
    ) -> None:
        self.failure: LimitFailure | None = None
        self._policy = policy
        self._learner: Learns | None = None
        with suppress(*FAILURES):
            self._learner = policy if isinstance(policy, Learns) else None
        self._settings = settings
        self._max_seats = max(1, min(bound for bound in (settings.max_seats, ceiling, 65_536) if bound is not None))
        self._min_seats = min(settings.min_seats, self._max_seats)
        self._fixed = self._within(fixed)
        self._allowed = self._within(fixed if start is None else start)
        self._memory = MemoryBound() if settings.memory_aware else None
        self._engine = engine
        self._recompute_s: float | None = None  # of a preempted sequence; None where that is not cheap
        self._meter = IntervalMeter(stall_s=settings.stale_after_s)
        self._saturation = Saturation()
        self._decided = "start" if self._allowed == self._fixed else "recalled"
        self._growing: int | None = None
        self._steps = 0
        self._failed = self._stale = self._running = False
        self._seen_s = self._timed_s = 0.0
        self._grows_from_s = self._careful_until_s = self._fell_s = -math.inf

    @property
    def why(self) -> str:
        """The reason for the current limit: a key of ``WHYS``."""
        return "stale" if self._stale else self._decided

    def seats(self, now_s: float) -> int:
        """The limit in force: the preset's number in shadow mode, the governed one otherwise."""
        return self._fixed if self._settings.shadow else self.proposed(now_s)

    @property
    def stale_s(self) -> float:
        """The time from which the preset's number is the limit unless the engine reports; infinity while none runs."""
        return self._seen_s + self._settings.stale_after_s if self._running else math.inf

    def proposed(self, now_s: float) -> int:
        """The governed limit; the preset's number while signals are stale or the policy fails."""
        self._stale = now_s >= self.stale_s
        return self._fixed if self._stale or self._failed else self._allowed

    def observe(self, signals: Signals, now_s: float) -> None:
        """Add a step where nothing else measures the intervals; decide when it closes one."""
        self.decide(signals, self._meter.add(signals, now_s), now_s)

    def decide(self, signals: Signals, seen: Interval | None, now_s: float) -> None:
        """Follow a step; decide anew where it closed an interval."""
        self._seen_s = now_s
        if signals.load.inter_token_s is not None:
            self._timed_s = now_s
        self._running = signals.load.running > 0
        if seen is not None:
            self._decide(seen, now_s)
        elif self._growing is not None and signals.limited:
            self._grow_on(self._growing, signals)

    def learnt(self) -> Learnt | None:
        """The reached seats and the policy's figures; None before its first decision, and while the policy fails."""
        if self._decided in ("start", "recalled", "failed"):
            return None
        return Learnt(self._allowed, self._policy_numbers())

    def recall(self, learnt: Learnt) -> None:
        """Start from the seats of another process, within this one's bounds."""
        if self._decided == "start":
            self._allowed, self._decided = self._within(learnt.seats), "recalled"
            if self._learner is not None:
                with suppress(*FAILURES):  # it starts without what was learnt
                    self._learner.recall(learnt.policy)

    def _within(self, seats: int) -> int:
        return max(self._min_seats, min(seats, self._max_seats))

    def _policy_numbers(self) -> dict[str, float]:
        """The numbers that the policy keeps; none where a custom one raises, or keeps something that is not finite."""
        try:
            numbers = {} if self._learner is None else dict(self._learner.learnt())
            return {name: float(number) for name, number in numbers.items() if math.isfinite(number)}
        except FAILURES:
            return {}

    def _decide(self, seen: Interval, now_s: float) -> None:
        before = self._allowed
        self._saturation.update(seen)
        try:
            proposal = int(self._policy.propose(seen, before))
        except FAILURES as error:  # a custom policy may raise anything; the reason is "failed"
            self._failed, self._decided, self._allowed = True, "failed", self._fixed
            self._note(error, now_s)
            return
        self._failed, self._growing = False, None
        holds = None
        if self._memory is not None:
            self._memory.observe(seen)
            self._recompute_s = self._cheap_recompute_s(self._memory, seen)
            holds = self._memory.seats(seen, self._usable_kv_ratio, cheap=self._recompute_s is not None)
        if now_s - self._timed_s > self._settings.stale_after_s:  # no token was timed: no reason to stay low
            proposal = max(proposal, self._fixed)
        target, why = self._bounded(seen, proposal, now_s)
        self._allowed, self._decided = self._clamp(holds, target, why)
        careful = now_s < self._careful_until_s
        aim = proposal if holds is None else min(proposal, holds)
        if aim > self._allowed and not careful:
            if self._decided == "step" and self._allowed > before:
                self._growing, self._steps = aim, 0
            elif self._decided == "idle" and now_s >= self._grows_from_s and not self._saturation.saturated:
                self._growing, self._steps = aim, _GROWTH_STEPS  # as soon as a request waits
        if self._allowed < before:
            self._fell_s = now_s
        if self._allowed < before or (careful and self._allowed > before):
            self._grows_from_s = now_s + _SETTLE_S

    def _grow_on(self, proposal: int, signals: Signals) -> None:
        """Take the next bounded step towards a proposal as soon as the seats of the last one are taken, without waiting
        for another interval: while requests wait and tokens come within the SLO.
        """
        self._steps += 1
        between_s, slo_s = signals.load.inter_token_s, self._settings.slo_s(signals.unloaded_token_s)
        wanted = signals.seats_taken + signals.next_seats
        if self._steps < _GROWTH_STEPS or wanted <= self._allowed:
            return
        if signals.load.preemptions or signals.load.kv_usage_ratio > self._usable_kv_ratio:
            self._growing = None
            return
        if between_s is None or between_s > slo_s:  # a step with the prompts of a burst is no reason to end it
            return
        self._allowed = self._within(min(proposal, max(wanted, int(_STEP_UP_RATIO * signals.seats_taken) + 1)))
        self._steps, self._decided = 0, "step"
        if self._allowed >= min(proposal, self._max_seats):
            self._growing = None

    def _note(self, error: BaseException, now_s: float) -> None:
        """Keep the first failure and count all."""
        if self.failure is None:
            self.failure = LimitFailure(self._settings.policy, cause(error)[:_MAX_ERROR_CHARS], now_s)
        else:
            self.failure = replace(self.failure, times=self.failure.times + 1)

    def _bounded(self, seen: Interval, proposal: int, now_s: float) -> tuple[int, str]:
        """The proposal within the rules, and the rule that decided."""
        allowed = self._allowed
        lowest = int(_STEP_DOWN_RATIO * allowed)
        pressure = self._memory_pressure(seen)
        if pressure is not None:
            self._careful_until_s = now_s + _CAREFUL_S
            draining = seen.seats_taken > allowed and now_s < self._fell_s + _DRAINS_S
            fall = allowed if draining else min(allowed, int(_FALL_RATIO * seen.seats_taken))
            return max(lowest, min(proposal, fall)), pressure
        no_change = self._no_change(seen, proposal, now_s)
        if no_change is not None:
            return allowed, no_change
        careful = now_s < self._careful_until_s
        wanted = math.ceil(seen.seats_taken) + seen.next_seats if seen.next_seats > 1 else 0
        highest = allowed + 1 if careful else max(allowed, wanted, int(_STEP_UP_RATIO * seen.seats_taken) + 1)
        highest = min(highest, allowed + max(1, allowed // 4, seen.queued, wanted - allowed))
        target = max(lowest, min(proposal, highest))
        return target, "policy" if target == proposal else "step"

    def _memory_pressure(self, seen: Interval) -> str | None:
        """The reason why the limit must fall at once, or None."""
        waste_s = None if self._recompute_s is None else seen.preemptions * self._recompute_s
        if seen.preemptions and (waste_s is None or waste_s > _WASTE_RATIO * seen.lasted_s):
            return "preemption"
        return "kv" if seen.kv_usage_ratio > self._usable_kv_ratio else None

    @property
    def _usable_kv_ratio(self) -> float:
        """The part of the KV space that sequences may fill."""
        return self._settings.usable_kv_ratio(cheap=self._recompute_s is not None)

    def _cheap_recompute_s(self, memory: MemoryBound, seen: Interval) -> float | None:
        """The time to compute a preempted sequence anew where it is known and less than a step of one sequence.

        A fit in which prompts have cost nothing does not know it.
        """
        unloaded = None if self._engine is None else self._engine.unloaded
        recompute_s = None if unloaded is None else memory.recompute_s(seen, unloaded.prefill_token_s)
        if unloaded is None or recompute_s is None:
            return None
        return recompute_s if 0 < recompute_s <= unloaded.token_s else None

    def _no_change(self, seen: Interval, proposal: int, now_s: float) -> str | None:
        """The reason why the limit may not follow the proposal, or None."""
        slo_s = self._settings.slo_s(seen.unloaded_token_s)
        breach = seen.inter_token_s is not None and seen.inter_token_s > slo_s
        if breach and proposal > self._allowed:
            return "slo"
        if not breach and not seen.limited:
            return "idle"
        if proposal > self._allowed and self._saturation.saturated:
            return "saturated"
        return "settling" if proposal > self._allowed and now_s < self._grows_from_s else None

    def _clamp(self, holds: int | None, target: int, why: str) -> tuple[int, str]:
        """The target within the bounds and the sequences that the KV cache ``holds``, and the reason: that of a bound
        where one applied.
        """
        if holds is not None and holds < target:
            target, why = holds, "kv"
        if target < self._min_seats:
            return self._min_seats, "min_seats"
        return (self._max_seats, "ceiling") if target > self._max_seats else (target, why)
