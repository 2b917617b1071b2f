"""The queues of all classes: the common base of the orders, which only add ``head``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from headway_policies.queueing.disciplines import ByArrival, Discipline, Fifo
from headway_policies.request import PriorityClass, Ticket

#: Makes the discipline of a class from its terms.
MakeDiscipline = Callable[[PriorityClass], Discipline]


def fifo(terms: PriorityClass) -> Discipline:
    """First come, first served, whatever the class."""
    return Fifo()


@dataclass(slots=True, eq=False)
class ClassQueue:
    """The queue of one class. ``rank`` is 0 for the least urgent class.

    ``late`` holds the tickets that have been relegated: they go when no other ticket of the class waits, the one that
    was relegated last first. The last one is the least late (adaptive LIFO; Maurer, "Fail at Scale", ACM Queue 2015).
    """

    name: str
    rank: int
    priority: int
    discipline: Discipline
    waiting: int = 0
    late: ByArrival = field(default_factory=ByArrival)
    late_seats: Counter[str] = field(default_factory=Counter)  # by tenant
    all_late_seats: int = 0

    def head(self, now_s: float) -> Ticket | None:
        """The ticket of the class to dispatch next, or None."""
        return self.discipline.head(now_s) if len(self.late) < self.waiting else self.late.newest()

    def oldest(self) -> Ticket | None:
        """The longest-waiting ticket."""
        if not len(self.late):
            return self.discipline.oldest()
        firsts = [ticket for ticket in (self.late.oldest(), self.discipline.oldest()) if ticket is not None]
        return min(firsts, key=lambda ticket: ticket.arrived_s)

    def newest(self) -> Ticket | None:
        """The newest ticket that is not late."""
        return self.discipline.newest() if len(self.late) < self.waiting else self.late.newest()


class ClassQueues:
    """The queues of all classes, most urgent first. A larger ``priority`` is more urgent, below 0 too."""

    def __init__(self, classes: Mapping[str, PriorityClass], make_discipline: MakeDiscipline = fifo) -> None:
        ranked = sorted(classes, key=lambda name: classes[name].priority)
        self._queues = [
            ClassQueue(name, rank, classes[name].priority, make_discipline(classes[name]))
            for rank, name in enumerate(ranked)
        ][::-1]
        self._by_name = {queue.name: queue for queue in self._queues}
        self._by_ticket: dict[int, ClassQueue] = {}

    def push(self, ticket: Ticket, class_name: str, tokens: float, now_s: float) -> None:
        """Add a ticket to the queue of a class."""
        one = self._by_name[class_name]
        one.discipline.push(ticket, tokens, now_s)
        one.waiting += 1
        self._by_ticket[ticket.id] = one

    def restore(self, ticket: Ticket, class_name: str, tokens: float, now_s: float) -> None:
        """Add a ticket that went and came back, in its own place where the discipline of its class has one."""
        one = self._by_name[class_name]
        if isinstance(one.discipline, Fifo):
            one.discipline.restore(ticket, tokens, now_s)
        else:
            one.discipline.push(ticket, tokens, now_s)
        one.waiting += 1
        self._by_ticket[ticket.id] = one

    def remove(self, ticket_id: int) -> Ticket | None:
        """Remove a ticket from any position."""
        one = self._by_ticket.pop(ticket_id, None)
        if one is None:
            return None
        one.waiting -= 1
        late = one.late.remove(ticket_id)
        if late is None:
            return one.discipline.remove(ticket_id)
        one.all_late_seats -= late.seats
        one.late_seats[late.tenant] -= late.seats
        if not one.late_seats[late.tenant]:
            del one.late_seats[late.tenant]
        return late

    @property
    def restores(self) -> bool:
        """Whether every class has a discipline with a place for a ticket that comes back."""
        return all(isinstance(queue.discipline, Fifo) for queue in self._queues)

    @property
    def relegates(self) -> bool:
        """Whether tickets can be relegated: all classes have the same discipline."""
        return all(isinstance(queue.discipline, Fifo) and queue.discipline.relegates for queue in self._queues)

    def relegate(self, ticket: Ticket, now_s: float) -> bool:
        """Put a waiting ticket behind all others of its class; False where its discipline does not allow that."""
        one = self._by_ticket[ticket.id]
        if not self.relegates:
            return False
        one.discipline.remove(ticket.id)
        one.late.push(ticket, 0.0, now_s)
        one.all_late_seats += ticket.seats
        one.late_seats[ticket.tenant] += ticket.seats
        return True

    def owed(self, ticket: Ticket, *, alone: bool = False) -> bool:
        """Whether the next ticket of a class gives its turn to no other, by its discipline."""
        discipline = self._by_ticket[ticket.id].discipline
        return isinstance(discipline, Fifo) and discipline.owed(ticket, alone=alone)

    def charge(self, ticket: Ticket, class_name: str, tokens: float) -> None:
        """Charge the ticket to the discipline of its class, which a late ticket has left before."""
        one = self._by_name[class_name]
        if ticket.id in one.late:
            one.discipline.correct(ticket, tokens)
        else:
            one.discipline.charge(ticket, tokens)

    def correct(self, ticket: Ticket, class_name: str, tokens: float) -> None:
        """Correct the charge in the discipline of the class."""
        self._by_name[class_name].discipline.correct(ticket, tokens)

    def worst_below(self, priority: int) -> Ticket | None:
        """The newest of the least urgent class that has one."""
        for queue in reversed(self._queues):
            if queue.priority >= priority:
                return None
            if queue.waiting:
                return queue.newest()
        return None

    def waiting(self, class_name: str) -> int:
        """The number of waiting tickets of a class."""
        return self._by_name[class_name].waiting

    def ahead(self, class_name: str, tenant: str) -> int:
        """About how many tickets of a class go before a new one of a tenant; all under a custom discipline. Late
        tickets do not.
        """
        one = self._by_name[class_name]
        return one.discipline.ahead(tenant) if isinstance(one.discipline, Fifo) else one.waiting

    def late(self, class_name: str) -> ByArrival:
        """The late tickets of a class."""
        return self._by_name[class_name].late

    def late_seats(self, class_name: str, tenant: str | None = None) -> int:
        """The seats that the late tickets of a class want, or of a given tenant in it."""
        one = self._by_name[class_name]
        return one.all_late_seats if tenant is None else one.late_seats[tenant]

    def oldest(self) -> Iterator[Ticket]:
        """The longest-waiting ticket of each class that has one."""
        return (ticket for queue in self._queues if (ticket := queue.oldest()) is not None)

    def first_of(self, class_name: str, now_s: float) -> Ticket | None:
        """The next ticket of a class, out of its turn; None without one. The turns of other classes stay."""
        return self._by_name[class_name].head(now_s)

    def heads(self, now_s: float, excluded: Collection[str] = ()) -> Iterator[tuple[str, Ticket]]:
        """(class, next ticket) of each class that has one and is not excluded, the most urgent class first."""
        for queue in self._queues:
            ticket = queue.head(now_s) if queue.waiting and queue.name not in excluded else None
            if ticket is not None:
                yield queue.name, ticket

    def __len__(self) -> int:
        return len(self._by_ticket)

    def __iter__(self) -> Iterator[Ticket]:
        for queue in self._queues:
            yield from queue.late
            yield from queue.discipline
