"""Metrics of the grammars that requests ask for: what came of each check, and those that are being compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from headway.operator.metrics.table import counter, one_gauge


class GrammarCollector(Collector):
    """Reads the live counts at each scrape: ``verdicts`` by result, and how many are ``compiling``."""

    def __init__(self, verdicts: Mapping[str, int], compiling: Callable[[], int]) -> None:
        self._verdicts = verdicts
        self._compiling = compiling

    def describe(self) -> Iterable[Metric]:
        """No families ahead of a scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Both families."""
        checks = counter("headway_grammar_checks_total", "result")
        for result, number in list(self._verdicts.items()):
            checks.add_metric([result], number)
        yield checks
        yield one_gauge("headway_grammars_compiling", self._compiling())
