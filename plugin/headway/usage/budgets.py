"""The budgets of a server: a request is judged before it enters, and counted when its record is made.

The use of this process is counted on the event loop, exactly and at once. The use of other servers with the same
database, and of this server before its start, is read from the database at the start and every few seconds. So a
restart loses only the requests that the accounting itself loses (``usage_log``).
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from headway.usage.usage_log import UsageLog
from headway_policies.budgets import Action, BudgetBook, BudgetState, Calendar, Finding, Hold, Owned, Span, Unit
from headway_policies.entitlement import Entitlement
from headway_policies.request import Outcome
from headway_policies.usage import Period, UsageQuery, UsageRecord

log = logging.getLogger(__name__)

_EVERY_S: Final = 5.0
_FLUSH_WITHIN_S: Final = 2.0
#: About a millisecond.
_OWNERS_A_TURN: Final = 100
_BY: Final = ("tenant", "outcome")
_NOTHING: Final = MappingProxyType(dict.fromkeys(Unit, 0.0))
#: The rows of which the sum of a period is made, and those of its beginning, where that is within one of the former.
#: A month may begin within an hour row as well, which counts whole: a bound is not exceeded, and up to 45 minutes
#: before it count, too.
_ROWS_OF: Final = {
    Span.HOUR: (Period.MINUTE, Period.MINUTE),
    Span.DAY: (Period.HOUR, Period.MINUTE),
    Span.MONTH: (Period.DAY, Period.HOUR),
}

#: The consequences of a finding, and those that it would have where the budget only counts.
ACTIONS: Final = tuple(f"{would}{action}" for would in ("", "would_") for action in Action)


class Sums(NamedTuple):
    """The use of each tenant in the period that began at ``start_s``, by the database."""

    start_s: float
    by_tenant: Mapping[str, Mapping[Unit, float]]

    def has(self, owner: Owned) -> bool:
        """Whether anything was used by an owner."""
        return any(name in self.by_tenant for name in owner.members or (owner.name,))


class TenantBudgets:
    """The budgets of all tenants of a server. ``tenants`` returns their present entitlements."""

    def __init__(self, usage: UsageLog, tenants: Callable[[], Iterable[Entitlement]]) -> None:
        self._usage, self.tenants = usage, tenants
        usage.store.named = lambda: {one.tenant for one in tenants() if one.budgets}
        self._book = BudgetBook()
        self._failing = False
        self.findings: Counter[tuple[str, str]] = Counter()

    def judge(self, entitlement: Entitlement, tokens: float) -> list[Finding]:
        """The bounds that a request does not fit, without those that only count; every finding is counted."""
        found = self._book.judge(entitlement.budgets, tokens, time.time())
        for finding in found:
            self.findings[finding.bound, f"{'would_' if finding.counts_only else ''}{finding.action}"] += 1
        return [finding for finding in found if not finding.counts_only]

    def hold(self, entitlement: Entitlement, tokens: float) -> Hold:
        """A request of the tenant begins."""
        return self._book.hold(entitlement.budgets, tokens)

    def release(self, hold: Hold) -> None:
        """The request is over, and its record is made."""
        self._book.release(hold)

    def bounds(self) -> list[str]:
        """The name of every bound that is in force for any owner."""
        budgets = [owner.budget for owner in _owners(self.tenants())]
        concurrency = {"concurrency" for budget in budgets if budget.concurrency is not None}
        return sorted({bound.name for budget in budgets for bound in budget.limits} | concurrency)

    def states(self) -> Iterator[tuple[Owned, BudgetState]]:
        """Every bound of every tenant and organisation."""
        now_s = time.time()
        for owner in _owners(self.tenants()):
            for state in self._book.states(owner, now_s):
                yield owner, state

    def states_of(self, entitlement: Entitlement) -> list[BudgetState]:
        """The bounds beyond which requests of a tenant are refused: its own, and those of its organisation."""
        now_s = time.time()
        bind = (owner for owner in entitlement.budgets if not (owner.budget.counts_only or owner.budget.borrows))
        return [state for owner in bind for state in self._book.states(owner, now_s)]

    async def run(self) -> None:
        """Read the use of others regularly, while the server runs."""
        while True:
            await asyncio.sleep(_EVERY_S)
            await self.refresh()

    async def refresh(self) -> None:
        """Read the use that this process does not count itself. The earlier figures stay where that fails.

        Other work runs after every hundred owners, and those without any use are passed over.
        """
        now_s, before, wanted = time.time(), {}, set[tuple[Calendar, Span]]()
        async for owner in _in_turns(self.tenants()):
            for span in _spans(owner):
                wanted.add((owner.budget.calendar, span))
                if self._book.knows(owner):
                    before[owner.label, span] = self._book.own(owner, span, now_s)
        found = await self._sums(wanted, now_s)
        async for owner in _in_turns(self.tenants()):
            for span in _spans(owner):
                sums = found.get((owner.budget.calendar, span))
                if sums is not None and (self._book.knows(owner) or sums.has(owner)):
                    self._put(owner, span, sums, before.get((owner.label, span), _NOTHING), now_s)

    def add(self, record: UsageRecord) -> None:
        """Count the use of a request."""
        used, ran = record.figures, Outcome(record.group.outcome).ran
        tokens = used.prompt_tokens + used.output_tokens
        self._book.add(record.group.tenant, used.requests if ran else 0, tokens, used.seat_s, record.ended_s)

    # ------------------------------------------------------------------ inside

    async def _sums(
        self, wanted: Collection[tuple[Calendar, Span]], now_s: float
    ) -> Mapping[tuple[Calendar, Span], Sums]:
        """The sums of these periods, without those that cannot be read."""
        found, failure = dict[tuple[Calendar, Span], Sums](), ""
        if not wanted or not await asyncio.to_thread(self._usage.flush, _FLUSH_WITHIN_S):
            return found  # the sums would lack the records that are not written
        for calendar, span in wanted:
            try:
                found[calendar, span] = await asyncio.to_thread(self._read, calendar, span, now_s)
            except (sqlite3.Error, OSError) as error:
                failure = f"{span.name.lower()}: {error}"
        self._warn(failure)
        return found

    def _warn(self, failure: str) -> None:
        """Warn of the first of several failures; empty: there was none."""
        if failure and not self._failing:
            log.warning(
                "budgets: the use of other servers, and of this one before its start, cannot be read: %s; "
                "the earlier figures stay",
                failure,
            )
        self._failing = bool(failure)

    def _read(self, calendar: Calendar, span: Span, now_s: float) -> Sums:
        """The sums of all tenants in this hour, day or month. It waits for the disk."""
        start_s = calendar.stretch(span, now_s).start_s
        by_tenant: dict[str, dict[Unit, float]] = {}
        for query in _queries(span, start_s, now_s):
            for (tenant, outcome), figures in self._usage.store.sums(query):
                used = by_tenant.setdefault(tenant, dict.fromkeys(Unit, 0.0))
                used[Unit.REQUESTS] += figures.requests if Outcome(outcome).ran else 0
                used[Unit.TOKENS] += figures.prompt_tokens + figures.output_tokens
                used[Unit.SEAT_SECONDS] += figures.seat_s
        return Sums(start_s, by_tenant)

    def _put(self, owner: Owned, span: Span, sums: Sums, before: Mapping[Unit, float], now_s: float) -> None:
        """Set the use of others: the sums contain all that this process had counted ``before``, and at most what it
        has counted by now.
        """
        now = self._book.own(owner, span, now_s)
        names = owner.members or (owner.name,)
        whole = {unit: sum(sums.by_tenant.get(name, {}).get(unit, 0.0) for name in names) for unit in Unit}
        least = {unit: whole[unit] - now[unit] for unit in Unit}
        most = {unit: whole[unit] - before[unit] for unit in Unit}
        self._book.count_others(owner, span, sums.start_s, least, most)


def _queries(span: Span, start_s: float, now_s: float) -> Iterator[UsageQuery]:
    """The query of a period's sum: whole rows of the larger kind, and smaller ones before the first of them."""
    whole, part = _ROWS_OF[span]
    whole_s = -(-int(start_s) // whole) * whole
    for period, since_s, until_s in (
        (part, part.start_of(start_s), min(whole_s, int(now_s) + part)),
        (whole, whole_s, int(now_s) + whole),
    ):
        if since_s < until_s:
            yield UsageQuery(since_s, until_s, period, False, _BY)


def refusal_of(findings: Iterable[Finding]) -> Finding | None:
    """The refusal that lasts the longest; None where no finding refuses."""
    refusals = [finding for finding in findings if finding.action is Action.REFUSE]
    return max(
        refusals,
        key=lambda refusal: float("inf") if refusal.retry_after_s is None else refusal.retry_after_s,
        default=None,
    )


def _owners(tenants: Iterable[Entitlement]) -> Iterator[Owned]:
    """Every owner of a budget once."""
    seen = set()
    for entitlement in tenants:
        for owner in entitlement.budgets:
            if owner.label not in seen:
                seen.add(owner.label)
                yield owner


async def _in_turns(tenants: Iterable[Entitlement]) -> AsyncIterator[Owned]:
    """Every owner once; other work of the event loop runs in between."""
    for number, owner in enumerate(_owners(list(tenants)), 1):
        yield owner
        if number % _OWNERS_A_TURN == 0:
            await asyncio.sleep(0)


def _spans(owner: Owned) -> list[Span]:
    """The periods that bound an owner; none of a member of an organisation that has no bound itself."""
    return sorted({bound.span for bound in owner.budget.limits})
