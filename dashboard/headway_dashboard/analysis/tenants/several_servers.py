"""The reports of several servers as one: the sums over their databases, each of which counts once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce

from headway.api.schema import UsageReport, UsageRow
from headway_policies.usage import Figures


def by_database(reports: Mapping[str, UsageReport]) -> dict[str, list[str]]:
    """The names of the servers, grouped by database under the first server of each."""
    firsts: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    for name, report in reports.items():
        first = name if report.database is None else firsts.setdefault(report.database, name)
        found.setdefault(first, []).append(name)
    return found


def summed(reports: Iterable[UsageReport]) -> UsageReport:
    """The sum of the reports of several databases on the same question; without costs, and with the budgets of all."""
    return reduce(_sum_of_reports, reports)


def _sum_of_reports(one: UsageReport, other: UsageReport) -> UsageReport:
    rows: dict[tuple[object, ...], UsageRow] = {}
    for row in (*one.rows, *other.rows):
        group = (row.start, *row.group.items())
        rows[group] = _sum(rows[group], row) if group in rows else row
    return one.model_copy(
        update={
            "since": min(one.since, other.since),
            "until": max(one.until, other.until),
            "rows": list(rows.values()),
            "total": _sum(one.total, other.total),
            "currency": None,
            "waiting": one.waiting + other.waiting,
            "lost": one.lost + other.lost,
            "budgets": [*one.budgets, *other.budgets],
            "shares": {**one.shares, **other.shares},
            "organisations": {**one.organisations, **other.organisations},
        }
    )


def _sum(one: UsageRow, other: UsageRow) -> UsageRow:
    figures = {name: getattr(one, name) + getattr(other, name) for name in Figures._fields}
    return one.model_copy(update={**figures, "cost": None})
