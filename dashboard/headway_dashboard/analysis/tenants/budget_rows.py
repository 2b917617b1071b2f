"""Budgets as table rows: what is used and left, and when that ends at the rate of now."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timezone

from headway.api.budget_ends import ends, rate_per_s
from headway.api.schema import BudgetRow, UsageReport
from headway_dashboard.analysis.changes.audit_rows import clock
from headway_dashboard.analysis.tenants.words import MOST_ROWS
from headway_dashboard.analysis.units import MISSING, compact, written

HELP = "Past use, and the reservations of requests in progress. The rate is the average of the range above."


def budget_rows(
    budgets: Iterable[BudgetRow], report: UsageReport, now_s: float, zone: timezone
) -> list[dict[str, str]]:
    """A row for each bound, the most used first, with the rates of the report."""
    found = []
    for row in sorted(budgets, key=lambda row: -_used_ratio(row))[:MOST_ROWS]:
        left, per_s = max(0.0, row.limit - row.used - row.held), rate_per_s(report, row)
        end = ends(row, per_s, now_s)
        found.append(
            {
                "Owner": row.owner,
                "Bound": row.bound.replace("_", " "),
                "Used": f"{compact(row.used + row.held)} of {compact(row.limit)}",
                "Left": f"{compact(left)} ({written(left / row.limit if row.limit else 0.0, 'ratio')})",
                "An hour, at this rate": MISSING if per_s is None else compact(per_s * 3600),
                "Ends at this rate": MISSING if end is None else clock(end, zone),
                "Resets": MISSING if row.resets is None else clock(row.resets, zone),
            }
        )
    return found


def _used_ratio(row: BudgetRow) -> float:
    return (row.used + row.held) / row.limit if row.limit else 1.0
