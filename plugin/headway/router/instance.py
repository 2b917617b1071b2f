"""One instance as the router knows it: its health, its last reading, and what was sent to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import InitVar, dataclass, field

from headway.router.addresses import Address
from headway.router.call import Call
from headway.router.reading import Reading, ServedModel
from headway_policies.fallback import BreakerState
from headway_policies.routing import Instance, InstanceHealth, InstanceSeats, SeatReading, SentPrefixes


@dataclass(slots=True, eq=False)
class InstanceLink:
    """``sent`` sequences of this router run there, ``others`` of other clients did at the last reading.

    ``usual_seats`` is the number of seats where the instance does not say its own, and ``known`` what its readings have
    shown of them. ``model`` is None until it has said what it serves. ``progress`` counts the readings that showed new
    tokens. One that is ``leaving`` gets no new requests. ``calls`` are those under way there, ``leases`` the seats that
    they hold, and ``ended`` counts the exchanges by how they ended. An ``exclusive`` one has the usual seats and no
    other clients, whatever a reading says, which may be that of a step before the last one.
    """

    address: Address
    usual_seats: InitVar[int]
    health: InstanceHealth = field(default_factory=InstanceHealth)
    prefixes: SentPrefixes = field(default_factory=SentPrefixes)
    reading: Reading = field(default_factory=Reading)
    model: ServedModel | None = None
    sent: int = 0
    others: int = 0
    progress: int = 0
    leaving: bool = False
    exclusive: bool = False
    calls: set[Call] = field(default_factory=set)
    leases: set[Lease] = field(default_factory=set)
    ended: Counter[str] = field(default_factory=Counter)
    known: InstanceSeats = field(init=False)

    def __post_init__(self, usual_seats: int) -> None:
        self.known = InstanceSeats(usual_seats)

    @property
    def seats(self) -> int:
        """Sequences that it may be sent, by what is known of it now."""
        return self.known.seats

    @property
    def running(self) -> int:
        """Sequences that run there."""
        return self.sent if self.exclusive else max(self.reading.running, self.sent)

    @property
    def idle(self) -> bool:
        """Whether nothing of this router runs there."""
        return not self.calls and not self.leases

    def open_seats(self, now_s: float) -> int:
        """Seats that this router has filled there or may fill: of one on probation one more than it has filled, of one
        that gets nothing those that it has filled."""
        state = self.health.state(now_s)
        if state is BreakerState.OPEN or self.leaving:
            return self.sent
        free = max(0, self.seats - self.others)
        return free if state is BreakerState.CLOSED else min(free, self.sent + self.health.takes(now_s))

    def state(self) -> Instance:
        """What a routing policy sees of it."""
        return Instance(
            self.address.name,
            self.seats,
            self.sent + self.others,
            self.reading.kv_use,
            self.address.weight,
            self.prefixes,
        )

    def read(self, reading: Reading, sent_before: int) -> None:
        """It answered with this reading, while ``sent_before`` sequences of this router ran when it was asked."""
        if reading.tokens != self.reading.tokens:
            self.progress += 1
        self.reading = reading
        if not self.exclusive:
            self.others = max(0, reading.running - max(sent_before, self.sent))
            self.known.read(SeatReading(reading.running, reading.waiting, reading.limit, reading.reach), sent_before)


@dataclass(frozen=True, slots=True, eq=False)
class Lease:
    """The seats of one request on one instance, until they are given back; ``progress_before`` is what the instance had
    when they were taken.
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
