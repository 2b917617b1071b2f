"""Metrics of what is refused before it asks for a seat: by the route guard, and by the retry budget."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from headway.operator.metrics.table import counter


class HttpCollector(Collector):
    """Reads two counts at each scrape: ``guarded`` by reason, and ``retries`` by class. Both are the live counts."""

    def __init__(self, guarded: Mapping[str, int], retries: Mapping[str, int]) -> None:
        self._guarded = guarded
        self._retries = retries

    def describe(self) -> Iterable[Metric]:
        """No families ahead of a scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Both families."""
        yield _counted("headway_route_refusals_total", "reason", self._guarded)
        yield _counted("headway_retry_budget_refusals_total", "class", self._retries)


def _counted(name: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = counter(name, label)
    for value, count in list(counts.items()):
        family.add_metric([value], count)
    return family
