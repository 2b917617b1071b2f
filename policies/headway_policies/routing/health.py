"""The health of an instance: whether it may be given requests, from its heartbeats and from its answers.

    state       event                                        next
    CLOSED      silence, a bad heartbeat or connection, or   OPEN        it is given nothing
                failures in a row
    OPEN        a good heartbeat, and it has cooled          HALF_OPEN   it is given one request, the probe
    HALF_OPEN   the probe begins to be answered, or is, or   CLOSED
                two readings since it was sent show new tokens
    HALF_OPEN   the probe fails, or no good heartbeat        OPEN        cools twice as long after each failed probe

The last good heartbeat counts for ``silent_s``; a bad one or a broken connection ends that at once. An instance that
has answered no heartbeat for ``lost_s`` is lost: what runs there is not waited for. All of a router's judgement of
silence is here. The answers to requests are counted by the circuit breaker of the fallback. Both have to agree: one
that answers its health route while its requests fail stays out, and so does one that is silent. Known weak spots: the
new tokens may be those of other requests, and one that breaks in the middle of every answer does not cool for longer.
"""

from __future__ import annotations

from math import inf
from typing import Final

from headway_policies.fallback import BreakerState, CircuitBreaker, Verdict

SILENT_S: Final = 3.0
LOST_S: Final = 10.0
#: So many readings with new tokens say that an instance works on its probe, whose answer may come as a whole, in the
#: end. The first may show what was computed before the probe.
_PROBE_READINGS: Final = 2


class InstanceHealth:
    """The health of one instance: ``OPEN`` until its first good heartbeat, and ``CLOSED`` with that one.

    ``begin`` and ``ended`` go around each request that is sent there; ``takes`` asks without sending any. Every call is
    O(1). ``silent_s`` may be changed: some servers take longer to say that they are well.
    """

    def __init__(
        self,
        *,
        silent_s: float = SILENT_S,
        failures: int = 3,
        cool_s: float = 1.0,
        max_cool_s: float = 30.0,
    ) -> None:
        self.silent_s = silent_s
        self._breaker = CircuitBreaker(failures, cool_s, max_cool_s)
        self._good_s = self._answered_s = -inf
        self._seen = False
        self._probe: int | None = None
        self._sent_probe, self._progress = 0, 0

    def heartbeat(self, now_s: float, *, good: bool) -> None:
        """Record an answer to a heartbeat: the instance is well, or not."""
        self._look(now_s)
        self._answered_s = now_s
        self._good_s = now_s if good else -inf
        self._seen = self._seen or good
        self._look(now_s)

    def broke(self, now_s: float) -> None:
        """A connection to it broke or could not be made, or its answer to a request was that it serves none."""
        self._look(now_s)
        self._good_s = -inf
        self._look(now_s)

    def lost(self, now_s: float) -> bool:
        """Whether the instance has answered no heartbeat for so long that its requests are not waited for."""
        return now_s - self._answered_s >= LOST_S

    def state(self, now_s: float) -> BreakerState:
        """The state of the breaker now. Silence makes it OPEN without a further event."""
        self._look(now_s)
        return self._breaker.state if self._alive(now_s) else BreakerState.OPEN

    def takes(self, now_s: float) -> bool:
        """Whether a request may be sent to it now; in HALF_OPEN only while no probe is under way."""
        self._look(now_s)
        return self._alive(now_s) and (self._breaker.state is BreakerState.CLOSED or self._probe is not None)

    def begin(self, now_s: float) -> int | None:
        """A request is sent to it: the number to pass to ``ended``; None where none may be sent."""
        if not self.takes(now_s):
            return None
        probe, self._probe = self._probe, None
        if probe is None:
            return self._breaker.begin(now_s)
        self._sent_probe, self._progress = probe, 0
        return probe

    def answering(self, number: int, now_s: float) -> None:
        """The first output of that request has come. A probe has succeeded with it; its end counts no more."""
        if self._breaker.state is BreakerState.HALF_OPEN:
            self._breaker.ended(number, Verdict.SUCCESS, now_s)
            self._look(now_s)

    def progressed(self, now_s: float) -> None:
        """A reading shows new tokens."""
        self._progress += 1
        if self._progress >= _PROBE_READINGS:
            self.answering(self._sent_probe, now_s)

    def ended(self, number: int, verdict: Verdict, now_s: float) -> None:
        """Record the end of a request, exactly once: answered, failed because of the instance, or undecided."""
        self._breaker.ended(number, verdict, now_s)
        self._look(now_s)

    def _alive(self, now_s: float) -> bool:
        return now_s - self._good_s < self.silent_s

    def _look(self, now_s: float) -> None:
        """Time has passed: one that fell silent is opened; one that is well and has cooled may have a probe."""
        if self._alive(now_s):
            if self._breaker.state is BreakerState.OPEN:
                self._probe = self._breaker.begin(now_s)
        elif self._seen:
            self._open(now_s)

    def _open(self, now_s: float) -> None:
        """Open the breaker, as the failures in a row would that it waits for."""
        if self._probe is not None:
            self._breaker.ended(self._probe, Verdict.FAILURE, now_s)
            self._probe = None
        while self._breaker.state is BreakerState.CLOSED:
            number = self._breaker.begin(now_s)
            assert number is not None, "a closed breaker allows every attempt"
            self._breaker.ended(number, Verdict.FAILURE, now_s)
