"""The waiting tickets of one class, tenant by tenant, and the one that gives its place to another tenant's.

Without this, the tenant that sends most fills the queue, and those that send little are refused like it. Longest queue
drop (Suter et al., "Design Considerations for Supporting TCP with Per-Flow Queueing", INFOCOM 1998; McKenney's
stochastic fairness queueing, INFOCOM 1990, and FQ-CoDel, RFC 8290, do so too): in a full queue the tenant with the
longest queue loses a ticket to an arrival of another one. Lengths are numbers of tickets, divided by the share of the
tenant. Here the newest ticket goes, which has waited least; where queues drop for the sake of TCP it is the oldest.

Bound: an arrival takes a place only where the queue of its tenant, with it, is still shorter than the longest one, so
places do not go back and forth between tenants. A tenant whose arrival is refused has, of B places with tickets that
may go, at least ``share / sum(shares) * B - 1``, over the tenants that wait: max-min fairness, within one ticket.

A ticket that was dispatched before is not listed: it never gives its place, and does not count. The cost of a call is
O(log of the waiting tenants) on average: a heap with a live entry for each tenant, never shorter than its queue, which
is corrected when it reaches the top.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace

from headway_policies.request import Ticket

_SPARE = 64


@dataclass(slots=True, eq=False)
class _Tenant:
    """The tickets of a tenant, in the order of arrival. ``share`` is that of its newest one, ``entry`` the number of
    its live entry in the heap.
    """

    share: float
    entry: int = 0
    tickets: OrderedDict[int, Ticket] = field(default_factory=OrderedDict)

    @property
    def length(self) -> float:
        """The tickets that wait, for its share."""
        return len(self.tickets) / self.share


class TenantQueues:
    """The queues of the tenants of one class."""

    def __init__(self) -> None:
        self._tenants: dict[str, _Tenant] = {}
        self._heap: list[tuple[float, int, _Tenant]] = []
        self._entries = 0

    def add(self, ticket: Ticket) -> None:
        """Add a ticket that came after all others of its tenant."""
        tenant = self._tenants.get(ticket.tenant)
        if tenant is None:
            tenant = self._tenants[ticket.tenant] = _Tenant(ticket.share)
        tenant.tickets[ticket.id] = ticket
        tenant.share = ticket.share
        heappush(self._heap, self._entry(tenant))
        if len(self._heap) > 2 * len(self._tenants) + _SPARE:
            self._heap = [entry for entry in self._heap if entry[1] == entry[2].entry]
            heapify(self._heap)

    def discard(self, ticket: Ticket) -> None:
        """Remove a ticket, if it is listed."""
        tenant = self._tenants.get(ticket.tenant)
        if tenant is None or tenant.tickets.pop(ticket.id, None) is None:
            return
        if not tenant.tickets:
            tenant.entry = -1
            del self._tenants[ticket.tenant]

    def giving_place_to(self, ticket: Ticket) -> Ticket | None:
        """The ticket that gives its place to an arrival; None where no queue is longer than that of its tenant."""
        longest, own = self._longest(), self._tenants.get(ticket.tenant)
        with_it = (1 if own is None else len(own.tickets) + 1) / ticket.share
        if longest is None or longest is own or longest.length <= with_it:
            return None
        return next(reversed(longest.tickets.values()))

    def __len__(self) -> int:
        """The number of tenants with a listed ticket."""
        return len(self._tenants)

    def _longest(self) -> _Tenant | None:
        """The tenant of the live entry with the longest queue; an outdated entry is corrected on the way."""
        while self._heap:
            length, entry, tenant = self._heap[0]
            if entry != tenant.entry:
                heappop(self._heap)
            elif -length > tenant.length:
                heapreplace(self._heap, self._entry(tenant))
            else:
                return tenant
        return None

    def _entry(self, tenant: _Tenant) -> tuple[float, int, _Tenant]:
        self._entries += 1
        tenant.entry = self._entries
        return -tenant.length, tenant.entry, tenant
