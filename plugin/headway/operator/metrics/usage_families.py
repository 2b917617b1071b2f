"""Metrics of the accounting: the tenants that use the most, all others as one, and what is lost."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from prometheus_client.core import Metric

from headway.operator.metrics.table import ScrapedCollector, by_label, counter, one_counter
from headway.usage import ACTIONS, UsageLog


class UsageCollector(ScrapedCollector):
    """Reads the counts of written records of the accounting at each scrape."""

    def __init__(self, usage: UsageLog) -> None:
        self._usage = usage

    def collect(self) -> Iterator[Metric]:
        tenants = self._usage.tenants()
        requests = {tenant: used.requests for tenant, used in tenants.items()}
        refusals = {tenant: used.refused for tenant, used in tenants.items()}
        tokens = counter("headway_tenant_tokens_total", "tenant", "kind")
        for tenant, used in tenants.items():
            tokens.add_metric([tenant, "computed"], used.prompt_tokens - used.cached_tokens)
            tokens.add_metric([tenant, "cached"], used.cached_tokens)
            tokens.add_metric([tenant, "output"], used.output_tokens)
        yield by_label("headway_tenant_requests_total", "tenant", requests)
        yield by_label("headway_tenant_refusals_total", "tenant", refusals)
        yield tokens
        yield one_counter("headway_usage_lost_total", self._usage.lost)
        if self._usage.budgets is not None:
            findings = counter("headway_budget_findings_total", "bound", "action")
            for bound, action in product(self._usage.budgets.bounds(), ACTIONS):
                findings.add_metric([bound, action], self._usage.budgets.findings[bound, action])
            yield findings
