"""The batching window: how long a batch may gather.

The window opens with the first arrival and no later one restarts it: a batch is due at ``opened_s`` + length, and no
length exceeds the window's longest, so no request waits longer than that for a batch.

The adaptive window is the marginal rule of BentoML's dispatcher (``CorkDispatcher``), with the arrival rate in place of
its polling. A batch of n takes a*n + b, fitted on recent batches; the mean gap to the next arrival is g. Waiting for it
costs each of the n gathered g + a. It saves the next request b - g: alone it would wait for the rest of this batch,
then run for a + b; with the others it runs at once, for a*(n + 1) + b. So wait as long as n*(g + a) < b - g, which is

    g < patience,    patience = (b - n*a) / (n + 1)

and dispatch when none has arrived for that long: length = min(longest, last arrival + patience - opened). It is 0 when
g is above the patience (many have gathered: load) or above the longest window (no arrival is expected in time: idle).

Bound: the wait of one batch costs its members at most what the next request saves, if the gap is as expected. Weak
spots: b includes whatever else varies (the longest answer of the batch); with bins, arrivals in every bin count for
each, so the gap is underestimated and batches wait longer, never past the longest; requests that arrive while this
batch runs are left out of the sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from headway_policies.prediction import LinearFit

_MIN_BATCHES = 4
_BATCHES = 32  # batches remembered
_ARRIVALS = 16  # arrivals remembered
_CLIP = 4  # a pause counts as at most so many longest windows: an idle night must not dominate the mean


@dataclass(frozen=True, slots=True)
class Gathered:
    """A gathering batch: the seats of its members, the most it may have, and when it began.

    ``full``: one more would not fit, by seats or by tokens. ``urgent_s`` is when its longest-waiting member of the most
    urgent class arrived, None when it has none.
    """

    seats: int
    max_seats: int
    opened_s: float
    full: bool = False
    urgent_s: float | None = None


class Window(Protocol):
    """Decides how long a batch may gather, from its first arrival on.

    A custom window is created as ``Class(longest_s)``. Its answer is between 0 and ``longest_s``, the preset's
    ``window_ms``; two calls in a row return the same, and a later one without an event never a longer one.
    """

    def length_s(self, gathered: Gathered, now_s: float) -> float:
        """The length of the window, in seconds; 0 dispatches the batch at once."""
        ...

    def arrived(self, seats: int, now_s: float) -> None:
        """Learn from an arrival."""
        ...

    def batch_done(self, seats: int, duration_s: float, now_s: float) -> None:
        """Learn from a batch: how many seats it filled and how long it took."""
        ...


@dataclass(frozen=True, slots=True)
class FixedWindow:
    """A window of constant length."""

    window_s: float

    def length_s(self, gathered: Gathered, now_s: float) -> float:
        """The length given."""
        return self.window_s

    def arrived(self, seats: int, now_s: float) -> None:
        """Nothing to learn."""

    def batch_done(self, seats: int, duration_s: float, now_s: float) -> None:
        """Nothing to learn."""


class AdaptiveWindow:
    """Waits while one more member saves more than the wait costs; ``longest_s`` until fitted. Calls are O(1)."""

    def __init__(self, longest_s: float) -> None:
        self.longest_s = longest_s
        self._batch = LinearFit(_BATCHES)
        self._gaps = 0
        self._gap_s = 0.0
        self._last_s: float | None = None

    def length_s(self, gathered: Gathered, now_s: float) -> float:
        """From the first arrival to the end of patience; only arrivals and batches change it, not time."""
        if self._batch.samples < _MIN_BATCHES or self._last_s is None or not self._gaps:
            return self.longest_s
        seats = max(1, gathered.seats)
        patience_s = (self._batch.intercept - seats * self._batch.slope) / (seats + 1)
        if self._gap_s > min(patience_s, self.longest_s):
            return 0.0
        last_s = max(self._last_s, gathered.opened_s)
        return min(self.longest_s, last_s + patience_s - gathered.opened_s)

    def arrived(self, seats: int, now_s: float) -> None:
        """Learn the mean gap between requested seats."""
        if self._last_s is not None:
            self._gaps += 1
            gap_s = min(now_s - self._last_s, _CLIP * self.longest_s) / seats
            self._gap_s += (gap_s - self._gap_s) / min(self._gaps, _ARRIVALS)
        self._last_s = now_s

    def batch_done(self, seats: int, duration_s: float, now_s: float) -> None:
        """Learn the cost of a batch and of a member."""
        self._batch.add(seats, duration_s)
