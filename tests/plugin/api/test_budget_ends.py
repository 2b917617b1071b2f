"""The rate of a budget, and its end at that rate."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tenant_reports import noisy, row

from headway.api.budget_ends import ends, rate_per_s
from headway.api.schema import BudgetRow

NOON_S = datetime(2026, 11, 28, 12, 5, tzinfo=UTC).timestamp()
MIDNIGHT = "2026-11-29T00:00:00Z"


def budget(left: float, resets: str | None = MIDNIGHT, owner: str = "organisation acme") -> BudgetRow:
    """A budget of requests with so much left."""
    return BudgetRow(owner=owner, bound="requests_per_day", limit=left + 3, used=2.0, held=1.0, resets=resets)


@pytest.mark.parametrize(
    ("left", "rate", "resets", "words"),
    [
        (0.0, 1.0, MIDNIGHT, "it has ended"), (9.0, 0.0, MIDNIGHT, "not used now"), (9.0, None, MIDNIGHT, None),
        (9.0, 1.0, None, None), (3600.0, 1.0, MIDNIGHT, "2026-11-28T13:05:00+00:00"), (1e9, 1.0, MIDNIGHT, "it lasts"),
    ],
)  # fmt: skip
def test_the_end_of_what_is_left(left: float, rate: float | None, resets: str | None, words: str | None) -> None:
    """A time, where it comes before the count begins anew."""
    assert ends(budget(left, resets), rate, NOON_S) == words


def test_an_organisation_uses_what_its_tenants_use() -> None:
    """All its rows, however many a tenant has; nothing is said where the rows are not all of them, or not by tenant."""
    found = noisy()
    twice = found.model_copy(update={"rows": [*found.rows, row("held", 60, 11, 5)]})
    assert rate_per_s(found, budget(9.0)) == pytest.approx(36 / 300)
    assert rate_per_s(twice, budget(9.0)) == pytest.approx(42 / 300)
    assert rate_per_s(found, budget(9.0), "held") is None
    assert rate_per_s(found, budget(9.0, owner="tenant held"), "held") == pytest.approx(6 / 300)
    assert rate_per_s(found.model_copy(update={"by": ["class"]}), budget(9.0)) is None
    assert rate_per_s(found, budget(9.0, resets=None)) is None
