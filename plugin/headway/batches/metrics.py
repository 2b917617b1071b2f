"""Metrics of the batches of all tenants: how many have not ended, and what becomes of their lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric

from headway.batches.objects import ENDED, Status
from headway.batches.service import Batches
from headway.operator.metrics.table import ScrapedCollector, counter, gauge, one_gauge

_OPEN = [status for status in Status if status not in ENDED]


class BatchCollector(ScrapedCollector):
    """A collector that reads the open batches at each scrape; no label names a tenant or a batch."""

    def __init__(self, batches: Batches) -> None:
        self._batches = batches

    def collect(self) -> Iterator[Metric]:
        """The families."""
        batches = list(self._batches.open.values())
        found = Counter(batch.status for batch in batches)
        by_status = gauge("headway_open_batches", "status")
        for status in _OPEN:
            by_status.add_metric([status], found[status])
        lines = counter("headway_batch_lines_total", "outcome")
        for outcome in ("completed", "failed"):
            lines.add_metric([outcome], self._batches.lines[outcome])
        running = [batch for batch in batches if batch.status is Status.IN_PROGRESS]
        yield from (by_status, lines)
        yield one_gauge("headway_late_batches", sum(batch.late for batch in running))
        yield one_gauge("headway_batch_lines_left", sum(batch.left for batch in running))
