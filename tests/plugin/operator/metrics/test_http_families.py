"""What is refused before it asks for a seat, as a scrape shows it."""

from __future__ import annotations

from collections import Counter

from prometheus_client import CollectorRegistry, generate_latest
from running_server import Scrape

from headway.operator.metrics import HttpCollector


def test_each_scrape_shows_the_counts_of_that_moment() -> None:
    """By reason and by class; a class that came with another preset as well."""
    guarded, retries = {"no_key": 0, "route": 2}, Counter({"normal": 0})
    truncated: Counter[str] = Counter()
    registry = CollectorRegistry()
    registry.register(HttpCollector(guarded, retries, truncated))

    def shown() -> dict[str, float]:
        samples = Scrape(generate_latest(registry).decode()).samples
        return {next(iter(sample.labels.values())): sample.value for sample in samples}

    assert shown() == {"no_key": 0, "route": 2, "normal": 0}
    guarded["no_key"] += 1
    retries["batch"] += 3
    truncated["realtime"] += 1
    assert shown() == {"no_key": 1, "route": 2, "normal": 0, "batch": 3, "realtime": 1}
