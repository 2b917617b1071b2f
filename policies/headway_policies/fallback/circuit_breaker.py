"""A circuit breaker: whether a failing destination may be tried again.

    state       event              next
    CLOSED      failures in a row  OPEN        no attempt for ``cool_s``, twice as long after each failed probe
    OPEN        cooled             HALF_OPEN   one attempt, the probe; no other
    HALF_OPEN   success            CLOSED
    HALF_OPEN   failure            OPEN
    HALF_OPEN   undecided          OPEN        the probe had no result (its client left): the next may follow at once

Every attempt carries the number of the state in which it began, and only that state counts its result: a slow failure
from before does not count against the probe.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class BreakerState(StrEnum):
    """Whether attempts are allowed."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Verdict(StrEnum):
    """The result of an attempt, or an event between attempts."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNDECIDED = "undecided"
    TRIPPED = "tripped"
    COOLED = "cooled"


#: The next state for each event; a pair that is absent changes nothing.
NEXT: dict[tuple[BreakerState, Verdict], BreakerState] = {
    (BreakerState.CLOSED, Verdict.TRIPPED): BreakerState.OPEN,
    (BreakerState.OPEN, Verdict.COOLED): BreakerState.HALF_OPEN,
    (BreakerState.HALF_OPEN, Verdict.SUCCESS): BreakerState.CLOSED,
    (BreakerState.HALF_OPEN, Verdict.FAILURE): BreakerState.OPEN,
    (BreakerState.HALF_OPEN, Verdict.UNDECIDED): BreakerState.OPEN,
}


@dataclass(slots=True)
class CircuitBreaker:
    """Opens after ``failures`` in a row; ``cool_s`` doubles up to ``max_cool_s``; a success resets it."""

    failures: int = 3
    cool_s: float = 5.0
    max_cool_s: float = 120.0
    state: BreakerState = BreakerState.CLOSED
    _in_a_row: int = 0
    _opened: int = 0
    _due_s: float = 0.0
    _number: int = 1

    def begin(self, now_s: float) -> int | None:
        """Begin an attempt: returns its number, to be passed to ``ended``, or None: not allowed."""
        if self.state is BreakerState.OPEN and now_s >= self._due_s:
            self._move(Verdict.COOLED)
            return self._number
        return self._number if self.state is BreakerState.CLOSED else None

    def ended(self, number: int, verdict: Verdict, now_s: float) -> None:
        """An attempt ended: success, failure or undecided. Must be called exactly once for each."""
        if number != self._number:
            return
        if verdict is Verdict.SUCCESS:
            self._in_a_row = self._opened = 0
        elif verdict is Verdict.FAILURE:
            self._in_a_row += 1
        if self.state is BreakerState.CLOSED and self._in_a_row >= self.failures:
            verdict = Verdict.TRIPPED
        before = self.state
        self._move(verdict)
        if self.state is BreakerState.OPEN and before is not BreakerState.OPEN:
            self._open(verdict, now_s)

    def _move(self, verdict: Verdict) -> None:
        after = NEXT.get((self.state, verdict))
        if after is not None:
            self.state = after
            self._number += 1

    def _open(self, verdict: Verdict, now_s: float) -> None:
        if verdict is Verdict.UNDECIDED:
            self._due_s = now_s
            return
        self._due_s = now_s + min(self.max_cool_s, self.cool_s * 2.0 ** min(self._opened, 16))
        self._opened += 1
