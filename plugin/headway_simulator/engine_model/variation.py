"""The variation of an engine's speed, so that a policy can be judged on an engine that is not steady.

    EngineModel(variation=Variation(slow=((6.0, 20.0, 60.0),), jitter_ratio=0.2, seed=1))

The beginning of a step decides how long the step takes. ``Variation.pace`` is a function of its arguments and the seed:
the same seed gives the same run, whether steps are taken one by one or many at once, and step 1000 has the same jitter
under every preset.

A pause lengthens a step by a compilation, or by a stall of the whole engine: both are the same while the engine has
work. An engine that is idle at that time pauses at its next step.

Known weak spots: the factor of a step holds to the step's end, also where the disturbance ends long before; and no
disturbance depends on the load.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from headway_simulator.engine_model.disturbances import (
    Drift,
    Neighbour,
    Pause,
    Spell,
    drift_at,
    held_jitter_at,
    neighbour_at,
    pauses_at,
    spells_at,
    step_jitter,
)

_LEAST_FACTOR, _MOST_FACTOR = 1e-3, 1e6
_LEAST_S, _MOST_S = 1e-3, 1e7
_MOST_JITTER = 10.0


class Pace(NamedTuple):
    """A step takes ``factor`` times its undisturbed time and ``extra_s`` seconds more. All steps that begin before
    ``until_s`` have the same pace; where ``until_s`` is not later than the step's own beginning, the step is the only
    one.
    """

    factor: float
    extra_s: float
    until_s: float


@dataclass(frozen=True, slots=True)
class Variation:
    """The disturbances of one engine, by default none. Factors of disturbances at the same time are multiplied.

    ``slow`` has spells (factor, begin_s, end_s), ``pauses`` has (length_s, at_s), ``neighbour`` is (factor, for_s,
    every_s), ``drift`` is (ratio, over_s): see ``disturbances``. ``jitter_ratio`` is the coefficient of variation of a
    lognormal factor, drawn for each step, or anew every ``jitter_hold_s`` seconds. Raises ValueError with one line.
    """

    slow: tuple[Spell, ...] = ()
    pauses: tuple[Pause, ...] = ()
    neighbour: Neighbour | None = None
    drift: Drift | None = None
    jitter_ratio: float = 0.0
    jitter_hold_s: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Check every number."""
        issue = next(self._issues(), None)
        if issue is not None:
            raise ValueError(issue)

    @property
    def disturbs(self) -> bool:
        """Whether there is any disturbance."""
        return bool(self.slow or self.pauses or self.neighbour or self.drift or self.jitter_ratio)

    def pace(self, now_s: float, step: int = 0, since_s: float = -math.inf) -> Pace:
        """The pace of step number ``step``, which begins now. The step before began at ``since_s``."""
        extra_s, until_s = pauses_at(self.pauses, now_s, since_s)
        factor = 1.0
        for times, same_until_s in self._factors(now_s):
            factor *= times
            until_s = min(until_s, same_until_s)
        if self.jitter_ratio and not self.jitter_hold_s:
            return Pace(factor * step_jitter(self.jitter_ratio, self.seed, step), extra_s, now_s)
        return Pace(factor, extra_s, now_s if extra_s else until_s)

    def _factors(self, now_s: float) -> Iterator[tuple[float, float]]:
        """The factor of each disturbance that lasts for a time, and until when."""
        if self.slow:
            yield spells_at(self.slow, now_s)
        if self.neighbour is not None:
            yield neighbour_at(self.neighbour, now_s, self.seed)
        if self.drift is not None:
            yield drift_at(self.drift, now_s)
        if self.jitter_ratio and self.jitter_hold_s:
            yield held_jitter_at(self.jitter_ratio, self.jitter_hold_s, now_s, self.seed)

    def _issues(self) -> Iterator[str]:
        for factor, begin_s, end_s in self.slow:
            yield from _factor_issues(factor)
            if not 0 <= begin_s < end_s <= _MOST_S:
                yield f"a slow spell ends after it began, within {_MOST_S:g} s; not from {begin_s:g} s to {end_s:g} s"
        for length_s, at_s in self.pauses:
            if not (0 < length_s <= _MOST_S and 0 <= at_s <= _MOST_S):
                yield f"a pause is longer than 0 s, and within {_MOST_S:g} s; not {length_s:g} s at {at_s:g} s"
        if self.neighbour is not None:
            factor, for_s, every_s = self.neighbour
            yield from _factor_issues(factor)
            if not _LEAST_S <= for_s < every_s <= _MOST_S:
                yield f"a neighbour is there for {_LEAST_S:g} s or more of a longer time; not {for_s:g} of {every_s:g}"
        if self.drift is not None:
            ratio, over_s = self.drift
            if not (0 < ratio < 1 and 1 <= over_s <= _MOST_S):
                yield f"a drift is by a part between 0 and 1, over 1 s or more; not by {ratio:g} over {over_s:g} s"
        if not 0 <= self.jitter_ratio <= _MOST_JITTER:
            yield f"a jitter is a number from 0 to {_MOST_JITTER:g}, not {self.jitter_ratio:g}"
        if self.jitter_hold_s and not _LEAST_S <= self.jitter_hold_s <= _MOST_S:
            yield f"a jitter holds for {_LEAST_S:g} s or more, not for {self.jitter_hold_s:g} s"


def _factor_issues(factor: float) -> Iterator[str]:
    if not _LEAST_FACTOR <= factor <= _MOST_FACTOR:
        yield f"a factor is a number from {_LEAST_FACTOR:g} to {_MOST_FACTOR:g}, not {factor:g}"
