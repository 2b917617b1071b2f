"""Budgets as table rows: what is used and left, and when that ends at the rate of now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from headway.api.schema import BudgetRow, UsageReport
from headway_dashboard.analysis.changes.audit_rows import clock
from headway_dashboard.analysis.tenants.words import MOST_ROWS
from headway_dashboard.analysis.units import MISSING, compact, written

HELP = (
    "Past use counts, and what requests in progress hold. A tenant's rate is that of the range above, an "
    "organisation's that of the hour, day or month until now."
)
_SPANS: Final = {"hour": timedelta(hours=1), "day": timedelta(days=1)}


def budget_rows(
    budgets: Iterable[BudgetRow], report: UsageReport, now_s: float, zone: timezone
) -> list[dict[str, str]]:
    """A row for each bound, what is used up most first; the rates of tenants are those of the report."""
    rows = sorted(budgets, key=lambda row: -_used_ratio(row))
    rates = {row.group.get("tenant", ""): row for row in report.rows}
    range_s = max(1.0, _time_s(report.until) - _time_s(report.since))
    found = []
    for row in rows[:MOST_ROWS]:
        left = max(0.0, row.limit - row.used - row.held)
        kind, _, name = row.owner.partition(" ")
        used = rates.get(name) if kind == "tenant" else None
        rate = None
        if kind == "tenant":
            rate = 0.0 if used is None else _figures(row.bound, used.model_dump()) / range_s
        elif row.resets is not None:
            rate = row.used / max(60.0, now_s - _began_s(row.bound, row.resets))
        found.append(
            {
                "Owner": row.owner,
                "Bound": row.bound.replace("_", " "),
                "Used": f"{compact(row.used + row.held)} of {compact(row.limit)}",
                "Left": f"{compact(left)} ({written(left / row.limit if row.limit else 0.0, 'ratio')})",
                "Resets": MISSING if row.resets is None else clock(row.resets, zone),
                "Ends at this rate": ends_words(left, rate, row.resets, now_s, zone),
            }
        )
    return found


def ends_words(left: float, rate_per_s: float | None, resets: str | None, now_s: float, zone: timezone) -> str:
    """When what is left is used up; None for a rate that is not known."""
    if resets is None or rate_per_s is None:
        return MISSING
    if left <= 0:
        return "it has ended"
    if rate_per_s <= 0:
        return "not used now"
    ends_s = now_s + left / rate_per_s
    if ends_s >= _time_s(resets):
        return "it lasts"
    return clock(datetime.fromtimestamp(ends_s, UTC).isoformat(timespec="seconds"), zone)


def _figures(bound: str, row: Mapping[str, float]) -> float:
    """The figure of a row of the accounting that a bound counts."""
    if bound.startswith("tokens"):
        return row["prompt_tokens"] + row["output_tokens"]
    return row["seat_s"] if bound.startswith("seat") else row["requests"] - row["refused"]


def _used_ratio(row: BudgetRow) -> float:
    return (row.used + row.held) / row.limit if row.limit else 1.0


def _began_s(bound: str, resets: str) -> float:
    """When the period began that ends at ``resets``; a month is as long as the month before its end."""
    ends = datetime.fromisoformat(resets)
    span = bound.rpartition("_")[2]
    if span in _SPANS:
        return (ends - _SPANS[span]).timestamp()
    return (ends - timedelta(days=(ends - timedelta(days=1)).day)).timestamp()


def _time_s(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
