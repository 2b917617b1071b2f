"""The load of every replica, as one router knows it: what it sent there itself, and what the replica reports.

Its own requests are counted as they are sent and as they end. A report is a second old: it gives the seats, the KV use,
whether the server is ready, and how many requests others have there, which are all that were there less its own.

A report is also the heartbeat of ``InstanceHealth``. Where no replica is healthy all of them may be chosen, since
reports come through the controller of Serve, and a fleet goes on without it. Requests that fail are not counted here;
the front sends them to another replica.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from headway_policies.routing import Demand, Instance, InstanceHealth, LeastLoaded, Router, ranked

#: A choice counts until its request is sent, which takes one turn of the event loop; without that, for so long.
_CHOICE_S = 1.0


@dataclass(frozen=True, slots=True)
class Report:
    """What a replica says of its server; each report has a larger ``number``."""

    number: int
    ready: bool
    seats: int
    load: int
    kv_use: float


@dataclass(slots=True)
class _Replica:
    health: InstanceHealth
    report: Report | None = None
    own: int = 0
    others: int = 0
    choices: deque[float] = field(default_factory=deque)


class LoadView:
    """Every ``now_s`` is of one monotonic clock. Names are those of the replicas."""

    def __init__(self, silent_s: float, router: Router | None = None) -> None:
        self._silent_s = silent_s
        self._router = router if router is not None else LeastLoaded()
        self._replicas: dict[str, _Replica] = {}

    def report(self, name: str, report: Report, now_s: float) -> None:
        """A replica has reported; one that is known already changes nothing."""
        replica = self._replica(name)
        if replica.report is not None and report.number <= replica.report.number:
            return
        replica.report = report
        replica.others = max(0, report.load - replica.own)
        replica.health.heartbeat(now_s, good=report.ready)

    def unreachable(self, name: str, now_s: float) -> None:
        """A replica did not answer."""
        self._replica(name).health.broke(now_s)

    def keep(self, names: Iterable[str]) -> None:
        """Forget all replicas but these."""
        kept = set(names)
        self._replicas = {name: one for name, one in self._replicas.items() if name in kept}

    def sent(self, name: str) -> None:
        """A request was sent to a replica."""
        replica = self._replica(name)
        replica.own += 1
        if replica.choices:
            replica.choices.popleft()

    def ended(self, name: str) -> None:
        """A request that was sent to a replica has ended, in any way."""
        if (replica := self._replicas.get(name)) is not None and replica.own:
            replica.own -= 1

    def rank(self, names: Iterable[str], demand: Demand, now_s: float) -> list[str]:
        """The healthy ones of these replicas, the best first; all of them where none is healthy. Counts the choice."""
        known = [(name, self._replica(name)) for name in names]
        healthy = [(name, one) for name, one in known if one.report is None or one.health.takes(now_s)]
        instances = [self._instance(name, one, now_s) for name, one in healthy or known]
        order = ranked(self._router, demand, instances)
        if order:
            self._replicas[order[0]].choices.append(now_s)
        return order

    def _instance(self, name: str, replica: _Replica, now_s: float) -> Instance:
        choices = replica.choices
        while choices and choices[0] <= now_s - _CHOICE_S:
            choices.popleft()
        load, report = replica.own + replica.others + len(choices), replica.report
        if report is None:  # it is new, and warm
            return Instance(name, self._usual_seats(), load)
        return Instance(name, report.seats, load, report.kv_use)

    def _usual_seats(self) -> int:
        return max((one.report.seats for one in self._replicas.values() if one.report is not None), default=1)

    def _replica(self, name: str) -> _Replica:
        if name not in self._replicas:
            self._replicas[name] = _Replica(InstanceHealth(silent_s=self._silent_s))
        return self._replicas[name]
