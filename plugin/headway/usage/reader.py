"""The answer to a query of the accounting: sums from the database, with costs, as a model or as CSV."""

from __future__ import annotations

import csv
import io
import sqlite3
from collections.abc import Iterator
from typing import Any, Final

from headway.api.schema import BudgetRow, UsageReport, UsageRow
from headway.usage.usage_log import UsageLog
from headway.utc_text import utc_text
from headway_policies.usage import Figures, QueryError, Row, UsageQuery, costed, total

#: The most rows of an answer, and the most rows that are read for it.
MAX_ROWS: Final = 5_000
_MAX_SUMMED: Final = 200_000
_FLUSH_WITHIN_S: Final = 2.0


class UnreadableError(Exception):
    """The database cannot be read now."""


class UsageReader:
    """The reader of one accounting. ``read`` waits for the disk, so it is called on a thread of its own."""

    def __init__(self, usage: UsageLog) -> None:
        self._usage = usage

    def read(self, query: UsageQuery) -> UsageReport:
        """The sums over the requests that have ended. Raises UnreadableError, or QueryError for too many rows."""
        usage, prices = self._usage, self._usage.prices
        usage.flush(_FLUSH_WITHIN_S)
        try:
            query, oldest_s = self._kept(query)
            found = usage.store.read(query, _MAX_SUMMED)
        except sqlite3.Error as error:
            raise UnreadableError(str(error)) from None
        rows = costed(found, prices)
        if len(found) > _MAX_SUMMED or len(rows) > MAX_ROWS:
            raise QueryError(f"more than {MAX_ROWS} rows: ask for a shorter range, longer periods or fewer groups")
        costs = [row.cost for row in rows]
        whole = Row(None, (), total(row.figures for row in rows), None if None in costs else sum(filter(None, costs)))
        return UsageReport(
            since=utc_text(query.since_s, "auto"),
            until=utc_text(query.until_s, "auto"),
            kept_since=None if oldest_s is None else utc_text(oldest_s, "auto"),
            by=list(query.by),
            rows=[_row(query.by, row) for row in rows],
            total=_row((), whole if prices is not None else whole._replace(cost=None)),
            currency=None if prices is None else prices.currency,
            waiting=usage.waiting,
            lost=usage.lost,
            database=usage.store.identity(),
        )

    def _kept(self, query: UsageQuery) -> tuple[UsageQuery, int | None]:
        """The query by longer periods, where its own are not kept for its range; with the start of the oldest kept."""
        oldest_s = self._usage.store.oldest_s(query.period)
        while oldest_s is not None and oldest_s > query.since_s and (longer := query.by_longer()) is not None:
            before_s = self._usage.store.oldest_s(longer.period)
            if before_s is None or before_s >= longer.period.start_of(oldest_s):
                break
            query, oldest_s = longer, before_s
        return query, oldest_s

    def budgets(self, tenant: str | None) -> list[BudgetRow]:
        """The budgets of all tenants, or of one and of its organisation. Call it on the event loop."""
        states = () if self._usage.budgets is None else self._usage.budgets.states()
        return [
            BudgetRow(
                owner=owner.label,
                bound=state.bound,
                limit=state.limit,
                used=round(state.used, 3),
                held=state.held,
                resets=None if state.resets_s is None else utc_text(state.resets_s, "auto"),
            )
            for owner, state in states
            if tenant is None or tenant in (owner.members or (owner.name,))
        ]

    def of_tenants(self, found: UsageReport) -> dict[str, dict[str, Any]]:
        """Of the tenants of an answer that a keys file has, the shares and organisations. Call it on the event loop."""
        budgets, names = self._usage.budgets, {row.group.get("tenant") for row in found.rows}
        known = () if budgets is None else budgets.tenants()
        mine = [entitlement for entitlement in known if entitlement.tenant in names]
        owners = ((terms.tenant, owner) for terms in mine for owner in terms.budgets if owner.members)
        return {
            "shares": {terms.tenant: terms.share for terms in mine},
            "organisations": {tenant: owner.name for tenant, owner in owners},
        }


def csv_lines(usage: UsageReport) -> Iterator[str]:
    """The rows as CSV, with a line of names before them."""
    figures = [*Figures._fields, *([] if usage.currency is None else ["cost"])]
    timed = any(row.start is not None for row in usage.rows)
    yield _line([*(["start"] if timed else []), *usage.by, *figures])
    for row in usage.rows:
        start = [row.start] if timed else []
        yield _line([*start, *(_cell(row.group[name]) for name in usage.by), *(getattr(row, name) for name in figures)])


def _line(cells: list[object]) -> str:
    into = io.StringIO()
    csv.writer(into, lineterminator="\n").writerow(cells)
    return into.getvalue()


def _cell(text: str) -> str:
    """A name that no spreadsheet reads as a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _row(by: tuple[str, ...], row: Row) -> UsageRow:
    figures: dict[str, Any] = row.figures._asdict()
    return UsageRow(
        start=None if row.start_s is None else utc_text(row.start_s, "auto"),
        group=dict(zip(by, row.group, strict=True)),
        cost=row.cost,
        **{name: round(value, 3) for name, value in figures.items()},
    )
