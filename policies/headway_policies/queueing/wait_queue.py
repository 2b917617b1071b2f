"""The waiting tickets of a preset, and the bounds on them.

The queue keeps one order of tickets for each bin of predicted length (a single one, unless a batching strategy groups
similar lengths), and counts requests, prompt tokens and bytes, in total and by class. Of each class it knows the
tickets of every tenant that were never dispatched: in a full queue one of them may give its place to another tenant's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from headway_policies.queueing.adapters import Adapters
from headway_policies.queueing.bounds import QueueSettings
from headway_policies.queueing.class_queues import ClassQueues
from headway_policies.queueing.order import Order
from headway_policies.queueing.tenant_queues import TenantQueues
from headway_policies.request import PriorityClass, Reason, Ticket


@dataclass(slots=True)
class Lane:
    """An order of tickets, and the seats and tokens that wait in it."""

    order: Order
    seats: int = 0
    tokens: int = 0

    def opened_s(self) -> float | None:
        """The arrival of the lane's longest-waiting ticket; None when the lane is empty."""
        return min((ticket.arrived_s for ticket in self.order.oldest()), default=None)


@dataclass(slots=True)
class Sum:
    """Requests, prompt tokens, prompt bytes and seats of a set of tickets."""

    requests: int = 0
    tokens: int = 0
    bytes: int = 0
    seats: int = 0

    def add(self, ticket: Ticket, sign: int) -> None:
        """Add (1) or subtract (-1) a ticket."""
        self.requests += sign
        self.tokens += sign * ticket.prompt_tokens
        self.bytes += sign * ticket.prompt_bytes
        self.seats += sign * ticket.seats

    def over(self, ticket: Ticket, bounds: QueueSettings | PriorityClass) -> bool:
        """Whether another ticket would break the bounds."""
        return (
            self.requests >= bounds.max_waiting
            or (
                bounds.max_waiting_tokens is not None and self.tokens + ticket.prompt_tokens > bounds.max_waiting_tokens
            )
            or (bounds.max_waiting_bytes is not None and self.bytes + ticket.prompt_bytes > bounds.max_waiting_bytes)
        )

    def without(self, other: Sum) -> Sum:
        """The difference of two sums."""
        return Sum(
            self.requests - other.requests,
            self.tokens - other.tokens,
            self.bytes - other.bytes,
            self.seats - other.seats,
        )


