"""Fair sharing between the tenants of one class that prefers prompts whose beginning the engine still holds.

Deficit longest prefix match (DLPM; Cao et al., "Locality-aware Fair Scheduling in LLM Serving", arXiv 2501.14312): the
longest cached prefix goes first, as in SGLang's cache-aware order, but only among the tenants that have credit left;
when none has, all get a quantum. Here the credit of a tenant is what its counter of ``FairShare`` lacks to a common
allowance. When no waiting tenant is below the allowance, it is set to the smallest of their counters plus the quantum.
So a quantum of 0 is fair sharing, and an infinite one the longest prefix first. A token that is found in the cache
counts a tenth of one that is computed. Without a match the tenant that was served least goes, its tickets first come,
first served. An absence saves up no more than the credit of ``FairShare``, and no ticket is overtaken for ever:

Bound on overtaking: of ``max_overtakes + 1`` tickets that are dispatched of a tenant one after another, at least one
was its oldest. A ticket that has p older ones of its tenant before it is therefore dispatched among the next
``(max_overtakes + 1) * (p + 1)`` of its tenant: it waits for at most ``max_overtakes + 1`` times as many of them as in
the order of arrival.

Bound on shares, with Q the quantum, and A, C and E as in ``FairShare``, after the discount: the counters of two waiting
tenants differ by less than Q + A + C + E, since none is below the allowance by more than Q + C, or above it by A + E.
Over any time in which both wait throughout, the tokens charged to them, each divided by the tenant's share, differ by
at most 2 * (Q + A + C + E). The quantum is not divided: a tenant of share 3 may use three times as many tokens of it.

Cost: each ticket is listed under each of its blocks (16 at most), so ``push``, ``remove`` and ``charge`` take
O(blocks), and O(log n) for a block that is cached. ``head`` takes the deepest cached block with which a tenant with
credit waits: O(log n) on average. The search passes over the tenants without credit that are in line before that one,
once for each quantum; after ``_MOST_PASSED`` of them it does without a match. A new quantum lists the blocks again of
which no tenant had credit left: never more than there are cached blocks with waiting tickets.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from math import inf
from typing import ClassVar

from headway_policies.prediction import PrefixCache
from headway_policies.queueing.fair_share import FairShare
from headway_policies.request import PREFIX_TOKENS, Ticket

QUANTUM_TOKENS = 4096
MAX_OVERTAKES = 15
#: The part of the charge for a computed token that a cached one saves.
_SAVED_RATIO = 0.9
#: How many tenants without credit one search for a match passes over.
_MOST_PASSED = 256
_SPARE = 64


@dataclass(slots=True, eq=False)
class _Line:
    """The tickets of one tenant with one block, in the order they were added; ``live`` of them still wait.

    ``passed`` is the last quantum of which the tenant has nothing left.
    """

    tickets: list[Ticket] = field(default_factory=list)
    begin: int = 0
    live: int = 0
    passed: int = -1


@dataclass(slots=True, eq=False)
class _Sharers:
    """The tenants that wait with one block: those that were passed over in this quantum stand behind the others.

    ``listed`` while it takes part in the search for a match, ``resting`` when all were passed over in this quantum.
    """

    block: int
    depth: int
    lines: OrderedDict[str, _Line] = field(default_factory=OrderedDict)
    listed: bool = False
    resting: bool = False


class PrefixShare(FairShare):
    """The longest cached prefix first, among the tenants with credit. Its order knows no late tickets: which of them
    is next changes with the cache.
    """

    relegates: ClassVar[bool] = False

    def __init__(
        self,
        cache: PrefixCache | None = None,
        quantum_tokens: float = QUANTUM_TOKENS,
        max_overtakes: int = MAX_OVERTAKES,
    ) -> None:
        super().__init__()
        self._cache = PrefixCache() if cache is None else cache
        self._quantum_tokens = quantum_tokens
        self._max_overtakes = max_overtakes
        self._allowance_tokens = 0.0
        self._quantum = 0
        self._overtaken: dict[str, int] = {}
        self._charges: dict[int, float] = {}
        self._sharers: dict[int, Ticket | _Sharers] = {}
        self._matches: list[tuple[int, int, _Sharers]] = []
        self._listings = 0
        self._resting: list[_Sharers] = []
        self._changes = 0
        self._chosen: tuple[int, int, Ticket | None] | None = None
        self._cache.watch(self)

    def push(self, ticket: Ticket, tokens: float, now_s: float) -> None:
        """Add a ticket at the end of its tenant's queue, and under each block of its prefix."""
        super().push(ticket, tokens, now_s)
        self._changes += 1
        for depth, block in enumerate(_blocks(ticket)):
            known = self._sharers.get(block)
            if known is None and block not in self._cache:
                self._sharers[block] = ticket  # the only one so far, and nothing to match
                continue
            sharers = self._shared(block, depth, known)
            self._line_up(sharers, ticket)
            if block in self._cache:
                self._list(sharers)

    def head(self, now_s: float) -> Ticket | None:
        """The longest match among the tenants with credit; the oldest of that tenant in its place when that is due."""
        changes = self._changes, self._cache.changes
        if self._chosen is None or self._chosen[:2] != changes:
            self._chosen = (*changes, self._choose())
        return self._chosen[2]

    def remove(self, ticket_id: int) -> Ticket | None:
        """Remove a ticket, from each of its blocks as well."""
        ticket = super().remove(ticket_id)
        if ticket is not None:
            self._changes += 1
            for block in _blocks(ticket):
                self._leave(block, ticket)
            if ticket.tenant not in self._waiting:
                self._overtaken.pop(ticket.tenant, None)
        return ticket

    def charge(self, ticket: Ticket, tokens: float) -> None:
        """Charge the tenant by its share, less for cached tokens; from now on the engine caches the prompt."""
        saved_tokens = _SAVED_RATIO * min(ticket.seats * self._cache.matched_tokens(ticket), tokens)
        super().charge(ticket, tokens - saved_tokens)
        self._charges[ticket.id] = tokens - saved_tokens
        first = self._oldest_of(ticket.tenant) is ticket
        self._overtaken[ticket.tenant] = 0 if first else self._overtaken.get(ticket.tenant, 0) + 1
        if self._waiting[ticket.tenant].served_tokens >= self._allowance_tokens:
            self._pass_over(ticket)
        self._cache.dispatched(ticket, tokens)

    def correct(self, ticket: Ticket, tokens: float) -> None:
        """Charge the tenant with so many tokens more or fewer, and return no more than was charged; the engine could
        not evict the prompt until now.
        """
        super().correct(ticket, max(tokens, -self._charges.pop(ticket.id, inf)))
        self._cache.ended(ticket)

    def cached(self, block: int) -> None:
        """A block has come into the cache: those that wait with it have a longer match."""
        known = self._sharers.get(block)
        if known is not None:
            depth = known.depth if isinstance(known, _Sharers) else known.prefix.index(block)
            self._list(self._shared(block, depth, known))

    # ------------------------------------------------------------------ the choice

    def _choose(self) -> Ticket | None:
        least = self._least_served()
        if least is None:
            return None
        if least.served_tokens >= self._allowance_tokens:
            self._refill(least.served_tokens)
        ticket = self._longest_match() or next(iter(least.tickets.values()))
        if self._overtaken.get(ticket.tenant, 0) < self._max_overtakes:
            return ticket
        return self._oldest_of(ticket.tenant)

    def _refill(self, least_tokens: float) -> None:
        """No tenant has credit: all get a quantum, and every cached block takes part in the search again."""
        self._allowance_tokens = least_tokens + self._quantum_tokens
        self._quantum += 1
        for sharers in self._resting:
            sharers.resting = False
            if self._is_match(sharers):
                self._list(sharers)
        self._resting.clear()

    def _pass_over(self, ticket: Ticket) -> None:
        """Put a tenant that has used its quantum behind the others, with each block of this ticket."""
        for block in _blocks(ticket):
            sharers = self._sharers.get(block)
            if isinstance(sharers, _Sharers):
                sharers.lines[ticket.tenant].passed = self._quantum
                sharers.lines.move_to_end(ticket.tenant)

    def _oldest_of(self, tenant: str) -> Ticket:
        return next(iter(self._waiting[tenant].tickets.values()))

    # ------------------------------------------------------------------ the blocks

    def _shared(self, block: int, depth: int, known: Ticket | _Sharers | None) -> _Sharers:
        """The sharers of a block, made where there was one ticket or none."""
        if isinstance(known, _Sharers):
            return known
        sharers = self._sharers[block] = _Sharers(block, depth)
        if known is not None:
            self._line_up(sharers, known)
        return sharers

    def _line_up(self, sharers: _Sharers, ticket: Ticket) -> None:
        lines = sharers.lines
        line = lines.get(ticket.tenant)
        if line is None:
            behind = next(reversed(lines.values())).passed == self._quantum if lines else False
            line = lines[ticket.tenant] = _Line()
            if behind:  # those that were passed over
                lines.move_to_end(ticket.tenant, last=False)
        line.tickets.append(ticket)
        line.live += 1

    def _leave(self, block: int, ticket: Ticket) -> None:
        sharers = self._sharers.get(block)
        if not isinstance(sharers, _Sharers):
            self._sharers.pop(block, None)
            return
        line = sharers.lines[ticket.tenant]
        line.live -= 1
        if line.live:
            self._sweep(line)
            return
        del sharers.lines[ticket.tenant]
        if not sharers.lines:
            del self._sharers[block]

    def _sweep(self, line: _Line) -> None:
        """Drop the tickets that have left, once they outnumber the waiting tickets."""
        if len(line.tickets) > 2 * line.live + _SPARE:
            line.tickets = [ticket for ticket in line.tickets[line.begin :] if ticket.id in self._tickets]
            line.begin = 0

    # ------------------------------------------------------------------ the longest match

    def _list(self, sharers: _Sharers) -> None:
        """The block is cached: it takes part in the search for the longest match."""
        if sharers.listed:
            return
        sharers.listed = True
        self._listings += 1
        heappush(self._matches, (-sharers.depth, self._listings, sharers))
        if len(self._matches) > 2 * len(self._sharers) + _SPARE:
            for _, _, candidate in self._matches:
                candidate.listed = self._is_match(candidate)
            self._matches = [entry for entry in self._matches if entry[2].listed]
            heapify(self._matches)

    def _is_match(self, sharers: _Sharers) -> bool:
        return sharers.block in self._cache and self._sharers.get(sharers.block) is sharers

    def _unlist(self, sharers: _Sharers) -> None:
        heappop(self._matches)
        sharers.listed = False

    def _longest_match(self) -> Ticket | None:
        """The first ticket of a tenant with credit under the deepest cached block; None where nothing matches."""
        passed = 0
        while self._matches and passed < _MOST_PASSED:
            sharers = self._matches[0][2]
            if not self._is_match(sharers):
                self._unlist(sharers)
                continue
            tenant, line = next(iter(sharers.lines.items()))
            if line.passed == self._quantum:  # and so were all behind it
                self._unlist(sharers)
                if not sharers.resting:
                    sharers.resting = True
                    self._resting.append(sharers)
            elif self._waiting[tenant].served_tokens < self._allowance_tokens:
                return self._first(line)
            else:
                line.passed = self._quantum
                sharers.lines.move_to_end(tenant)
                passed += 1
        return None

    def _first(self, line: _Line) -> Ticket:
        while line.tickets[line.begin].id not in self._tickets:
            line.begin += 1
        return line.tickets[line.begin]


def _blocks(ticket: Ticket) -> tuple[int, ...]:
    """The prefix blocks of a ticket, up to the number of block lengths."""
    return ticket.prefix[: len(PREFIX_TOKENS)]
