"""Instances that report, each with a queue of its own: a balancer sends every request on at once, to the best of them.

Its own requests are counted as they are sent and as they end. A report is a second old: it gives the seats, the KV use,
whether the server is ready, and how many requests are there, of which those beyond its own are others'. The report is
the heartbeat of the instance, too. The balancer sees that a request has ended, but not how: so an instance counts what
its server has answered and has failed, and what has come since the report before is the result of the probe:

    the report shows                                  the probe        the instance
    an answer to any request                          has succeeded    is healthy, also before its request ends
    no answer, but a failure; or it is not ready      has failed       cools, twice as long as the last time
    new tokens, for the second time                   has succeeded    works on it: its answer may come as a whole
    none of these, and no request from here is left   is undecided     is given the next request, a probe, too

A probe of which nothing is heard for ``silent_s`` is undecided: its request may wait in the server's queue for long.

Where no instance takes requests those on probation may be chosen, and where there are none all of them: reports may
have to come through something that is away. Requests that a healthy one fails are not counted here; they are the
balancer's to send elsewhere.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from headway_policies.fallback import BreakerState, Verdict
from headway_policies.routing.health import InstanceHealth
from headway_policies.routing.instance import Instance
from headway_policies.routing.least_loaded import LeastLoaded
from headway_policies.routing.ranking import ranked
from headway_policies.routing.router import Demand

#: A choice counts until its request is sent, which comes next; without that, for so long.
_CHOICE_S = 1.0


@dataclass(frozen=True, slots=True)
class Report:
    """The report of an instance on its server; each report has a larger ``number``.

    ``answered`` requests have got output so far, ``failed`` ones none, because of the server; ``tokens`` have been
    computed. Of one that is ``stale`` seats, load, KV use and tokens are those of before: the server did not answer.
    ``kv_tokens`` is the size of its KV cache, 0 where it does not say.
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
    kv_tokens: int = 0


class ReportedInstance(InstanceHealth):
    """An instance: its last report, and the requests that were sent from here and have not ended, its ``own``.

    Every ``now_s`` is of one monotonic clock.
    """

    def __init__(self, silent_s: float) -> None:
        super().__init__(silent_s=silent_s)
        self.last: Report | None = None
        self.own = self._others = 0
        self._choices = deque[float]()
        self._unreached_s = -inf
        self._probe_number: int | None = None  # while it has no result
        self._probe_s = 0.0

    def report(self, report: Report, now_s: float) -> None:
        """Take a report of the instance; a report that is known already changes nothing."""
        before = self.last or report
        if self.last is not None and report.number <= before.number:
            return
        self.last = report
        if not report.stale:  # else its load is older than the count of its own
            self._others = max(0, report.load - self.own)
        answered = report.ready and report.answered > before.answered
        if answered:
            self._probe_sent(now_s)  # from elsewhere, unless from here
        self.heartbeat(now_s, good=report.ready)
        if answered:
            self._judge(Verdict.SUCCESS, now_s)
        elif not report.ready or report.failed > before.failed:
            self._judge(Verdict.FAILURE, now_s)
        else:
            if report.tokens > before.tokens:
                self.progressed(now_s)
            if not self.own or now_s - self._probe_s >= self.silent_s:
                self._judge(Verdict.UNDECIDED, now_s)

    def unreachable(self, now_s: float) -> None:
        """Note that the instance did not answer."""
        self._unreached_s = now_s
        self.broke(now_s)
        self._judge(Verdict.FAILURE, now_s)

    def choosable(self, now_s: float) -> bool:
        """Whether a request may be sent to it; on probation only one, which counts from its choice on."""
        while self._choices and self._choices[0] <= now_s - _CHOICE_S:  # what was not sent until now will not be
            self._choices.popleft()
        if self.last is None:
            return now_s - self._unreached_s >= self.silent_s
        return self.takes(now_s) and not (self._choices and self.state(now_s) is BreakerState.HALF_OPEN)

    def chosen(self, now_s: float) -> None:
        """Note that the instance is the first of those chosen for a request."""
        self._choices.append(now_s)

    def sent(self, now_s: float) -> None:
        """A request was sent to it: the probe of one that is on probation."""
        self._probe_sent(now_s)
        self.own += 1
        if self._choices:
            self._choices.popleft()

    def seen(self, name: str, usual_seats: int) -> Instance:
        """The instance as a routing policy sees it; before its first report it is new, and warm."""
        running, said = self.own + self._others + len(self._choices), self.last
        if said is None:
            return Instance(name, usual_seats, running)
        return Instance(name, said.seats, running, said.kv_use, kv_tokens=said.kv_tokens or None)

    def _probe_sent(self, now_s: float) -> None:
        if self.state(now_s) is BreakerState.HALF_OPEN and (number := self.begin(now_s)) is not None:
            self._probe_number, self._probe_s = number, now_s

    def _judge(self, verdict: Verdict, now_s: float) -> None:
        if self._probe_number is not None:
            number, self._probe_number = self._probe_number, None
            self.ended(number, verdict, now_s)


class ReportedInstances:
    """All reported instances, by name. Every ``now_s`` is of one monotonic clock."""

    def __init__(self, silent_s: float) -> None:
        self._silent_s = silent_s
        self._instances: dict[str, ReportedInstance] = {}

    def instance(self, name: str) -> ReportedInstance:
        """The instance of that name, from its first mention on."""
        if name not in self._instances:
            self._instances[name] = ReportedInstance(self._silent_s)
        return self._instances[name]

    def keep(self, names: Iterable[str]) -> None:
        """Forget all but these."""
        kept = set(names)
        self._instances = {name: instance for name, instance in self._instances.items() if name in kept}

    def ended(self, name: str) -> None:
        """A request that was sent to it has ended, in any way."""
        if (one := self._instances.get(name)) is not None and one.own:
            one.own -= 1

    def rank(self, names: Iterable[str], demand: Demand, now_s: float) -> list[str]:
        """The instances among these that take a request, the best first. Counts the choice.

        Where none takes one they are those on probation, and where there is none all of them.
        """
        known = {name: self.instance(name) for name in names}
        taking = [name for name, instance in known.items() if instance.choosable(now_s)]
        asked = taking or [name for name, instance in known.items() if instance.state(now_s) is not BreakerState.OPEN]
        usual_seats = max(
            (instance.last.seats for instance in self._instances.values() if instance.last is not None), default=1
        )
        seen = [known[name].seen(name, usual_seats) for name in asked or known]
        order = ranked(LeastLoaded(), demand, seen)
        if order:
            known[order[0]].chosen(now_s)
        return order
