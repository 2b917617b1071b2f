"""Metrics of the accounting: the tenants that use the most, all others as one, and what is lost."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from prometheus_client.core import Metric

from headway.operator.metrics.table import ScrapedCollector, counter
from headway.usage import ACTIONS, UsageLog


class UsageCollector(ScrapedCollector):
    """Reads the counts of the accounting at each scrape; they are those of what has been written."""

    def __init__(self, usage: UsageLog) -> None:
        self._usage = usage

    def collect(self) -> Iterator[Metric]:
        """The families."""
        requests = counter("headway_tenant_requests_total", "tenant")
        refusals = counter("headway_tenant_refusals_total", "tenant")
        tokens = counter("headway_tenant_tokens_total", "tenant", "kind")
        for tenant, used in self._usage.tenants().items():
            requests.add_metric([tenant], used.requests)
            refusals.add_metric([tenant], used.refused)
            tokens.add_metric([tenant, "computed"], used.prompt_tokens - used.cached_tokens)
            tokens.add_metric([tenant, "cached"], used.cached_tokens)
            tokens.add_metric([tenant, "output"], used.output_tokens)
        lost = counter("headway_usage_lost_total")
        lost.add_metric([], self._usage.lost)
        yield from (requests, refusals, tokens, lost)
        if self._usage.budgets is not None:
            findings = counter("headway_budget_findings_total", "bound", "action")
            for bound, action in product(self._usage.budgets.bounds(), ACTIONS):
                findings.add_metric([bound, action], self._usage.budgets.findings[bound, action])
            yield findings
