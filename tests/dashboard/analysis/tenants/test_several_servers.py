"""Sums over the accountings of several servers."""

from __future__ import annotations

from tenant_reports import noisy, report, row

from headway_dashboard.analysis.tenants.fairness import jain, tenant_uses
from headway_dashboard.analysis.tenants.several_servers import by_database, summed


def test_what_two_databases_have_is_added_by_tenant() -> None:
    """Also tenants of one of them alone, and the shares and organisations of both; a fair share is one of the sums."""
    other = report(row("quiet", 460, 40), row("new", 500, 5), shares={"new": 3.0}, organisations={"new": "zenith"})
    both = summed([noisy(), other])
    uses = {use.name: use for use in tenant_uses(both)}
    assert {name: (use.tokens, use.requests) for name, use in uses.items()} == {
        "loud": (900, 90), "quiet": (500, 44), "new": (500, 5), "held": (60, 20), "(server)": (10, 1),
    }  # fmt: skip
    assert both.total.prompt_tokens + both.total.output_tokens == 1970
    assert both.shares == {"held": 2.0, "new": 3.0}
    assert both.organisations == {"loud": "acme", "held": "acme", "new": "zenith"}
    assert uses["loud"].share == 900 / 1960
    assert (jain(tenant_uses(both)) or 0) > (jain(tenant_uses(noisy())) or 0)


def test_one_report_is_itself() -> None:
    """Nothing is lost of it, costs neither."""
    assert summed([noisy()]) == noisy()


def test_servers_that_share_a_database_are_one() -> None:
    """Those that cannot say are taken to have their own."""
    told = [None, "x", "y", None, "x"]
    reports = {f"s{number}": noisy().model_copy(update={"database": one}) for number, one in enumerate(told)}
    assert by_database(reports) == {"s0": ["s0"], "s1": ["s1", "s4"], "s2": ["s2"], "s3": ["s3"]}
