"""Fair sharing between the tenants of one class: virtual token counters.

Virtual token counters (VTC; Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024). Every tenant has a
counter of the tokens it was served; the waiting tenant with the smallest counter is next, its own tickets first come,
first served. A ticket is charged with an estimate at dispatch and corrected when it ends (the paper's VTC with
prediction). Charges are divided by the share of the ticket's tenant (the paper's weighted VTC): of two tenants that
both wait, one with three times the share of the other is given three times the tokens.

A tenant that returns is raised to the smallest counter of the waiting tenants, or of the last one served when none
waits, less a credit: it may have been served so many tokens fewer than they, as a sleeper may keep a bounded lag in a
fair scheduler of processes (EEVDF; Stoica and Abdel-Wahab, 1995). The paper's lift is a credit of 0. Then a tenant
that demands less than its share takes turns with the others whenever two of its tickets come close together; where
queues are kept as short as an objective needs, such a ticket is refused, and what it would have used goes to the tenant
with the longest queue. The credit is ``CREDIT_TICKETS`` tickets of the mean size: the deficit of a tenant whose tickets
come at random is hardly ever larger, unless it demands more than nine tenths of its share. A new tenant has none. A
tenant that has more than half of its credit left demands far less than its share: its tickets are not relegated (see
``desk.dispatch``) behind those of the tenants that made them late, and in their turn they go beyond a limit that moves,
and before the pace, within bounds (``desk.scheduler``): the wait for a seat was most of what others cost them.

Bound: over any time in which two tenants both wait throughout, the tokens given to them (the real use of their
dispatched tickets), each divided by the tenant's share, differ by at most 2 * (A + C + E): A is the largest ticket, C
the largest credit, E the largest total error of the estimates for the running tickets of one tenant, in either
direction, summed over the two, and all three are divided by the share of the tenant as well. With exact estimates E is
0. This has the form of the paper's 2 * max(w_p * L_input, w_q * M), with a prompt token and an output token weighing
the same.

The cost of one call is O(log of the waiting tenants) on average: a heap with one live entry a tenant, re-keyed when it
reaches the top. Known weak spot: of tenants with nothing waiting only the ``RECENT`` last ones are remembered, so a
client that may choose its names, and spreads its requests over more than that, evades its counter.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace
from itertools import islice

from headway_policies.queueing.disciplines import Fifo
from headway_policies.request import Ticket

#: Tenants with nothing waiting whose counter is remembered.
RECENT = 4096
#: The credit of a tenant that returns, in tickets of the mean size.
CREDIT_TICKETS = 32
#: The mean size is that of about so many tickets.
_MEAN_OF = 256
#: How many waiting tenants an estimate looks at.
_COMPARED = 64
_SPARE = 64


@dataclass(slots=True, eq=False)
class _Tenant:
    """``served_tokens`` are divided by its share when they are charged; ``share`` is that of its newest ticket.

    ``entry`` is the number of its live entry in the heap; -1 when it has none.
    """

    served_tokens: float
    entry: int = -1
    share: float = 1.0
    tickets: OrderedDict[int, Ticket] = field(default_factory=OrderedDict)


class FairShare(Fifo):
    """The tenant that was served the fewest tokens first; first come, first served for each tenant."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[str, _Tenant] = {}
        self._idle: OrderedDict[str, _Tenant] = OrderedDict()
        self._heap: list[tuple[float, int, _Tenant]] = []
        self._entries = 0
        self._charged = 0
        self._mean_tokens = 0.0
        self._last = self._other = _Tenant(0.0)  # the tenant that was served last, and the last one before it

    def push(self, ticket: Ticket, tokens: float, now_s: float) -> None:
        """Add a ticket at the end of its tenant's queue; the counter of a returning tenant may be raised."""
        tenant = self._waiting.get(ticket.tenant)
        if tenant is None:
            tenant = self._come_back(ticket.tenant)
        tenant.share = ticket.share
        self._tickets[ticket.id] = ticket
        tenant.tickets[ticket.id] = ticket

    def restore(self, ticket: Ticket, tokens: float, now_s: float) -> None:
        """Add a ticket that went and came back before those of its tenant."""
        super().restore(ticket, tokens, now_s)
        self._waiting[ticket.tenant].tickets.move_to_end(ticket.id, last=False)

    def head(self, now_s: float) -> Ticket | None:
        """The first ticket of the tenant that was served least."""
        tenant = self._least_served()
        return None if tenant is None else next(iter(tenant.tickets.values()))

    def remove(self, ticket_id: int) -> Ticket | None:
        ticket = self._tickets.pop(ticket_id, None)
        if ticket is not None:
            tenant = self._waiting[ticket.tenant]
            del tenant.tickets[ticket_id]
            if not tenant.tickets:
                self._go_idle(ticket.tenant, tenant)
        return ticket

    def charge(self, ticket: Ticket, tokens: float) -> None:
        """Charge the tenant with so many tokens, divided by its share."""
        self._charged = min(self._charged + 1, _MEAN_OF)
        self._mean_tokens += (tokens - self._mean_tokens) / self._charged
        tenant = self._waiting[ticket.tenant]
        if tenant is not self._last:
            self._last, self._other = tenant, self._last
        tenant.served_tokens += tokens / ticket.share

    def correct(self, ticket: Ticket, tokens: float) -> None:
        """Charge the tenant with so many tokens more or fewer; no effect for a forgotten tenant."""
        tenant = self._waiting.get(ticket.tenant)
        if tenant is None:
            tenant = self._idle.get(ticket.tenant)
        if tenant is not None:
            tenant.served_tokens += tokens / ticket.share
            if tokens < 0 and tenant.tickets:
                self._enter(tenant)

    def owed(self, ticket: Ticket, *, alone: bool = False) -> bool:
        """Whether its tenant, next to be served, was served less than the one after it by half of the credit;
        ``alone``: or than the other one that was served last, where no other waits.
        """
        tenant = self._least_served()
        if tenant is None or ticket.id not in tenant.tickets:
            return False
        entry = heappop(self._heap)
        following = self._least_served()
        if following is None and alone:
            following = self._other if self._last is tenant else self._last
        heappush(self._heap, entry)  # the same one: of equal tenants the one that entered first is next
        credit = CREDIT_TICKETS * self._mean_tokens / tenant.share
        return following is not None and following.served_tokens - tenant.served_tokens > credit / 2

    def ahead(self, tenant: str) -> int:
        """The approximate number of waiting tickets before a new ticket of a tenant, by the present counters.

        Of each other tenant those that it may be given until its counter has reached that of this one. Looks at a
        bounded number of tenants, and takes the others to be like them.
        """
        own, floor = self._waiting.get(tenant), (self._least_served() or self._last).served_tokens
        before = 0 if own is None else len(own.tickets)
        each = max(self._mean_tokens, 1.0)
        turn = self._returning(tenant, floor) if own is None else own.served_tokens + before * each / own.share
        compared = [other for other in islice(self._waiting.values(), _COMPARED) if other is not own]
        others = len(self._waiting) - (own is not None)
        found = sum(
            min(len(other.tickets), 1 + int((turn - other.served_tokens) * other.share / each))
            for other in compared
            if other.served_tokens <= turn
        )
        return before + round(found * others / max(len(compared), 1))

    def _come_back(self, name: str) -> _Tenant:
        floor = (self._least_served() or self._last).served_tokens
        served_tokens = self._returning(name, floor)
        tenant = self._idle.pop(name, None) or _Tenant(served_tokens)
        tenant.served_tokens = served_tokens
        self._waiting[name] = tenant
        self._enter(tenant)
        return tenant

    def _returning(self, name: str, floor: float) -> float:
        """The counter of a tenant that returns: its own, within the credit; that of the least served, if it is new."""
        known = self._idle.get(name)
        if known is None:
            return floor
        return max(known.served_tokens, floor - CREDIT_TICKETS * self._mean_tokens / known.share)

    def _go_idle(self, name: str, tenant: _Tenant) -> None:
        tenant.entry = -1
        del self._waiting[name]
        self._idle[name] = tenant
        if len(self._idle) > RECENT:
            self._idle.popitem(last=False)

    def _enter(self, tenant: _Tenant) -> None:
        """Give the tenant a new entry; its old one is dead. A heap that is half dead is rebuilt."""
        heappush(self._heap, self._entry(tenant))
        if len(self._heap) > 2 * len(self._waiting) + _SPARE:
            self._heap = [entry for entry in self._heap if entry[1] == entry[2].entry]
            heapify(self._heap)

    def _entry(self, tenant: _Tenant) -> tuple[float, int, _Tenant]:
        self._entries += 1
        tenant.entry = self._entries
        return (tenant.served_tokens, tenant.entry, tenant)

    def _least_served(self) -> _Tenant | None:
        """The live entry with the smallest counter; an outdated entry is re-keyed on the way."""
        while self._heap:
            key, entry, tenant = self._heap[0]
            if entry != tenant.entry:
                heappop(self._heap)
            elif key < tenant.served_tokens:
                heapreplace(self._heap, self._entry(tenant))
            else:
                return tenant
        return None
