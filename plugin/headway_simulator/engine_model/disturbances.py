"""The disturbances of an engine, one by one: what each does to the step that begins at a time, and until when.

A factor multiplies the time of a step: 2 is half the speed. Each function returns a factor and the time until which
every step that begins has the same one, or the seconds that a step takes longer and when that may change. All are
functions of their arguments alone. Times are seconds since the run began.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from headway_simulator.engine_model.draws import normal, uniform

#: factor, begin_s, end_s: the steps that begin from ``begin_s`` on and before ``end_s`` take ``factor`` times as long.
Spell = tuple[float, float, float]
#: length_s, at_s: the first step that begins at ``at_s`` or later takes ``length_s`` longer.
Pause = tuple[float, float]
#: factor, for_s, every_s: in each ``every_s`` seconds there are ``for_s`` in which steps take ``factor`` times as long.
Neighbour = tuple[float, float, float]
#: ratio, over_s: the speed falls by this part of it within ``over_s``, returns within as much again, and so on.
Drift = tuple[float, float]

DRIFT_STAIRS = 100
_NEIGHBOUR, _JITTER = 1, 2


def spells_at(spells: Iterable[Spell], now_s: float) -> tuple[float, float]:
    """The product of the factors of all spells that are on."""
    factor, until_s = 1.0, math.inf
    for times, begin_s, end_s in spells:
        if now_s < begin_s:
            until_s = min(until_s, begin_s)
        elif now_s < end_s:
            factor *= times
            until_s = min(until_s, end_s)
    return factor, until_s


def pauses_at(pauses: Iterable[Pause], now_s: float, since_s: float) -> tuple[float, float]:
    """The lengths of the pauses since the step before, which began at ``since_s``, and the time of the next pause."""
    extra_s, until_s = 0.0, math.inf
    for length_s, at_s in pauses:
        if now_s < at_s:
            until_s = min(until_s, at_s)
        elif since_s < at_s:
            extra_s += length_s
    return extra_s, until_s


def neighbour_at(neighbour: Neighbour, now_s: float, seed: int) -> tuple[float, float]:
    """The factor of a neighbour that comes at a random time of each cycle, and always leaves before the cycle ends."""
    factor, for_s, every_s = neighbour
    cycle = int(now_s // every_s)
    comes_s = cycle * every_s + uniform(seed, _NEIGHBOUR, cycle) * (every_s - for_s)
    over_s = (cycle + 1) * every_s
    if now_s < comes_s:
        return 1.0, min(comes_s, over_s)
    leaves_s = min(comes_s + for_s, over_s)
    return (factor, leaves_s) if now_s < leaves_s else (1.0, over_s)


def drift_at(drift: Drift, now_s: float) -> tuple[float, float]:
    """The factor of a speed that falls and rises linearly, in ``DRIFT_STAIRS`` stairs each way."""
    ratio, over_s = drift
    stair_s = over_s / DRIFT_STAIRS
    stair = int(now_s // stair_s)
    down = (stair + 0.5) % (2 * DRIFT_STAIRS)
    fallen = min(down, 2 * DRIFT_STAIRS - down) / DRIFT_STAIRS
    return 1 / (1 - ratio * fallen), (stair + 1) * stair_s


def step_jitter(ratio: float, seed: int, step: int) -> float:
    """The lognormal factor of one step, with mean 1 and this coefficient of variation."""
    variance = math.log1p(ratio * ratio)
    return math.exp(math.sqrt(variance) * normal(seed, _JITTER, step) - variance / 2)


def held_jitter_at(ratio: float, hold_s: float, now_s: float, seed: int) -> tuple[float, float]:
    """A lognormal factor that is drawn anew every ``hold_s``, with this coefficient of variation.

    The mean speed is 1, since more steps are taken where they are short: the mean over the steps is 1 again.
    """
    place = int(now_s // hold_s)
    variance = math.log1p(ratio * ratio)
    return math.exp(math.sqrt(variance) * normal(seed, _JITTER, place) + variance / 2), (place + 1) * hold_s
