"""Metrics of HTTP: what the route guard and the retry budget refuse, and responses without an end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric

from headway.operator.metrics.table import ScrapedCollector, by_label


class HttpCollector(ScrapedCollector):
    """Reads live counts at each scrape: ``guarded`` by reason, ``retries`` and ``truncated`` by class."""

    def __init__(self, guarded: Mapping[str, int], retries: Mapping[str, int], truncated: Mapping[str, int]) -> None:
        self._guarded = guarded
        self._retries = retries
        self._truncated = truncated

    def collect(self) -> Iterator[Metric]:
        yield by_label("headway_route_refusals_total", "reason", dict(self._guarded))
        yield by_label("headway_retry_budget_refusals_total", "class", dict(self._retries))
        yield by_label("headway_truncated_responses_total", "class", dict(self._truncated))
