"""Budgets as rows: what is left, and when it ends at the rate of now."""

from __future__ import annotations

from datetime import UTC, datetime

from tenant_reports import noisy

from headway_dashboard.analysis.tenants.budget_rows import budget_rows

NOON_S = datetime(2026, 11, 28, 12, 5, tzinfo=UTC).timestamp()


def test_what_is_used_up_most_comes_first_with_its_rate_and_its_end() -> None:
    """An organisation's are those of its tenants together."""
    found = noisy()
    rows = budget_rows(found.budgets, found, NOON_S, UTC)
    assert [(row["Owner"], row["An hour, at this rate"], row["Ends at this rate"]) for row in rows] == [
        ("tenant loud", "10,800", "2026-11-28 12:10:00"),  # 900 in five minutes, 900 left
        ("tenant quiet", "—", "—"),
        ("organisation acme", "432", "2026-11-28 14:10:00"),  # 36 in five minutes, 900 left
    ]
    assert rows[0]["Used"] == "9,100 of 10,000"
    assert rows[0]["Left"].startswith("900 (9")
