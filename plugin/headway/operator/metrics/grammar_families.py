"""Metrics of the grammars that requests ask for: what came of each check, and those that are being compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import Metric

from headway.operator.metrics.table import ScrapedCollector, by_label, one_gauge


class GrammarCollector(ScrapedCollector):
    """Reads the live counts at each scrape: ``verdicts`` by result, and how many are ``compiling``."""

    def __init__(self, verdicts: Mapping[str, int], compiling: Callable[[], int]) -> None:
        self._verdicts = verdicts
        self._compiling = compiling

    def collect(self) -> Iterator[Metric]:
        yield by_label("headway_grammar_checks_total", "result", dict(self._verdicts))
        yield one_gauge("headway_grammars_compiling", self._compiling())
