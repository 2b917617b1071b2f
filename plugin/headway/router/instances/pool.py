"""The pool of instances: which of them takes the next request, and the requests that wait until one of them has a seat.

The desk dispatches no more sequences than the healthy instances have free seats, so a request waits here only for a
moment: while an instance has just fallen away, or while a wide one finds no instance with enough seats. Requests are
served in the order of their dispatch; one that may not go to the free instance does not hold up the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from headway.api.schema import InstanceStatus
from headway.router.forwarding.call import Call, InstanceLostError
from headway.router.instances.instance import InstanceLink, Lease
from headway.router.instances.reading import InstanceReading
from headway_policies import Load
from headway_policies.fallback import BreakerState, Verdict
from headway_policies.routing import Demand, Router

log = logging.getLogger(__name__)


class AllTriedError(Exception):
    """Every healthy instance has refused this request."""


@dataclass(slots=True, eq=False)
class _Waiting:
    call: Call
    demand: Demand
    without: frozenset[str]
    lease: asyncio.Future[Lease] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class InstancePool:
    """All instances, by name. ``on_change`` is called when the number of healthy seats may be another one.

    ``most`` is the number of instances that the limit of the preset is for, where they come and go.
    """

    def __init__(
        self,
        links: Iterable[InstanceLink],
        router: Router,
        now_s: Callable[[], float],
        *,
        most: int | None = None,
    ) -> None:
        self.links = {link.address.name: link for link in links}
        self.retried = 0
        self.most = most
        self.on_change: Callable[[], None] = lambda: None
        self._router = router
        self._now_s = now_s
        self._waiting: list[_Waiting] = []
        self._healthy = asyncio.Event()
        self._grants = False
        self._states: dict[str, BreakerState] = {}

    def healthy(self) -> Iterator[InstanceLink]:
        """The instances that may be given requests, the probes of half-open ones included."""
        now_s = self._now_s()
        return (
            link
            for link in self.links.values()
            if not link.leaving and link.health.state(now_s) is not BreakerState.OPEN
        )

    def states(self) -> list[InstanceStatus]:
        """The state of each instance, for an operator."""
        up = {link.address.name for link in self.healthy()}
        return [
            InstanceStatus(
                name=name,
                up=name in up,
                seats=link.seats,
                running=link.sent,
                others=link.others,
                says_seats=link.says_seats,
                maker=link.maker,
                lacks=list(link.lacks()),
            )
            for name, link in self.links.items()
        ]

    def model(self) -> str:
        """The name of the instances' model; empty if unknown."""
        return next((link.model.name for link in self.healthy() if link.model is not None and link.model.name), "")

    def context_tokens(self) -> int | None:
        """The longest sequence that an instance takes, in tokens; None where none has said it."""
        said = [link.model.context_tokens for link in self.links.values() if link.model is not None]
        return max((tokens for tokens in said if tokens is not None), default=None)

    def working(self) -> int:
        """The number of healthy instances not on probation, where an instance says nothing of what it serves."""
        now_s = self._now_s()
        return sum(link.health.state(now_s) is BreakerState.CLOSED for link in self.healthy())

    def seats(self) -> int:
        """The seats of the healthy instances."""
        return sum(link.seats for link in self.healthy())

    def open_seats(self) -> int:
        """The seats that this router has filled or may fill: what the desk may dispatch to."""
        now_s = self._now_s()
        return sum(link.open_seats(now_s) for link in self.links.values())

    def presence(self) -> tuple[float, int]:
        """The weighted share of the instances that are healthy and not on probation, and the seats taken elsewhere.

        The latter are those at the other instances, and those of the probes of instances on probation.
        """
        now_s, there, whole, elsewhere = self._now_s(), 0.0, list[float](), 0
        for link in self.links.values():
            if not link.leaving:
                whole.append(link.address.weight)
            if link.leaving or link.health.state(now_s) is not BreakerState.CLOSED:
                elsewhere += link.open_seats(now_s)
            else:
                there += link.address.weight
        if not whole:
            return 0.0, elsewhere
        return there / max(sum(whole), sum(whole) / len(whole) * (self.most or 0)), elsewhere

    def front_share(self) -> float:
        """The share of the healthy instances that this front may fill, of several; 1 where it is the only one."""
        now_s, there, ours = self._now_s(), 0.0, 0.0
        for link in self.links.values() if self._grants else ():
            if link.granted is not None and link.seats and link.health.state(now_s) is BreakerState.CLOSED:
                there += link.address.weight
                ours += link.address.weight * min(1.0, link.granted / link.seats)
        return ours / there if there else 1.0

    def grant(self, seats: Mapping[str, int], until_s: float) -> None:
        """Let this front of several fill so many seats of each instance until a time."""
        self._grants = True
        for name, link in self.links.items():
            link.granted, link.granted_until_s = seats.get(name, 0), until_s
        self._serve()
        self.on_change()

    def join(self, link: InstanceLink) -> None:
        """Take in an instance; a known one of its name stays as it is, and is not leaving."""
        known = self.links.setdefault(link.address.name, link)
        if known is link:
            link.granted = 0 if self._grants else None
            log.info("instance %s has come", link.address.name)
        elif known.leaving:
            known.leaving = False
            self._changed(known)

    def leave(self, link: InstanceLink) -> None:
        """Send an instance no new requests, and forget it where nothing runs there. Call again until then."""
        name = link.address.name
        if not link.leaving:
            log.info("instance %s leaves", name)
            link.leaving = True
            self._changed(link)
        if link.idle and self.links.get(name) is link:
            del self.links[name]
            self._states.pop(name, None)

    def most_seats(self) -> int:
        """The largest known number of seats that all instances may reach."""
        return sum(link.known.most for link in self.links.values())

    def load(self) -> Load:
        """The load of the healthy instances by their last readings.

        The sequences that run there, those that wait there or for them, and the use of the fullest KV cache.
        """
        links = list(self.healthy())
        kv_use = max((link.reading.kv_use for link in links), default=0.0)
        spaces = [link.reading.kv_tokens for link in links]
        running = sum(link.running for link in links)
        waiting = sum(link.reading.waiting for link in links)
        kv_tokens = None if None in spaces else sum(space for space in spaces if space is not None)
        return Load(running, waiting + self.waiting, kv_use, kv_capacity_tokens=kv_tokens or None)

    @property
    def waiting(self) -> int:
        """Dispatched requests that wait for an instance."""
        return len(self._waiting)

    async def any_healthy(self) -> None:
        """Return as soon as an instance is healthy."""
        while not any(True for _ in self.healthy()):
            self._healthy.clear()
            await self._healthy.wait()

    async def lease(self, call: Call, demand: Demand, without: frozenset[str]) -> Lease:
        """Seats on an instance other than these, once there is one. Raises AllTriedError where no other is healthy."""
        lease = None if self._waiting else self._choose(call, demand, without)
        if lease is not None:
            return lease
        self._check_tried(without)
        waiting = _Waiting(call, demand, without)
        self._waiting.append(waiting)
        self._serve()
        try:
            return await waiting.lease
        except asyncio.CancelledError:
            if waiting.lease.done() and not waiting.lease.cancelled() and waiting.lease.exception() is None:
                self.give_back(waiting.lease.result())
            raise
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    def release(self, lease: Lease, verdict: Verdict, how: str) -> None:
        """End the exchange: its instance answered, failed, or neither; ``how`` is the label it is counted under.

        A lease that was given back before is left alone.
        """
        link = lease.link
        if lease not in link.leases:
            return
        link.leases.discard(lease)
        link.sent -= lease.seats
        link.calls.discard(lease.call)
        link.ended[how] += 1
        link.health.ended(lease.number, verdict, self._now_s())
        self._changed(link)

    def answering(self, lease: Lease) -> None:
        """Note the first bytes of a good answer: a probed instance is healthy before the probe ends."""
        now_s, link = self._now_s(), lease.link
        if link.health.state(now_s) is not BreakerState.CLOSED:
            link.health.answering(lease.number, now_s)
            self._changed(link)

    def give_back(self, lease: Lease) -> None:
        """Give back a lease with which nothing was sent."""
        self.release(lease, Verdict.UNDECIDED, "unsent")

    def heard(self, link: InstanceLink) -> None:
        """Note a good heartbeat."""
        link.health.heartbeat(self._now_s(), good=True)
        if not (link.idle or link.exclusive or link.reading.says_progress):  # else a whole answer would seem to stall
            link.progress += 1
        self._changed(link)

    def read(self, link: InstanceLink, reading: InstanceReading, sent_before: int) -> None:
        """Take an instance's metrics; ``sent_before``: what this router ran there when it asked for them."""
        before = link.progress
        link.read(reading, sent_before)
        if link.progress > before:
            link.health.progressed(self._now_s())
        self._changed(link)

    def unread(self, link: InstanceLink) -> None:
        """Note that an instance's metrics have not answered for long: requests of other clients there are unknown."""
        if link.unread():
            name = link.address.name
            log.warning("instance %s: its metrics do not answer; requests of other clients there count no more", name)
            self._changed(link)

    def unready(self, link: InstanceLink) -> None:
        """Note a heartbeat that is not ready: the instance gets no requests. Its present ones go on."""
        link.health.heartbeat(self._now_s(), good=False)
        self._changed(link, "its health route answers: not ready")

    def broke(self, link: InstanceLink) -> None:
        """Note a broken connection or a refusal: the instance gets no requests. Its present ones go on."""
        link.health.broke(self._now_s())
        self._changed(link, "no connection, a broken connection, or a refused request")

    def late(self, link: InstanceLink) -> None:
        """Note a heartbeat without an answer. The instance's health decides: nothing yet, no requests, or lost."""
        if link.health.lost(self._now_s()):
            self.lost(link)
        else:
            self._changed(link, "no answer from its health route in time")

    def lost(self, link: InstanceLink) -> None:
        """Note an absent or silent instance. Its requests without output are tried elsewhere."""
        self.broke(link)
        for call in [pending for pending in link.calls if not pending.begun]:
            call.stop(InstanceLostError(link.address.name, sent=True))

    # ------------------------------------------------------------------ inside

    def _changed(self, link: InstanceLink, why: str = "silent, or failing requests") -> None:
        self._log_state(link, why)
        if any(True for _ in self.healthy()):
            self._healthy.set()
        self._serve()
        self.on_change()

    def _log_state(self, link: InstanceLink, why: str) -> None:
        name, state = link.address.name, link.health.state(self._now_s())
        before = self._states.get(name)
        self._states[name] = state
        if state is before:
            return
        if state is BreakerState.OPEN:
            log.warning("instance %s receives no requests: %s", name, why)
        elif state is BreakerState.CLOSED:
            assumed = "" if link.says_seats else " assumed, as it has not said its own"
            log.info("instance %s is healthy: %d seats%s", name, link.seats, assumed)

    def _serve(self) -> None:
        """Give seats to the waiting requests, in their order."""
        for waiting in list(self._waiting):
            if waiting.lease.done():
                continue
            lease = self._choose(waiting.call, waiting.demand, waiting.without)
            if lease is not None:
                waiting.lease.set_result(lease)
                self._waiting.remove(waiting)
            elif waiting.without:
                try:
                    self._check_tried(waiting.without)
                except AllTriedError as tried:
                    waiting.lease.set_exception(tried)
                    self._waiting.remove(waiting)

    def _choose(self, call: Call, demand: Demand, without: frozenset[str]) -> Lease | None:
        now_s = self._now_s()
        able = [
            instance
            for name, instance in self.links.items()
            if name not in without and not instance.leaving and instance.health.takes(now_s) and instance.seats > 0
        ]
        name = self._router.choose(demand, [link.state(now_s) for link in able])
        if name is None:
            return None
        link = self.links[name]
        number = link.health.begin(now_s)
        if number is None:
            return None
        link.sent += demand.seats
        link.calls.add(call)
        link.prefixes.sent(demand.prefix)
        lease = Lease(link, demand.seats, number, call, link.progress)
        link.leases.add(lease)
        return lease

    def _check_tried(self, without: frozenset[str]) -> None:
        names = {link.address.name for link in self.healthy()}
        if names and names <= without:
            raise AllTriedError
