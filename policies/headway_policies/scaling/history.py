"""The history of arrivals by time of day, and the forecast that it gives: the same time of the last days.

A seasonal naive forecast (Hyndman and Athanasopoulos, Forecasting: Principles and Practice, section 5.2), with the
median of the last days instead of the last one alone: fewer than half of the days, of whatever kind, cannot raise it.
Known weak spots: a week is not told from a weekend, and a change of clocks moves the day by an hour.

Bound: the forecast is never above the largest rate that was observed in one slot of the remembered days.
Memory: ``days`` numbers for each slot of a day.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf
from statistics import median_low

DAY_S = 86_400.0
_SLOT_S = 300.0
_MOST_SLOTS = 10_000


class ArrivalHistory:
    """Arrivals in slots of ``slot_s``. Every ``now_s`` counts from a midnight and never runs backwards.

    A forecast takes ``least_days`` with an observation of the slot. Raises ValueError for slots that do not make a day.
    """

    def __init__(self, *, days: int = 7, least_days: int = 2, slot_s: float = _SLOT_S, day_s: float = DAY_S) -> None:
        slots = round(day_s / slot_s)
        if not 1 <= slots <= _MOST_SLOTS or abs(slots * slot_s - day_s) > 1e-6 * day_s:
            raise ValueError(f"history: slots of {slot_s} s do not divide a day of {day_s} s into 1 to {_MOST_SLOTS}")
        if not 1 <= least_days <= days:
            raise ValueError(f"history: least_days must be between 1 and days = {days}, not {least_days}")
        self._least_days = least_days
        self._slot_s = slot_s
        self._rates: list[deque[float]] = [deque(maxlen=days) for _ in range(slots)]
        self._slot: int | None = None
        self._since_s = self._seen_s = 0.0
        self._arrivals = 0.0

    def observe(self, arrivals: float, now_s: float) -> None:
        """Add the arrivals since the last call; the first call's, of an unknown time, are ignored.

        The amount is a number of requests, or seat seconds: the rates are requests/s, or seats.

        Call it several times in each slot: what comes after a gap of half a slot is not counted.
        """
        slot, gap_s = int(now_s // self._slot_s), now_s - self._seen_s
        if self._slot is None:
            self._begin(slot, now_s)
        elif slot == self._slot:
            self._arrivals += arrivals
        elif gap_s > self._slot_s / 2:
            self._end(self._seen_s)
            self._begin(slot, now_s)
        else:
            midway_s = slot * self._slot_s
            after = arrivals * (now_s - midway_s) / gap_s
            self._arrivals += arrivals - after
            self._end(midway_s)
            self._begin(slot, midway_s)
            self._arrivals = after
        self._seen_s = now_s

    def expected_per_s(self, from_s: float, until_s: float) -> float | None:
        """The largest rate forecast for any slot between these times; None where too few days are known of all."""
        first, last = int(from_s // self._slot_s), int(until_s // self._slot_s)
        last = min(last, first + len(self._rates) - 1)
        known = [
            median_low(rates)
            for slot in range(first, last + 1)
            if len(rates := self._rates[slot % len(self._rates)]) >= self._least_days
        ]
        return max(known, default=None)

    def remembered(self) -> list[list[float]]:
        """The rates of the last days, oldest first, for each slot of a day: what another process may recall."""
        return [list(rates) for rates in self._rates]

    def recall(self, remembered: Sequence[Sequence[float]]) -> None:
        """Continue from these days, in place of those known. Raises ValueError where they are of other slots."""
        if len(remembered) != len(self._rates):
            raise ValueError(f"history: {len(remembered)} slots remembered, and a day has {len(self._rates)}")
        if not all(0 <= rate < inf for rates in remembered for rate in rates):
            raise ValueError("history: a remembered rate is not from 0 on and finite")
        for own, rates in zip(self._rates, remembered, strict=True):
            own.clear()
            own.extend(rates)

    def _begin(self, slot: int, since_s: float) -> None:
        self._slot, self._since_s, self._arrivals = slot, since_s, 0.0

    def _end(self, until_s: float) -> None:
        """Keep the rate of the slot that is over, if half of it was observed."""
        assert self._slot is not None
        observed_s = until_s - self._since_s
        if observed_s >= self._slot_s / 2:
            self._rates[self._slot % len(self._rates)].append(self._arrivals / observed_s)
