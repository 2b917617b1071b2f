"""The source used while Prometheus is away: the direct scrape, with a sentence that says so."""

from __future__ import annotations

from dataclasses import replace

from headway_dashboard.analysis.queries.reading import Health, Questions, SourceReading
from headway_dashboard.analysis.view import Span
from headway_dashboard.sources.prometheus import PrometheusSource
from headway_dashboard.sources.scrape_source import ScrapeSource


class FallbackSource:
    """Prometheus while it answers, else the rings in memory. Both are kept warm, so a change costs nothing."""

    longest_range_s = PrometheusSource.longest_range_s

    def __init__(self, prometheus: PrometheusSource, scrape: ScrapeSource) -> None:
        self._prometheus = prometheus
        self._scrape = scrape

    def read(self, questions: Questions) -> dict[Span, SourceReading]:
        """The answers of the source in charge. At first sight both are waited for at the same time."""
        self._scrape.begin()
        told = self._prometheus.read(questions)
        direct = self._scrape.read(dict.fromkeys(questions, ()))
        health = next((answer.health for answer in told.values()), Health())
        asked = any(questions.values())  # without a question an answer has the servers alone
        scraped = any(answer.health.last_ok_s is not None for answer in direct.values())
        knows = any(answer.instances for answer in told.values()) or not any(span.live for span in questions)
        if (
            self._prometheus.reachable
            and (knows or not scraped)
            and any(answer.series or answer.note or (not asked and answer.instances) for answer in told.values())
        ):
            return told
        if health.trouble is None and not scraped:
            return told
        note = f"{health.detail or 'Prometheus has not answered yet'}: showing the direct scrape instead."
        return {span: replace(answer, note=note) for span, answer in self._scrape.read(questions).items()}

    def close(self) -> None:
        """Stop all threads."""
        self._prometheus.close()
        self._scrape.close()
