"""May another try go to a place that has been failing?

    state       event              next
    CLOSED      failures in a row  OPEN        nobody goes there for ``cool_s``, twice as long after each failed probe
    OPEN        cooled             HALF_OPEN   one goes, the probe; everybody else stays away
    HALF_OPEN   success            CLOSED
    HALF_OPEN   failure            OPEN
    HALF_OPEN   undecided          OPEN        the probe told nothing (its client left): the next one may go at once

Every try has the number of the state it was let through in, and only that state hears of its end: a slow failure from
before does not count against the probe.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class BreakerState(StrEnum):
    """Whether tries are let through."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Verdict(StrEnum):
    """What a try has shown, or what has happened meanwhile."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNDECIDED = "undecided"
    TRIPPED = "tripped"
    COOLED = "cooled"


#: Where each event leads; what is not here changes nothing.
NEXT: dict[tuple[BreakerState, Verdict], BreakerState] = {
    (BreakerState.CLOSED, Verdict.TRIPPED): BreakerState.OPEN,
    (BreakerState.OPEN, Verdict.COOLED): BreakerState.HALF_OPEN,
    (BreakerState.HALF_OPEN, Verdict.SUCCESS): BreakerState.CLOSED,
    (BreakerState.HALF_OPEN, Verdict.FAILURE): BreakerState.OPEN,
    (BreakerState.HALF_OPEN, Verdict.UNDECIDED): BreakerState.OPEN,
}


@dataclass(slots=True)
class CircuitBreaker:
    """Opens after ``failures`` in a row; ``cool_s`` doubles up to ``max_cool_s`` and starts anew with a success."""

    failures: int = 3
    cool_s: float = 5.0
    max_cool_s: float = 120.0
    state: BreakerState = BreakerState.CLOSED
    _in_a_row: int = 0
    _opened: int = 0
    _due_s: float = 0.0
    _number: int = 1

    def begin(self, now_s: float) -> int | None:
        """Ask for a try: its number, which ``ended`` wants back, or None: stay away."""
        if self.state is BreakerState.OPEN and now_s >= self._due_s:
            self._move(Verdict.COOLED)
            return self._number
        return self._number if self.state is BreakerState.CLOSED else None

    def ended(self, number: int, verdict: Verdict, now_s: float) -> None:
        """A try is over: success, failure or undecided. To be told exactly once for each that was let through."""
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
