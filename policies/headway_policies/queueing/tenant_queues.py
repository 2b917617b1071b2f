"""The waiting tickets of one class, tenant by tenant, and the one that gives its place to another tenant's.

Without this, the tenant that sends most fills the queue, and those that send little are refused like it. Longest queue
drop (Suter et al., "Design Considerations for Supporting TCP with Per-Flow Queueing", INFOCOM 1998; McKenney's
stochastic fairness queueing, INFOCOM 1990, and FQ-CoDel, RFC 8290, do so too): in a full queue the tenant with the
longest queue loses a ticket to an arrival of another one. Here the newest ticket goes, which has waited least; where
queues drop for the sake of TCP it is the oldest. The length of a queue is the largest part that it has of any bound
(dominant share; Ghodsi et al., NSDI 2011), divided by the share of the tenant: of the places, of the prompt tokens and
of the bytes, the last two where they are bounded. It is told in places.

Bound: an arrival takes places only where the queue of its tenant, with it, is still shorter than the longest one, so
places do not go back and forth between tenants. A tenant whose arrival is refused has, of B places with tickets that
may go, at least ``share / sum(shares) * B - 1``, over the tenants that wait: max-min fairness, within one ticket. A
long prompt may take the places of several, ``_MOST_GIVING`` at most, all of one tenant.

A ticket that was dispatched before is not listed: it never gives its place, and does not count. The cost of a call is
O(log of the waiting tenants) on average: a heap with a live entry for each tenant, never shorter than its queue, which
is corrected when it reaches the top.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace
from itertools import islice

from headway_policies.request import Ticket

_SPARE = 64
#: The tickets that give their places to one arrival.
_MOST_GIVING = 64


@dataclass(slots=True, eq=False)
class _Tenant:
    """The tickets of a tenant, in the order of arrival, with their prompt tokens and bytes. ``share`` is that of its
    newest one, ``entry`` the number of its live entry in the heap.
    """

    share: float
    entry: int = 0
    tokens: int = 0
    bytes: int = 0
    tickets: OrderedDict[int, Ticket] = field(default_factory=OrderedDict)


class TenantQueues:
    """The queues of the tenants of one class, of which so many tickets, prompt tokens and bytes may wait."""

    def __init__(self, tickets: int = 1, tokens: int | None = None, size_bytes: int | None = None) -> None:
        self._tenants: dict[str, _Tenant] = {}
        self._heap: list[tuple[float, int, _Tenant]] = []
        self._entries = 0
        self.bound(tickets, tokens, size_bytes)

    def bound(self, tickets: int, tokens: int | None, size_bytes: int | None) -> None:
        """Let so many tickets, prompt tokens and bytes wait from now on."""
        self._per_token = 0.0 if tokens is None else tickets / max(1, tokens)
        self._per_byte = 0.0 if size_bytes is None else tickets / max(1, size_bytes)
        self._heap = [self._entry(tenant) for tenant in self._tenants.values()]
        heapify(self._heap)

    def add(self, ticket: Ticket) -> None:
        """Add a ticket that came after all others of its tenant."""
        tenant = self._tenants.get(ticket.tenant)
        if tenant is None:
            tenant = self._tenants[ticket.tenant] = _Tenant(ticket.share)
        tenant.tickets[ticket.id] = ticket
        tenant.tokens += ticket.prompt_tokens
        tenant.bytes += ticket.prompt_bytes
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
        tenant.tokens -= ticket.prompt_tokens
        tenant.bytes -= ticket.prompt_bytes
        if not tenant.tickets:
            tenant.entry = -1
            del self._tenants[ticket.tenant]

    def giving_place_to(self, ticket: Ticket) -> Iterator[Ticket]:
        """The tickets that may give their places to an arrival, each if those before it do: of the longest queue, while
        it is longer than that of the arrival's tenant.
        """
        longest, own = self._longest(), self._tenants.get(ticket.tenant)
        if longest is None or longest is own:
            return
        waiting, tokens, size_bytes = (0, 0, 0) if own is None else (len(own.tickets), own.tokens, own.bytes)
        with_it = self._length(
            waiting + 1, tokens + ticket.prompt_tokens, size_bytes + ticket.prompt_bytes, ticket.share
        )
        waiting, tokens, size_bytes = len(longest.tickets), longest.tokens, longest.bytes
        for newest in islice(reversed(longest.tickets.values()), _MOST_GIVING):
            if self._length(waiting, tokens, size_bytes, longest.share) <= with_it:
                return
            yield newest
            waiting, tokens, size_bytes = waiting - 1, tokens - newest.prompt_tokens, size_bytes - newest.prompt_bytes

    def __len__(self) -> int:
        """The number of tenants with a listed ticket."""
        return len(self._tenants)

    def _longest(self) -> _Tenant | None:
        """The tenant of the live entry with the longest queue; an outdated entry is corrected on the way."""
        while self._heap:
            length, entry, tenant = self._heap[0]
            if entry != tenant.entry:
                heappop(self._heap)
            elif -length > self._length_of(tenant):
                heapreplace(self._heap, self._entry(tenant))
            else:
                return tenant
        return None

    def _entry(self, tenant: _Tenant) -> tuple[float, int, _Tenant]:
        self._entries += 1
        tenant.entry = self._entries
        return -self._length_of(tenant), tenant.entry, tenant

    def _length_of(self, tenant: _Tenant) -> float:
        return self._length(len(tenant.tickets), tenant.tokens, tenant.bytes, tenant.share)

    def _length(self, waiting: int, tokens: int, size_bytes: int, share: float) -> float:
        """The largest part of any bound, in places, for the share of the tenant."""
        return max(waiting, tokens * self._per_token, size_bytes * self._per_byte) / share
