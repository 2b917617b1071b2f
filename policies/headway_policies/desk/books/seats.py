"""The seats of the engine: how many each class occupies, and whether a ticket may have some.

A class may keep seats free for itself (its ``reserved_seats``, or those that its objective requires): classes less
urgent than it see the limit lowered by what it has reserved and not taken. At least one seat is open to every class, so
that a small limit blocks none.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headway_policies.request import PriorityClass


class Seats:
    """The seats and tokens taken, in all and by class.

    ``beside`` counts the seats of the bypass that are taken. ``overflow`` counts sequences without a seat of their
    own, of tickets wider than the limit: they queue inside the engine.
    """

    def __init__(self) -> None:
        self.taken = 0
        self.tokens = 0
        self.beside = 0
        self.overflow = 0
        self._taken_by: dict[str, int] = {}
        self._reserved: dict[str, int] = {}
        self._reserved_seats = 0
        self._above: dict[str, tuple[str, ...]] = {}

    def reserve(self, classes: Mapping[str, PriorityClass]) -> None:
        """Put the reserves of these classes in force."""
        self._reserved = {
            name: terms.reserved_seats or 0
            for name, terms in classes.items()
            if terms.reserved_seats or (terms.reserved_seats is None and terms.ttft_slo_s is not None)
        }
        self._reserved_seats = sum(self._reserved.values())
        self._above = {
            name: tuple(other for other in self._reserved if classes[other].priority > terms.priority)
            for name, terms in classes.items()
        }

    def reserve_for(self, class_name: str, seats: int) -> None:
        """Keep so many seats free from now on for a class whose objective decides on them."""
        self._reserved_seats += seats - self._reserved[class_name]
        self._reserved[class_name] = seats

    def reserved(self) -> Mapping[str, int]:
        """The seats that are kept for each class, whether it has taken them or not; a class without any may lack."""
        return self._reserved

    def take(self, class_name: str, seats: int, tokens: int) -> None:
        """Take this many seats and tokens more (fewer, below 0)."""
        self.taken += seats
        self.tokens += tokens
        self._taken_by[class_name] = self._taken_by.get(class_name, 0) + seats

    def taken_by(self, class_name: str) -> int:
        """The seats that a class occupies."""
        return self._taken_by.get(class_name, 0)

    def free(self, class_name: str, limit: int) -> int:
        """The seats this class may still take under a limit; 0 or less when there is none."""
        return limit - self._reserved_from(class_name, limit) - self.taken

    def fit(self, class_name: str, seats: int, limit: int) -> bool:
        """Whether a ticket of so many sequences has its seats now."""
        if self.taken >= limit:
            return False
        if self.taken + seats + self._reserved_seats <= limit:  # no reserve can matter
            return True
        return self.needed(class_name, seats, limit) <= self.free(class_name, limit)

    def needed(self, class_name: str, seats: int, limit: int) -> int:
        """The seats that a ticket of so many sequences gets: no more than its class could ever have at once."""
        return 1 if seats == 1 else min(seats, self.most(class_name, limit))

    def most(self, class_name: str, limit: int) -> int:
        """The largest number of seats that a class could ever have at once."""
        return max(1, limit - sum(self._reserved[other] for other in self._above.get(class_name, ())))

    def barred(self, limit: int) -> Collection[str]:
        """The classes that may take no seat now because of another class's reserve."""
        if not self._reserved_seats or self.taken + self._reserved_seats < limit:
            return ()
        return [name for name, above in self._above.items() if above and self.free(name, limit) < 1]

    def reserves_above(self, class_name: str) -> dict[str, int]:
        """The seats that each class above this one has reserved and not taken, where there are any."""
        above = self._above.get(class_name, ())
        left = {name: self._reserved[name] - self.taken_by(name) for name in above}
        return {name: seats for name, seats in left.items() if seats > 0}

    def _reserved_from(self, class_name: str, limit: int) -> int:
        above = self._above.get(class_name)
        if not above:
            return 0
        kept = sum(max(0, self._reserved[other] - self.taken_by(other)) for other in above)
        return min(kept, limit - 1)
