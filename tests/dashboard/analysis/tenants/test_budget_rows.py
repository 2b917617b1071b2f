"""Budgets as rows: what is left, and when it ends at the rate of now."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tenant_reports import noisy

from headway_dashboard.analysis.tenants.budget_rows import budget_rows, ends_words

NOON_S = datetime(2026, 11, 28, 12, 5, tzinfo=UTC).timestamp()


def test_what_is_used_up_most_comes_first_with_its_end() -> None:
    """A tenant's rate is that of the range, an organisation's that of its period."""
    found = noisy()
    rows = budget_rows(found.budgets, found, NOON_S, UTC)
    assert [(row["Owner"], row["Ends at this rate"]) for row in rows] == [
        ("tenant loud", "2026-11-28 12:10:00"),  # 900 in five minutes, 900 left
        ("tenant quiet", "—"),
        ("organisation acme", "it lasts"),
    ]
    assert rows[0]["Used"] == "9,100 of 10,000"
    assert rows[0]["Left"].startswith("900 (9")


@pytest.mark.parametrize(
    ("left", "rate", "resets", "words"),
    [
        (0.0, 1.0, "2026-11-29T00:00:00Z", "it has ended"),
        (9.0, 0.0, "2026-11-29T00:00:00Z", "not used now"),
        (9.0, None, "2026-11-29T00:00:00Z", "—"),
        (9.0, 1.0, None, "—"),
        (3600.0, 1.0, "2026-11-29T00:00:00Z", "2026-11-28 13:05:00"),
        (1e9, 1.0, "2026-11-29T00:00:00Z", "it lasts"),
    ],
)
def test_the_end_of_what_is_left(left: float, rate: float | None, resets: str | None, words: str) -> None:
    """A time, where it comes before the count begins anew."""
    assert ends_words(left, rate, resets, NOON_S, UTC) == words
