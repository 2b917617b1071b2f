"""Fair sharing between the tenants of one class: virtual token counters.

Virtual token counters (VTC; Sheng et al., "Fairness in Serving Large Language Models", OSDI 2024). Every tenant has a
counter of the tokens it was served; the waiting tenant with the smallest counter is next, its own tickets first come,
first served. A ticket is charged with an estimate at dispatch and corrected when it ends (the paper's VTC with
prediction). A tenant that returns is raised to the smallest counter of the waiting tenants, or of the last one served
when none waits: absence saves up nothing.

Bound: over any time in which two tenants both wait throughout, the tokens given to them (the real use of their
dispatched tickets) differ by at most 2 * (A + E): A is the largest ticket, E the largest total error of the estimates
for the running tickets of one tenant, in either direction, summed over the two. With exact estimates E is 0. Since E is
at most what one tenant runs at once, this has the form of the paper's 2 * max(w_p * L_input, w_q * M), with a prompt
token and an output token weighing the same.

The cost of one call is O(log of the waiting tenants) on average: a heap with one live entry a tenant, re-keyed when it
reaches the top. Known weak spots: of tenants with nothing waiting only the ``RECENT`` last ones are remembered, so a
client that spreads its requests over more names than that evades its counter; a tenant is a name, whatever it pays.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace

from headway_policies.queueing.disciplines import Fifo
from headway_policies.request import Ticket

#: Tenants with nothing waiting whose counter is remembered.
RECENT = 4096
_SPARE = 64


@dataclass(slots=True, eq=False)
class _Tenant:
    """``entry`` is the number of its live entry in the heap; -1 when it has none."""

    served_tokens: float
    entry: int = -1
    tickets: OrderedDict[int, Ticket] = field(default_factory=OrderedDict)


class FairShare(Fifo):
    """The tenant that was served the fewest tokens first; first come, first served for each tenant."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[str, _Tenant] = {}
        self._idle: OrderedDict[str, _Tenant] = OrderedDict()
        self._heap: list[tuple[float, int, _Tenant]] = []
        self._entries = 0
        self._last = _Tenant(0.0)

    def push(self, ticket: Ticket, tokens: float, now_s: float) -> None:
        """Add a ticket at the end of its tenant's queue; the counter of a returning tenant is raised."""
        tenant = self._waiting.get(ticket.tenant)
        if tenant is None:
            tenant = self._come_back(ticket.tenant)
        self._tickets[ticket.id] = ticket
        tenant.tickets[ticket.id] = ticket

    def head(self, now_s: float) -> Ticket | None:
        """The first ticket of the tenant that was served least."""
        tenant = self._least_served()
        return None if tenant is None else next(iter(tenant.tickets.values()))

    def remove(self, ticket_id: int) -> Ticket | None:
        """Remove a ticket."""
        ticket = self._tickets.pop(ticket_id, None)
        if ticket is not None:
            tenant = self._waiting[ticket.tenant]
            del tenant.tickets[ticket_id]
            if not tenant.tickets:
                self._go_idle(ticket.tenant, tenant)
        return ticket

    def charge(self, ticket: Ticket, tokens: float) -> None:
        """Charge the tenant with so many tokens."""
        self._last = self._waiting[ticket.tenant]
        self._last.served_tokens += tokens

    def correct(self, ticket: Ticket, tokens: float) -> None:
        """Charge the tenant with so many tokens more or fewer; no effect for a forgotten tenant."""
        tenant = self._waiting.get(ticket.tenant)
        if tenant is None:
            tenant = self._idle.get(ticket.tenant)
        if tenant is not None:
            tenant.served_tokens += tokens
            if tokens < 0 and tenant.tickets:
                self._enter(tenant)

    def _come_back(self, name: str) -> _Tenant:
        floor = (self._least_served() or self._last).served_tokens
        tenant = self._idle.pop(name, None) or _Tenant(floor)
        tenant.served_tokens = max(tenant.served_tokens, floor)
        self._waiting[name] = tenant
        self._enter(tenant)
        return tenant

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
