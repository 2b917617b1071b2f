"""``prometheus_client.generate_latest``, written in a part of its time: a stand-in is scraped again and again.

The client itself writes all but the values, once for each set of series, with the place of a sample as its value.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

Series = tuple[object, ...]
#: A line without its value, and the place of its sample; a line that has none ends with its text.
Line = tuple[str, int | None]


class QuickExposition:
    """Writes the text of one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._lines: dict[Series, list[Line]] = {}

    def text(self) -> str:
        """What ``generate_latest`` writes now."""
        return "".join(line for metric in self._registry.collect() for line in self._written(metric))

    def _written(self, metric: Metric) -> Iterator[str]:
        names = [(sample.name, *sample.labels.items()) for sample in metric.samples]
        series = (metric.name, metric.type, metric.documentation, *names)
        if series not in self._lines:
            self._lines[series] = list(_lines(metric))
        for head, at in self._lines[series]:
            yield head if at is None else f"{head} {floatToGoString(metric.samples[at].value)}\n"


class _One(Collector):
    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        """This metric alone."""
        yield self._metric


def _lines(metric: Metric) -> Iterator[Line]:
    numbered = Metric(metric.name, metric.documentation, metric.type)
    numbered.samples = [sample._replace(value=float(at)) for at, sample in enumerate(metric.samples)]
    for line in generate_latest(_One(numbered)).decode().splitlines(keepends=True):
        head, _, at = line.rpartition(" ")
        yield (line, None) if line.startswith("#") else (head, int(float(at)))
