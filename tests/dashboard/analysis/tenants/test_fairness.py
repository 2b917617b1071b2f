"""The use of tenants beside a fair share of what all were given."""

from __future__ import annotations

import pytest
from tenant_reports import noisy, report, row

from headway_dashboard.analysis.tenants.fairness import OTHER, TenantUse, jain, tenant_uses


def test_shares_and_entitlements_are_of_the_tenants_alone() -> None:
    """The server's own work counts for nobody; weights are those of the keys file."""
    uses = {use.name: use for use in tenant_uses(noisy())}
    assert list(uses) == ["loud", "held", "quiet", "(server)"]
    assert [uses[name].share for name in ("loud", "held", "quiet")] == [0.9, 0.06, 0.04]
    assert [uses[name].entitled for name in ("loud", "held", "quiet")] == [0.25, 0.5, 0.25]
    assert (uses["(server)"].share, uses["(server)"].fair_ratio) == (None, None)
    assert uses["held"].wait_s == 3.0


def test_a_tenant_that_had_all_it_asked_for_has_its_fair_share() -> None:
    """A quiet one, too; one that was refused beside one with more has less, and the other one more."""
    uses = {use.name: use for use in tenant_uses(noisy())}
    assert uses["quiet"].fair_ratio == 1.0
    assert uses["held"].fair_ratio == pytest.approx(60 / 200)  # 14 of 20 refused: it asked for 200
    assert uses["loud"].fair_ratio == pytest.approx(900 / 760)


def test_a_tenant_that_was_refused_everything_is_known_to_want_something() -> None:
    """As many tokens a request as the others had on the mean."""
    uses = {use.name: use for use in tenant_uses(report(row("a", 1000, 10), row("b", 0, 5, 5)))}
    assert uses["b"].fair_ratio == 0.0
    assert uses["a"].fair_ratio == pytest.approx(2.0)


def test_many_that_are_counted_as_one_have_no_entitlement() -> None:
    """Their number is not known."""
    uses = {use.name: use for use in tenant_uses(report(row("a", 10), row(OTHER, 90)))}
    assert (uses[OTHER].entitled, uses[OTHER].share, uses["a"].share) == (None, None, 0.1)


@pytest.mark.parametrize(
    ("ratios", "index"),
    [([1.0, 1.0, 1.0], 1.0), ([3.0, 0.0, 0.0], 1 / 3), ([1.0, None], None), ([], None), ([0.0, 0.0], None)],
)
def test_jains_index(ratios: list[float | None], index: float | None) -> None:
    """1 where all have a fair share, 1/n where one has everything; none for fewer than two."""
    found = jain(TenantUse(str(number), 1, 1, 0, 0.0, 0.0, fair_ratio=one) for number, one in enumerate(ratios))
    assert found == (None if index is None else pytest.approx(index))


def test_nothing_was_asked_for() -> None:
    """An empty report."""
    assert tenant_uses(report()) == []
