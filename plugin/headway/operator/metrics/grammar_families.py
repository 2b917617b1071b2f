"""Metrics of the grammars that requests ask for: what came of each check, and those that are being compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import Metric

from headway.operator.metrics.table import ScrapedCollector, counter, one_gauge


class GrammarCollector(ScrapedCollector):
    """Reads the live counts at each scrape: ``verdicts`` by result, and how many are ``compiling``."""

    def __init__(self, verdicts: Mapping[str, int], compiling: Callable[[], int]) -> None:
        self._verdicts = verdicts
        self._compiling = compiling

    def collect(self) -> Iterator[Metric]:
        """Both families."""
        checks = counter("headway_grammar_checks_total", "result")
        for result, number in list(self._verdicts.items()):
            checks.add_metric([result], number)
        yield checks
        yield one_gauge("headway_grammars_compiling", self._compiling())
