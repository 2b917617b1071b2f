"""A limit from a fitted model of the step time (``engine_fit``).

Prefill work is fed forward: the running sequences bring r prompt tokens each to a step, so n seats cost

    step(n) = base + n * (sequence + prefill_token * r)

and the proposal is the n where that is the set point. Where prompts are paced besides (``pacing``) it is taken with
half of r, and only bounds what runs: the number that keeps the set point on the mean is known too roughly.

While a limit falls no seat is given until as many have come free, and every class waits; most falls answer a few long
prompts that are over by then. So the limit falls by a twelfth an interval as long as the time between tokens keeps the
SLO, or the pacing sees to it. (TCP falls with the same care: Proportional Rate Reduction, RFC 6937.)

Weak spots: those of ``engine_fit``.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from headway_policies.limits.fit.engine_fit import EngineFit
from headway_policies.limits.limit import Interval, LimitSettings

_BAND_RATIO = 0.03
_FALL_RATIO = 1 / 12
#: Of the set point; while tokens come faster, the growth that is safe on any engine is made.
_FAR_RATIO = 0.75
#: Of the prompts, where they are paced.
_PACED_RATIO = 0.5
#: A start goes no further beyond the sequences that were seen running.
_REACH_RATIO = 1.5
_MAX_SEATS = 65_536


class ModelFit:
    """Proposes the seats at which a step takes as long as the set point says, by the fit of the engine.

    ``engine`` is a fit that its owner feeds; None: one of its own, which it feeds.
    """

    def __init__(self, settings: LimitSettings, fixed: int, engine: EngineFit | None = None) -> None:
        self._settings = settings
        self._fixed = fixed
        self._feeds = engine is None
        self._engine = EngineFit() if engine is None else engine

    def start(self) -> int:
        """The seats to start with: the preset's number, or what the fit says where there is one."""
        unloaded = self._engine.unloaded
        if unloaded is None or not self._engine.most_running:
            return self._fixed
        seats = self._seats(self._settings.set_point_s(0.0, unloaded.token_s))
        if seats is None:
            return self._fixed
        return int(max(1.0, min(seats, max(self._fixed, _REACH_RATIO * self._engine.most_running))))

    def propose(self, seen: Interval, allowed: int) -> int:
        """The seats that meet the set point; ``allowed`` while within a few per cent of them.

        While tokens come far faster than the set point, no fewer than surely meet it: k times as many sequences take at
        most k times as long, whatever a model says that was fitted at a single number of seats.
        """
        if seen.inter_token_s is None or seen.running <= 0:
            return allowed
        if self._feeds:
            self._engine.learn(seen)
        set_point_s = self._settings.set_point_s(seen.pace_spread_ratio, seen.unloaded_token_s)
        if set_point_s == inf:
            return allowed
        seats, surely = self._seats(set_point_s), seen.running * set_point_s / seen.inter_token_s
        if seats is None:  # more seats have cost nothing so far
            reachable = set_point_s > self._engine.costs.base_s
            return int(min(max(allowed, surely), _MAX_SEATS)) if reachable else allowed // 2
        if seen.inter_token_s < _FAR_RATIO * set_point_s:
            seats = max(seats, surely)
            if seats >= allowed + 1:  # also from a single seat, where the band is wider than what is sure
                return int(min(seats, _MAX_SEATS))
        band = max(0.5, _BAND_RATIO * allowed)
        if abs(seats - allowed - 0.5) >= 0.5 + band:
            slo_s = self._settings.slo_s(seen.unloaded_token_s)
            breach = seen.inter_token_s > slo_s and not self._settings.paces
            least = 0.0 if breach else min(allowed - 1, (1 - _FALL_RATIO) * allowed)
            return int(max(least, min(seats, _MAX_SEATS)))
        return allowed

    def learnt(self) -> Mapping[str, float]:
        """The costs of a step and the prefill work for each sequence."""
        return self._engine.learnt()

    def recall(self, learnt: Mapping[str, float]) -> None:
        """Continue from these costs: what new samples cannot tell apart keeps their proportions."""
        self._engine.recall(learnt)

    def _seats(self, set_point_s: float) -> float | None:
        return self._engine.seats(set_point_s, _PACED_RATIO if self._settings.paces else 1.0)
