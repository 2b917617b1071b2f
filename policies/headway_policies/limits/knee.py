"""A limit that grows as long as more sequences give more tokens a second.

By the fitted step time (``engine_fit``) b sequences give b / (base + c b) tokens a second. An increase of the sequences
by one per cent gives ``base / (base + c b)`` per cent more tokens: the elasticity, 1 for a single sequence on most
engines, and 0 where a step takes as long as its sequences cost. The limit doubles while requests wait for it, and ends
where the elasticity has fallen to ``_LEAST_ELASTICITY``: all that further sequences could add to the tokens a second is
that share. Doubling like this is the start-up of BBR (Cardwell et al., ACM Queue 2016), which doubles its rate until
the delivered one stops growing; there the end is seen in three round trips, here it follows from the fit.

A fit in which steps have no fixed cost is one of too few kinds of steps, and says nothing of the knee: the limit stays.

No objective is kept: the time between tokens is what the knee makes it. The capacity of the KV cache and a preemption
bound the limit as they do under every policy (``governor``). Weak spots: those of ``engine_fit``.
"""

from __future__ import annotations

from collections.abc import Mapping

from headway_policies.limits.fit.engine_fit import EngineFit
from headway_policies.limits.limit import Interval, LimitSettings

_LEAST_ELASTICITY = 0.02
_MAX_SEATS = 65_536


class Knee:
    """Proposes the seats at the knee of the engine's fit.

    ``engine`` is a fit that its owner feeds; None: one of its own, which it feeds.
    """

    def __init__(self, settings: LimitSettings, fixed: int, engine: EngineFit | None = None) -> None:
        self._feeds = engine is None
        self._engine = EngineFit() if engine is None else engine
        self._fixed = fixed

    def propose(self, seen: Interval, allowed: int) -> int:
        """The seats at the knee, no fewer than the preset's; the governor doubles the limit until there."""
        if seen.inter_token_s is None or seen.running <= 0:
            return allowed
        if self._feeds:
            self._engine.learn(seen)
        knee = self._engine.seats_at(_LEAST_ELASTICITY)
        if knee is None:
            return _MAX_SEATS
        return int(min(max(knee, self._fixed), _MAX_SEATS)) if knee > 0 else allowed

    def learnt(self) -> Mapping[str, float]:
        """The costs of a step and the prefill work for each sequence."""
        return self._engine.learnt()

    def recall(self, learnt: Mapping[str, float]) -> None:
        """Continue from these costs."""
        self._engine.recall(learnt)
