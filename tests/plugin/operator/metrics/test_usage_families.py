"""The metrics of the accounting: one label for each of the tenants that use the most, and one for all others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from running_server import Scrape
from usage_records import usage_record

from headway.operator.metrics import METRIC_NAMES, UsageCollector
from headway.usage import TenantBudgets, UsageLog, UsageStore
from headway_policies.budgets import Bound, Budget, Owned, Span, Unit
from headway_policies.entitlement import Entitlement
from headway_policies.usage import OTHER, UsageRecord


def record(tenant: str, **given: Any) -> UsageRecord:
    """A request of a tenant."""
    return usage_record(tenant, prompt_tokens=10, cached_tokens=4, output_tokens=3, **given)


def test_labels_are_bounded_and_kinds_sum_up_to_all_tokens(tmp_path: Path) -> None:
    """However many tenants there are; nothing is there before the first request but what all others have."""
    registry, usage = CollectorRegistry(), UsageLog(UsageStore(tmp_path / "usage.db"))
    registry.register(UsageCollector(usage))
    before = Scrape(generate_latest(registry).decode())
    own = {name for name in METRIC_NAMES if name.startswith(("headway_tenant_", "headway_usage_"))}
    assert {sample.name for sample in before.samples} == own
    for number in range(100):
        usage.add(record(f"t{number}"))
    usage.add(record("t0", reason="queue_full"))
    assert usage.flush(10)
    usage.close()
    scrape = Scrape(generate_latest(registry).decode())
    labels = {sample.labels["tenant"] for sample in scrape.samples if sample.name == "headway_tenant_requests_total"}
    assert labels == {OTHER, *(f"t{number}" for number in range(32))}
    assert scrape("headway_tenant_requests_total") == 101
    assert scrape("headway_tenant_requests_total", tenant=OTHER) == 68
    assert scrape("headway_tenant_refusals_total", tenant="t0") == 1
    kinds = {
        kind: scrape("headway_tenant_tokens_total", tenant="t1", kind=kind) for kind in ("computed", "cached", "output")
    }
    assert kinds == {"computed": 6, "cached": 4, "output": 3}
    assert scrape("headway_tenant_tokens_total") == 101 * 13
    assert scrape("headway_usage_lost_total") == 0


def test_every_bound_in_force_has_a_series_for_each_action(tmp_path: Path) -> None:
    """At 0 before the first finding, and none without budgets."""
    registry, usage = CollectorRegistry(), UsageLog(UsageStore(tmp_path / "usage.db"))
    registry.register(UsageCollector(usage))
    assert b"headway_budget" not in generate_latest(registry)
    own = Owned("a", Budget({Bound(Unit.REQUESTS, Span.DAY): 1.0}, concurrency=5))
    tenant = Entitlement("a", budgets=(own,))
    budgets = usage.budgets = TenantBudgets(usage, lambda: [tenant])
    budgets.hold(tenant, 1)
    assert budgets.judge(tenant, 1)
    found = {
        (sample.labels["bound"], sample.labels["action"]): sample.value
        for sample in Scrape(generate_latest(registry).decode()).samples
        if sample.name == "headway_budget_findings_total"
    }
    actions = ("lower", "refuse", "would_lower", "would_refuse")
    expected = {(bound, action): 0.0 for bound in ("requests_per_day", "concurrency") for action in actions}
    assert found == expected | {("requests_per_day", "refuse"): 1.0}
    usage.close()