@dataclass(slots=True)
class WaitQueue:
    """All waiting tickets of one preset. ``lanes`` is never empty.

    Tickets that ``adapters`` has set aside are in no order, and count in all but the seats.
    """

    classes: Mapping[str, PriorityClass]
    queue: QueueSettings
    lanes: list[Lane]
    adapters: Adapters = field(default_factory=Adapters)
    total: Sum = field(default_factory=Sum)
    by_class: dict[str, Sum] = field(init=False)
    _by_tenant: dict[tuple[str, str], int] = field(default_factory=dict)
    _tenants: dict[str, TenantQueues] = field(init=False)

    def __post_init__(self) -> None:
        self.by_class = {name: Sum() for name in self.classes}
        self._tenants = {name: TenantQueues(*self._bounds(terms)) for name, terms in self.classes.items()}

    def bound(self, classes: Mapping[str, PriorityClass], queue: QueueSettings) -> None:
        """Put the bounds of another preset with the same classes in force; what waits beyond them stays."""
        self.classes, self.queue = classes, queue
        for name, terms in classes.items():
            self._tenants[name].bound(*self._bounds(terms))

    def push(
        self,
        ticket: Ticket,
        class_name: str,
        lane: Lane,
        expected_tokens: float,
        now_s: float,
        *,
        dispatched_before: bool = False,
    ) -> None:
        """Add a ticket."""
        lane.order.push(ticket, class_name, expected_tokens, now_s)
        self._count(ticket, class_name, lane, 1)
        if not dispatched_before:
            self._tenants[class_name].add(ticket)

    def restore(self, ticket: Ticket, class_name: str, lane: Lane, expected_tokens: float, now_s: float) -> None:
        """Add a ticket that was dispatched and came back, in its own place where the order knows it."""
        if isinstance(lane.order, ClassQueues):
            lane.order.restore(ticket, class_name, expected_tokens, now_s)
        else:
            lane.order.push(ticket, class_name, expected_tokens, now_s)
        self._count(ticket, class_name, lane, 1)

    def remove(self, ticket: Ticket, class_name: str, lane: Lane, now_s: float) -> None:
        """Remove a ticket, which must be here."""
        self._take(ticket, class_name, lane, now_s)
        self._tenants[class_name].discard(ticket)

    def set_aside(self, ticket: Ticket, class_name: str, lane: Lane, now_s: float) -> None:
        """Take a ticket out of its order, until its adapter may run."""
        lane.order.remove(ticket.id)
        self._count_seats(ticket, class_name, lane, -1)
        self.adapters.set_aside(ticket, class_name, self.classes[class_name].priority, now_s)

    def rejoin(self, ticket: Ticket, class_name: str, lane: Lane, expected_tokens: float, now_s: float) -> None:
        """Put a ticket that was set aside back into its own place."""
        self._take(ticket, class_name, lane, now_s)
        self.restore(ticket, class_name, lane, expected_tokens, now_s)

    @property
    def restores(self) -> bool:
        """Whether a ticket that comes back is put before all that are here; a custom policy takes it as a new one."""
        order = self.lanes[0].order
        return isinstance(order, ClassQueues) and order.restores

    def relegate(self, ticket: Ticket, class_name: str, lane: Lane, now_s: float) -> bool:
        """Put a waiting ticket behind all others of its class; False where its order does not allow that."""
        return isinstance(lane.order, ClassQueues) and lane.order.relegate(ticket, now_s)

    def relegates(self, lane: Lane) -> bool:
        """Whether tickets of a lane can be relegated."""
        return isinstance(lane.order, ClassQueues) and lane.order.relegates

    def owed(self, ticket: Ticket, lane: Lane, *, alone: bool = False) -> bool:
        """Whether the next ticket of a class in a lane gives its turn to no other: its tenant was served so little;
        ``alone``: also where no other tenant of its class waits.
        """
        return isinstance(lane.order, ClassQueues) and lane.order.owed(ticket, alone=alone)

    def late(self, class_name: str, lane: Lane) -> int:
        """The number of tickets of a class that have been relegated in a lane."""
        return len(lane.order.late(class_name)) if isinstance(lane.order, ClassQueues) else 0

    def late_seats(self, class_name: str, tenant: str | None = None) -> int:
        """The seats that the relegated tickets of a class want, or of a given tenant in it."""
        orders = (lane.order for lane in self.lanes)
        return sum(order.late_seats(class_name, tenant) for order in orders if isinstance(order, ClassQueues))

    def first_of(self, class_name: str, lane: Lane, now_s: float) -> Ticket | None:
        """The next ticket of one class in a lane, out of its turn; a custom order is asked with all others excluded."""
        if isinstance(lane.order, ClassQueues):
            return lane.order.first_of(class_name, now_s)
        return lane.order.head(now_s, [name for name in self.by_class if name != class_name])

    def first_late(self, class_name: str, lane: Lane) -> Ticket | None:
        """The relegated ticket of a class that has waited longest; None without one."""
        return lane.order.late(class_name).oldest() if isinstance(lane.order, ClassQueues) else None

    def refusal(self, ticket: Ticket) -> Reason | None:
        """The reason to refuse this arrival for want of room; None when there is room."""
        if self.by_class[ticket.class_name].over(ticket, self.classes[ticket.class_name]):
            return Reason.CLASS_QUEUE_FULL
        return Reason.QUEUE_FULL if self.total.over(ticket, self.queue) else None

    def could_evict_for(self, ticket: Ticket) -> bool:
        """Whether there would be room for this arrival without all less urgent tickets."""
        urgency = self.classes[ticket.class_name].priority
        rest = self.total
        for name, load in self.by_class.items():
            if load.requests and self.classes[name].priority < urgency:
                rest = rest.without(load)
        return rest is not self.total and not rest.over(ticket, self.queue)

    def worst_below(self, class_name: str) -> Ticket | None:
        """The ticket to evict for an arrival of this class: the newest of the least urgent class below it."""
        urgency = self.classes[class_name].priority
        worst = [one for lane in self.lanes if (one := lane.order.worst_below(urgency)) is not None]
        worst += [aside.ticket for aside in self.adapters if aside.priority < urgency]
        return min(worst, key=self._worth, default=None)

    def evicted_for(self, ticket: Ticket) -> Iterator[Ticket]:
        """The tickets to remove until there is room for this arrival, each once the one before is gone."""
        while self.refusal(ticket) and (worst := self.worst_below(ticket.class_name)) is not None:
            yield worst

    def giving_place_to(self, ticket: Ticket) -> Sequence[Ticket]:
        """The tickets of its class that give their places to this arrival of another tenant; empty where none do, or
        their places are too small.
        """
        name, left, found = ticket.class_name, Sum(), list[Ticket]()
        for other in self._tenants[name].giving_place_to(ticket):
            found.append(other)
            left.add(other, 1)
            full = self.by_class[name].without(left).over(ticket, self.classes[name])
            if not full and not self.total.without(left).over(ticket, self.queue):
                return found
        return ()

    def seats_above(self, class_name: str) -> int:
        """The seats requested by waiting tickets of more urgent classes."""
        urgency = self.classes[class_name].priority
        return sum(load.seats for name, load in self.by_class.items() if self.classes[name].priority > urgency)

    def seats_in(self, class_name: str, tenant: str | None = None) -> int:
        """The seats requested by waiting tickets of a class; of one tenant, if it is given."""
        return self.by_class[class_name].seats if tenant is None else self._by_tenant.get((class_name, tenant), 0)

    def oldest(self) -> Iterator[Ticket]:
        """The longest-waiting ticket of each class, bin by bin, and those set aside."""
        yield from (ticket for lane in self.lanes for ticket in lane.order.oldest())
        yield from (aside.ticket for aside in self.adapters)

    def __len__(self) -> int:
        return self.total.requests

    def __iter__(self) -> Iterator[Ticket]:
        for lane in self.lanes:
            yield from lane.order
        yield from (aside.ticket for aside in self.adapters)

    def _bounds(self, terms: PriorityClass) -> tuple[int, int | None, int | None]:
        """The tickets, prompt tokens and bytes of a class that may wait: its own bounds, or those over all classes."""
        bounds = (terms, self.queue)
        tokens = [bound.max_waiting_tokens for bound in bounds if bound.max_waiting_tokens is not None]
        sizes = [bound.max_waiting_bytes for bound in bounds if bound.max_waiting_bytes is not None]
        waiting = min(bound.max_waiting for bound in bounds)
        return waiting, min(tokens, default=None), min(sizes, default=None)

    def _worth(self, ticket: Ticket) -> tuple[int, float, int]:
        terms = self.classes.get(ticket.class_name)
        return (-1_000_000 if terms is None else terms.priority, -ticket.arrived_s, -ticket.id)

    def _take(self, ticket: Ticket, class_name: str, lane: Lane, now_s: float) -> None:
        """Take a ticket out of its order, or from the tickets set aside."""
        if ticket.adapter is not None and self.adapters.forget(ticket, now_s):
            self._count_seats(ticket, class_name, lane, 1)
        else:
            lane.order.remove(ticket.id)
        self._count(ticket, class_name, lane, -1)

    def _count(self, ticket: Ticket, class_name: str, lane: Lane, sign: int) -> None:
        self.total.add(ticket, sign)
        self.by_class[class_name].add(ticket, sign)
        tenant = (class_name, ticket.tenant)
        seats = self._by_tenant.get(tenant, 0)
        if seats + sign * ticket.seats:
            self._by_tenant[tenant] = seats + sign * ticket.seats
        else:
            del self._by_tenant[tenant]
        lane.seats += sign * ticket.seats
        lane.tokens += sign * ticket.total_tokens

    def _count_seats(self, ticket: Ticket, class_name: str, lane: Lane, sign: int) -> None:
        """Count a ticket in the seats alone, and all that goes by them."""
        for total in (self.total, self.by_class[class_name]):
            total.requests -= sign
            total.tokens -= sign * ticket.prompt_tokens
            total.bytes -= sign * ticket.prompt_bytes
        self._count(ticket, class_name, lane, sign)
