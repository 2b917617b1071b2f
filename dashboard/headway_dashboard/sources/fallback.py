"""The source used while Prometheus is away: the direct scrape, with a sentence that says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.reading import Reading
from headway_dashboard.sources.prometheus import PrometheusSource
from headway_dashboard.sources.scrape_source import ScrapeSource


class FallbackSource:
    """Prometheus while it answers, else the rings in memory. Both are kept warm, so a change costs nothing."""

    longest_range_s = PrometheusSource.longest_range_s

    def __init__(self, prometheus: PrometheusSource, scrape: ScrapeSource) -> None:
        self._prometheus = prometheus
        self._scrape = scrape

    def read(self, expressions: Sequence[Expression], range_s: float, end_s: float | None = None) -> Reading:
        """The answers of the source in charge. At first sight both are waited for at the same time."""
        self._scrape.begin()
        history = self._prometheus.read(expressions, range_s, end_s)
        direct = self._scrape.read((), range_s)
        if self._prometheus.reachable and (history.series or history.note):
            return history
        if history.health.trouble is None and direct.health.last_ok_s is None:
            return history
        note = f"{history.health.detail or 'Prometheus has not answered yet'}: showing the direct scrape instead."
        return replace(self._scrape.read(expressions, range_s, end_s), note=note)

    def close(self) -> None:
        """Stop all threads."""
        self._prometheus.close()
        self._scrape.close()
