"""The health of a replica as one router knows it: ``InstanceHealth``, with a probe that the next reports judge.

Serve says that a request has ended, but not how. So a replica counts what its server has answered and what it has
failed, and what has come since the report before is the result of the probe:

    the report shows                                  the probe        the replica
    an answer, whoever's request it was               has succeeded    is healthy, also before its request ends
    no answer, but a failure; or it is not ready      has failed       cools, twice as long as the last time
    new tokens, for the second time                   has succeeded    works on it: its answer may come as a whole
    none of these, and no request from here is left   is undecided     is given the next request, a probe, too

A probe of which nothing is heard for ``silent_s`` is undecided: its request may wait in the server's queue for long.
Known weak spots, those of ``headway route``: the new tokens may be those of other requests, and one that breaks in the
middle of every answer does not cool for longer each time.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway_policies.fallback import BreakerState, Verdict
from headway_policies.routing import InstanceHealth

#: The first report with new tokens may show what was computed before the probe.
_PROBE_REPORTS = 2


@dataclass(frozen=True, slots=True)
class Report:
    """What a replica says of its server; each report has a larger ``number``.

    ``answered`` requests have got output so far, ``failed`` ones none, because of the server; ``tokens`` have been
    computed. Of one that is ``stale`` seats, load, KV use and tokens are those of before: the server did not answer.
    """

    number: int
    ready: bool
    seats: int
    load: int
    kv_use: float
    answered: int = 0
    failed: int = 0
    tokens: float = 0.0
    stale: bool = False


class ReplicaHealth:
    """Every ``now_s`` is of one monotonic clock."""

    def __init__(self, silent_s: float) -> None:
        self._health = InstanceHealth(silent_s=silent_s)
        self._silent_s = silent_s
        self._before: Report | None = None
        self._probe: int | None = None
        self._probed_s, self._progress = 0.0, 0

    def state(self, now_s: float) -> BreakerState:
        """Its state now."""
        return self._health.state(now_s)

    def takes(self, now_s: float) -> bool:
        """Whether a request may be sent to it now; in HALF_OPEN only while no probe is under way."""
        return self._health.takes(now_s)

    def sent(self, now_s: float) -> None:
        """A request is sent to it: the probe of one that is half-open, unless another one is."""
        if self._probe is None and self.state(now_s) is BreakerState.HALF_OPEN:
            self._probe, self._probed_s = self._health.begin(now_s), now_s

    def report(self, report: Report, now_s: float, *, idle: bool) -> None:
        """It has reported; ``idle``: no request that was sent from here is left there."""
        verdict = None if self._before is None else self._verdict(self._before, report, idle, now_s)
        self._before = report
        half_open = self.state(now_s) is BreakerState.HALF_OPEN
        if verdict is Verdict.SUCCESS and half_open and self._probe is None:
            self._probe = self._health.begin(now_s)
        self._health.heartbeat(now_s, good=report.ready)
        self._decide(verdict, now_s)

    def unreachable(self, now_s: float) -> None:
        """It did not answer Serve."""
        self._health.broke(now_s)
        self._decide(Verdict.FAILURE, now_s)

    def _verdict(self, before: Report, report: Report, idle: bool, now_s: float) -> Verdict | None:
        """What a report says of the probe; None where it says nothing yet."""
        self._progress += self._probe is not None and report.tokens > before.tokens
        if not report.ready:
            return Verdict.FAILURE
        if report.answered > before.answered:
            return Verdict.SUCCESS
        if report.failed > before.failed:
            return Verdict.FAILURE
        if self._progress >= _PROBE_REPORTS:
            return Verdict.SUCCESS
        return Verdict.UNDECIDED if idle or now_s - self._probed_s >= self._silent_s else None

    def _decide(self, verdict: Verdict | None, now_s: float) -> None:
        if self._probe is not None and verdict is not None:
            number, self._probe, self._progress = self._probe, None, 0
            self._health.ended(number, verdict, now_s)
