"""The ``Retry-After`` of a refusal, from the rate at which the queue drains.

The advice is the expected time until the present queue is empty: the seats it asks for, divided by the rate at which
seats have been leaving it since it began to stand. Where the queue was empty before, departures followed the arrivals
and say nothing of what the engine can do; so for the time before that the rate counts at which seats come free while
all are taken (Little's law, ``prediction.estimators``), forgotten as departures are. Until any seat has come free
nothing is known but how long that has taken already, and the advice is that time.

A fixed low-discrepancy sequence spreads the advice by a quarter in both directions, so that clients refused together do
not return together; it is bounded to 1-30 s, in whole seconds (RFC 9110, section 10.2.3). Near the upper bound it is
spread over the last fifth below it. ``retry_after_ms`` spreads one advice within its second.
"""

from __future__ import annotations

import math
from typing import Final

from headway_policies.prediction import DecayingRate, share_left

MAX_S: Final = 30
_GOLDEN = 0.6180339887498949
_MEMORY_S = 10.0
_MIN_PER_S = 1e-9
_MS = 1000


class Spread:
    """The multiples of the golden ratio modulo 1: any few neighbours are spread evenly over [0, 1)."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value = 0.5

    def next(self) -> float:
        """The next value, from 0 to below 1."""
        self._value = (self._value + _GOLDEN) % 1.0
        return self._value


def retry_after_ms(retry_after_s: int, spread: Spread) -> int:
    """An advice of whole seconds in milliseconds, spread over its last second; over its second half where it is 1 s.

    Rounded up to whole seconds it is the same advice again.
    """
    width_ms = _MS if retry_after_s > 1 else _MS // 2
    return _MS * retry_after_s - int(spread.next() * width_ms)


class DrainRate:
    """The rate at which seats leave a standing queue, per second, forgotten exponentially over about ten seconds."""

    def __init__(self) -> None:
        self.began(0.0)
        self._spread = Spread()

    def began(self, now_s: float) -> None:
        """The queue was empty, and begins to stand."""
        self._departures, self._began_s = DecayingRate(_MEMORY_S, now_s), now_s

    def departed(self, seats: int, now_s: float) -> None:
        """Note seats that left the queue for the engine."""
        self._departures.add(seats, now_s)

    def per_s(self, freed_per_s: float, now_s: float) -> float:
        """Seats a second, with ``freed_per_s`` for the time before the queue began to stand."""
        return self._departures.per_s(now_s) + freed_per_s * share_left(now_s - self._began_s, _MEMORY_S)

    def retry_after_s(self, waiting: int, freed_per_s: float | None, now_s: float) -> int:
        """Whole seconds, 1 to 30, after which a refused client may try again with some hope.

        ``waiting`` in seats; ``freed_per_s`` is None until a seat has come free.
        """
        if not waiting:
            expected_s = 0.0
        elif freed_per_s is None:
            expected_s = now_s - self._began_s
        else:
            per_s = self.per_s(freed_per_s, now_s)
            expected_s = waiting / (per_s if per_s > _MIN_PER_S else _MIN_PER_S)
        spread = self._spread.next()
        spread_s, most_s = expected_s * (0.75 + 0.5 * spread), MAX_S * (0.8 + 0.2 * spread)
        advice_s = math.ceil(spread_s if spread_s < most_s else most_s)
        return advice_s if advice_s > 1 else 1
