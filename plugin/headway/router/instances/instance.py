"""The state of an instance as the router knows it: its health, its last reading, and what was sent to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from math import inf
from typing import Final

from headway.distribution import Distribution
from headway.router.addresses import Address
from headway.router.forwarding.call import Call
from headway.router.instances.reading import InstanceReading, ServedModel
from headway_policies.fallback import BreakerState
from headway_policies.routing import Instance, InstanceHealth, InstanceSeats, SeatReading, SentPrefixes
from headway_policies.routing.health import SILENT_S

_FIRST_TOKEN_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_INTER_TOKEN_S: Final = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5)


@dataclass(slots=True, eq=False)
class InstanceLink:
    """An instance: ``sent`` sequences of this router run there, at the last reading ``others`` of other clients.

    ``usual_seats`` is the number of seats where the instance does not state its own, and ``known`` what its readings
    have shown of them. Its metrics were asked for at ``asked_s``, those that came last at ``read_s``. ``model`` is None
    until it has said what it serves. ``progress`` counts the readings that showed new tokens. A ``leaving`` instance
    gets no new requests. ``calls`` are those under way there, ``leases`` the seats that they occupy, and ``ended``
    counts the exchanges by how they ended. ``granted`` seats are those of this front until ``granted_until_s``, None
    where it is the only one. ``first_token`` and ``inter_token`` are what its streams took. An ``exclusive`` instance
    has the usual seats and no other clients, whatever a reading says, which may be that of a step before the last one.
    Its context is shorter than ``context_below``; None while no limit of tokens was too large for it.
    """

    address: Address
    usual_seats: int
    health: InstanceHealth = field(default_factory=InstanceHealth)
    prefixes: SentPrefixes = field(default_factory=SentPrefixes)
    reading: InstanceReading = field(default_factory=InstanceReading)
    model: ServedModel | None = None
    sent: int = 0
    others: int = 0
    progress: int = 0
    asked_s: float = -inf
    read_s: float = -inf
    leaving: bool = False
    exclusive: bool = False
    calls: set[Call] = field(default_factory=set)
    leases: set[Lease] = field(default_factory=set)
    ended: Counter[str] = field(default_factory=Counter)
    granted: int | None = None
    granted_until_s: float = inf
    context_below: int | None = None
    first_token: Distribution = field(default_factory=lambda: Distribution(_FIRST_TOKEN_S))
    inter_token: Distribution = field(default_factory=lambda: Distribution(_INTER_TOKEN_S))
    known: InstanceSeats = field(init=False)

    def __post_init__(self) -> None:
        self.known = InstanceSeats(self.usual_seats)

    def serves(self, model: ServedModel) -> None:
        """True once the instance has said its model, and its seats if it says them."""
        self.model = model
        seats = model.seats or self.usual_seats
        if seats != self.known.usual:
            self.known = InstanceSeats(seats)
        self.health.silent_s = SILENT_S + self.health_takes_s

    @property
    def health_takes_s(self) -> float:
        """The time that its health route may take longer than those of others."""
        return 0.0 if self.model is None or self.model.dialect is None else self.model.dialect.health_takes_s

    @property
    def says_seats(self) -> bool:
        """Whether the instance has stated its seats."""
        said = self.reading.limit is not None or (self.model is not None and self.model.seats is not None)
        return self.exclusive or said

    @property
    def maker(self) -> str:
        """The maker of its server; empty while unknown."""
        return "" if self.model is None or self.model.dialect is None else self.model.dialect.maker

    def lacks(self) -> list[str]:
        """The gaps in the instance's own report, in words."""
        model = self.model or ServedModel()
        own = (("seats", self.says_seats), ("context", model.context_tokens), ("model", model.name))
        return [*self.reading.lacks, *(words for words, said in own if not said)]

    @property
    def seats(self) -> int:
        """The sequences that the instance may get, by its present figures."""
        return self.known.seats

    def allowed(self, now_s: float) -> int:
        """The sequences that may run at the instance, other clients' included, within this front's share."""
        if self.granted is None:
            return self.seats
        return min(self.seats, self.others + (self.granted if now_s < self.granted_until_s else 0))

    @property
    def running(self) -> int:
        """The sequences that run there."""
        return self.sent if self.exclusive else max(self.reading.running, self.sent)

    @property
    def idle(self) -> bool:
        """Whether nothing of this router runs there."""
        return not self.calls and not self.leases

    def open_seats(self, now_s: float) -> int:
        """The seats that this router has filled there or may fill.

        Of an instance on probation one more than it has filled, of an instance that gets nothing those that it has
        filled.
        """
        state = self.health.state(now_s)
        if state is BreakerState.OPEN or self.leaving:
            return self.sent
        free = max(self.sent, self.allowed(now_s) - self.others)
        return free if state is BreakerState.CLOSED else min(free, self.sent + self.health.takes(now_s))

    def state(self, now_s: float) -> Instance:
        """The instance as a routing policy sees it."""
        return Instance(
            self.address.name,
            self.allowed(now_s),
            self.sent + self.others,
            self.reading.kv_use,
            self.address.weight,
            self.prefixes,
            self.reading.kv_tokens,
            self.address.classes,
        )

    def read(self, reading: InstanceReading, sent_before: int) -> None:
        """Take a reading, for which the instance was asked while ``sent_before`` sequences of this router ran."""
        if reading.tokens != self.reading.tokens:
            self.progress += 1
        self.reading, self.read_s = reading, self.asked_s
        if not self.exclusive:
            self.others = max(0, reading.running - max(sent_before, self.sent))
            seen = SeatReading(reading.running, reading.waiting, reading.limit, reading.reach)
            self.known.read(seen, sent_before + self.others)

    def unread(self) -> bool:
        """Forget the load of a reading that is too old; returns whether there was one."""
        blank = replace(self.reading, running=0, waiting=0, kv_use=0.0)
        if blank == self.reading and not self.others:
            return False
        self.reading, self.others = blank, 0
        return True


@dataclass(frozen=True, slots=True, eq=False)
class Lease:
    """The seats of one request on one instance, until they are given back.

    ``progress_before`` is the instance's progress when they were taken.
    """

    link: InstanceLink
    seats: int
    number: int
    call: Call
    progress_before: int

    @property
    def progress(self) -> int:
        """The readings since then that showed new tokens."""
        return self.link.progress - self.progress_before
