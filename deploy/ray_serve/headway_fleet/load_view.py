"""The load of every replica, as one router knows it: what it sent there itself, and what the replica reports.

Its own requests are counted as they are sent and as they end. A report is a second old: it gives the seats, the KV use,
whether the server is ready, and how many requests others have there, which are all that were there less its own.

A report is also the heartbeat of ``ReplicaHealth``, and one that was out is given one request, the probe, until its
answer is reported. Where none takes requests those on probation may be chosen, and where there are none all of them,
since reports come through the controller of Serve, and a fleet goes on without it. Requests that a healthy one fails
are not counted here; the front sends them to another replica.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from headway_fleet.replica_health import ReplicaHealth, Report
from headway_policies.fallback import BreakerState
from headway_policies.routing import Demand, Instance, LeastLoaded, Router, ranked

#: A choice counts until its request is sent, which takes one turn of the event loop; without that, for so long.
_CHOICE_S = 1.0


@dataclass(slots=True)
class _Replica:
    health: ReplicaHealth
    report: Report | None = None
    own: int = 0
    others: int = 0
    choices: deque[float] = field(default_factory=deque)

    def takes(self, now_s: float) -> bool:
        """Whether a request may be sent to it; on probation only one, which counts from its choice on."""
        if self.report is None:
            return True
        return self.health.takes(now_s) and not (self.choices and self.health.state(now_s) is BreakerState.HALF_OPEN)

    def forget_choices(self, now_s: float) -> None:
        """What was chosen for it a while ago and not sent will not be sent."""
        while self.choices and self.choices[0] <= now_s - _CHOICE_S:
            self.choices.popleft()


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
        if not report.stale:  # else its load is older than the count of its own
            replica.others = max(0, report.load - replica.own)
        replica.health.report(report, now_s, idle=not replica.own)

    def unreachable(self, name: str, now_s: float) -> None:
        """A replica did not answer."""
        self._replica(name).health.unreachable(now_s)

    def keep(self, names: Iterable[str]) -> None:
        """Forget all replicas but these."""
        kept = set(names)
        self._replicas = {name: one for name, one in self._replicas.items() if name in kept}

    def sent(self, name: str, now_s: float) -> None:
        """A request was sent to a replica: the probe of one that is on probation."""
        replica = self._replica(name)
        replica.health.sent(now_s)
        replica.own += 1
        if replica.choices:
            replica.choices.popleft()

    def ended(self, name: str) -> None:
        """A request that was sent to a replica has ended, in any way."""
        if (replica := self._replicas.get(name)) is not None and replica.own:
            replica.own -= 1

    def rank(self, names: Iterable[str], demand: Demand, now_s: float) -> list[str]:
        """Those of these replicas that take a request, the best first. Counts the choice.

        Where none takes one they are those on probation, and where there is none all of them.
        """
        known = [(name, self._replica(name)) for name in names]
        for _, one in known:
            one.forget_choices(now_s)
        taking = [(name, one) for name, one in known if one.takes(now_s)]
        asked = taking or [(name, one) for name, one in known if one.health.state(now_s) is not BreakerState.OPEN]
        order = ranked(self._router, demand, [self._instance(name, one) for name, one in asked or known])
        if order:
            self._replicas[order[0]].choices.append(now_s)
        return order

    def _instance(self, name: str, replica: _Replica) -> Instance:
        load, report = replica.own + replica.others + len(replica.choices), replica.report
        if report is None:  # it is new, and warm
            return Instance(name, self._usual_seats(), load)
        return Instance(name, report.seats, load, report.kv_use)

    def _usual_seats(self) -> int:
        return max((one.report.seats for one in self._replicas.values() if one.report is not None), default=1)

    def _replica(self, name: str) -> _Replica:
        if name not in self._replicas:
            self._replicas[name] = _Replica(ReplicaHealth(self._silent_s))
        return self._replicas[name]
