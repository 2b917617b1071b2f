"""One instance as the router knows it: its health, its last reading, and what was sent to it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from headway.router.addresses import Address
from headway.router.call import Call
from headway.router.reading import Reading
from headway_policies.routing import Instance, InstanceHealth, SentPrefixes


@dataclass(slots=True, eq=False)
class InstanceLink:
    """``sent`` sequences of this router run there, ``others`` of other clients did at the last reading.

    ``usual_seats`` is the number of seats where the instance does not say its own. ``progress`` counts the readings
    that showed new tokens. ``calls`` are those under way there, ``ended`` counts the exchanges by how they ended.
    """

    address: Address
    usual_seats: int
    health: InstanceHealth = field(default_factory=InstanceHealth)
    prefixes: SentPrefixes = field(default_factory=SentPrefixes)
    reading: Reading = field(default_factory=Reading)
    sent: int = 0
    others: int = 0
    progress: int = 0
    calls: set[Call] = field(default_factory=set)
    ended: Counter[str] = field(default_factory=Counter)

    @property
    def seats(self) -> int:
        """Sequences that it runs at once."""
        return self.usual_seats if self.reading.seats is None else self.reading.seats

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

    def read(self, reading: Reading) -> None:
        """It answered with this reading."""
        if reading.tokens != self.reading.tokens:
            self.progress += 1
        self.reading = reading
        self.others = max(0, reading.running - self.sent)
