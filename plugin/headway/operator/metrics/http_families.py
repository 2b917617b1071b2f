"""Metrics of HTTP: what the route guard and the retry budget refuse, and responses without an end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric

from headway.operator.metrics.table import ScrapedCollector, counter


class HttpCollector(ScrapedCollector):
    """Reads live counts at each scrape: ``guarded`` by reason, ``retries`` and ``truncated`` by class."""

    def __init__(self, guarded: Mapping[str, int], retries: Mapping[str, int], truncated: Mapping[str, int]) -> None:
        self._guarded = guarded
        self._retries = retries
        self._truncated = truncated

    def collect(self) -> Iterator[Metric]:
        """The families."""
        yield _counted("headway_route_refusals_total", "reason", self._guarded)
        yield _counted("headway_retry_budget_refusals_total", "class", self._retries)
        yield _counted("headway_truncated_responses_total", "class", self._truncated)


def _counted(name: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = counter(name, label)
    for value, count in list(counts.items()):
        family.add_metric([value], count)
    return family
