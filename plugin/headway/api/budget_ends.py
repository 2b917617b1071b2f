"""The rate at which a budget is used, and when it ends at that: for the page Tenants and ``headway usage``."""

from __future__ import annotations

from datetime import UTC, datetime

from headway.api.schema import BudgetRow, UsageReport, UsageRow


def rate_per_s(report: UsageReport, budget: BudgetRow, tenant: str | None = None) -> float | None:
    """The use a second in the range of a report; None where its rows do not tell it.

    They do not where they are not by tenant, and those of ``tenant`` alone tell nothing of its organisation.
    """
    kind, _, name = budget.owner.partition(" ")
    if budget.resets is None or "tenant" not in report.by or (kind == "organisation" and tenant is not None):
        return None
    members = {name} if kind == "tenant" else {one for one, of in report.organisations.items() if of == name}
    used = sum(_figure(budget.bound, row) for row in report.rows if row.group["tenant"] in members)
    return used / max(1.0, _time_s(report.until) - _time_s(report.since))


def ends(budget: BudgetRow, per_s: float | None, now_s: float) -> str | None:
    """When what is left is used up at a rate, ISO 8601 in UTC, or why it does not end; None for an unknown rate."""
    left = budget.limit - budget.used - budget.held
    if budget.resets is None or per_s is None:
        return None
    if left <= 0:
        return "it has ended"
    if per_s <= 0:
        return "not used now"
    ends_s = now_s + left / per_s
    if ends_s >= _time_s(budget.resets):
        return "it lasts"
    return datetime.fromtimestamp(ends_s, UTC).isoformat(timespec="seconds")


def _figure(bound: str, row: UsageRow) -> float:
    """The figure of a row of the accounting that a bound counts."""
    if bound.startswith("tokens"):
        return row.prompt_tokens + row.output_tokens
    return row.seat_s if bound.startswith("seat") else row.requests - row.refused


def _time_s(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()
