"""The batching window: how long a batch may gather.

The window opens with the first arrival and no later one restarts it: a batch is due at ``opened_s`` + length, and no
length exceeds the window's longest, so no request waits longer than that for a batch.

The adaptive window is the marginal rule of BentoML's dispatcher (``CorkDispatcher``), with the arrival rate in place of
its polling. A batch of n takes a*n + b, fitted on recent batches; the mean gap to the next arrival is g. Waiting for it
costs each of the n gathered g + a. The wait saves the next request b - g: alone it would wait for the rest of this
batch, then run for a + b; with the others it runs at once, for a*(n + 1) + b. So wait as long as n*(g + a) < b - g,
which is

    g < patience,    patience = (b - n*a) / (n + 1)

and dispatch when none has arrived for that long: length = min(longest, last arrival + patience - opened). The window
has four regions, named by ``reason``:

    filling   low load, and the next arrival is expected in time: up to the longest window, for a fuller batch
    load      g is above the patience: as many have gathered as it pays to wait for, down to 0 under high load
    idle      g is above the longest window: no arrival is expected in time, so a lone request waits for none: 0
    latency   first tokens come late: the longest window shrinks as their mean goes from half of the objective to all
              of it, where it is 0; a breached objective outranks an under-filled batch

While the GPU is under-used (below 80 % of the time, by NVML) patience grows with what the GPU lacks, to twice as much
for an idle one: where batches follow one another and the GPU waits for the host, 2 to 8 % fewer batches (simulated).
Where few requests come, g is above both patiences: a longer window would only be added to each answer.

Bound: the wait of one batch costs its members at most what the next request saves, if the gap is as expected. Weak
spots: b includes whatever else varies (the longest answer of the batch); with bins, arrivals in every bin count for
each, so the gap is underestimated and batches wait longer, never past the longest; requests that arrive while this
batch runs are left out of the sum; the first few requests after a busy time still wait for a following one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from headway_policies.prediction import LinearFit

_MIN_BATCHES = 4
_BATCHES = 32  # batches remembered
_ARRIVALS = 16  # arrivals remembered
_FIRST_TOKENS = 16  # first tokens remembered
_EASY_SLO_RATIO = 0.5  # first tokens within this part of their objective leave the window whole
_GPU_USED_RATIO = 0.8  # a GPU that computes for less of the time is under-used
_CLIP = 4  # a pause counts as at most so many longest windows, a first token as so many objectives: means stay mobile


@dataclass(frozen=True, slots=True)
class Gathered:
    """A gathering batch: the seats of its members, the most it may have, and when it began.

    ``full``: one more would not fit, by seats or by tokens. ``urgent_s`` is when its longest-waiting member of the most
    urgent class arrived, None when it has none. ``share`` is the part of the preset's seats that the limit allows now:
    a smaller batch gathers for a shorter time. ``gpu_busy_ratio`` is the last reading of the GPU, None without one.
    """

    seats: int
    max_seats: int
    opened_s: float
    full: bool = False
    urgent_s: float | None = None
    share: float = 1.0
    gpu_busy_ratio: float | None = None


class WindowReason(StrEnum):
    """The rule that decided the length of a window."""

    FIXED = "fixed"
    LEARNING = "learning"
    FILLING = "filling"
    LOAD = "load"
    IDLE = "idle"
    LATENCY = "latency"
    CUSTOM = "custom"


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


class ReportingWindow(Window, Protocol):
    """A window that also gives the reason for its length, as the desk needs it. ``SafeWindow`` wraps a custom one."""

    def reason(self, gathered: Gathered, now_s: float) -> WindowReason:
        """The rule that decides the length."""
        ...

    def first_token(self, slo_ratio: float) -> None:
        """Learn from a first token: the time since the arrival, as a share of the objective of its class."""
        ...


@dataclass(frozen=True, slots=True)
class FixedWindow:
    """A window of constant length."""

    window_s: float

    def length_s(self, gathered: Gathered, now_s: float) -> float:
        return self.window_s

    def reason(self, gathered: Gathered, now_s: float) -> WindowReason:
        return WindowReason.FIXED

    def arrived(self, seats: int, now_s: float) -> None:
        """Learn nothing."""

    def batch_done(self, seats: int, duration_s: float, now_s: float) -> None:
        """Learn nothing."""

    def first_token(self, slo_ratio: float) -> None:
        """Learn nothing."""


class AdaptiveWindow:
    """Waits while one more member saves more than the wait costs; ``longest_s`` until fitted. Calls are O(1)."""

    def __init__(self, longest_s: float) -> None:
        self.longest_s = longest_s
        self._batch = LinearFit(_BATCHES)
        self._gaps = 0
        self._gap_s = 0.0
        self._last_s: float | None = None
        self._first_tokens = 0
        self._slo_ratio = 0.0

    def length_s(self, gathered: Gathered, now_s: float) -> float:
        """The time from the first arrival to the end of patience; only events change it, not time."""
        return self._decide(gathered)[0]

    def reason(self, gathered: Gathered, now_s: float) -> WindowReason:
        """The rule that decides the length now."""
        return self._decide(gathered)[1]

    def _decide(self, gathered: Gathered) -> tuple[float, WindowReason]:
        longest_s = self.longest_s * max(0.0, min(1.0, (1 - self._slo_ratio) / (1 - _EASY_SLO_RATIO)))
        bounded = WindowReason.LATENCY if longest_s < self.longest_s else None
        if self._batch.samples < _MIN_BATCHES or self._last_s is None or not self._gaps:
            return longest_s, bounded or WindowReason.LEARNING
        if self._gap_s > self.longest_s:
            return 0.0, WindowReason.IDLE
        seats = max(1, gathered.seats)
        patience_s = (self._batch.intercept - seats * self._batch.slope) / (seats + 1)
        patience_s *= 1 + _unused(gathered.gpu_busy_ratio)
        if self._gap_s > patience_s:
            return 0.0, WindowReason.LOAD
        if self._gap_s > longest_s:
            return 0.0, WindowReason.LATENCY
        length_s = max(self._last_s, gathered.opened_s) + patience_s - gathered.opened_s
        if length_s < longest_s:
            return length_s, WindowReason.FILLING
        return longest_s, bounded or WindowReason.FILLING

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

    def first_token(self, slo_ratio: float) -> None:
        """Learn how near the first tokens are to their objectives, as a mean over about the last sixteen."""
        self._first_tokens += 1
        ratio = min(slo_ratio, _CLIP)
        self._slo_ratio += (ratio - self._slo_ratio) / min(self._first_tokens, _FIRST_TOKENS)


def _unused(gpu_busy_ratio: float | None) -> float:
    """The part of its usual use that a GPU lacks; 0 if unknown."""
    return 0.0 if gpu_busy_ratio is None else max(0.0, 1 - gpu_busy_ratio / _GPU_USED_RATIO)
