"""The scrape: one consistent snapshot of the server, and what the machine shows at that moment.

Counts come from the desk's ledger, in one consistent snapshot for each scrape, so that at every scrape arrivals equal
queued + in flight + outcomes. A scrape on a thread of the web server asks the event loop for the snapshot; it never
reads the desk itself, and changes nothing.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Iterator

from prometheus_client.core import Metric

from headway.operator.metrics.machine_families import machine_families
from headway.operator.metrics.snapshot_families import snapshot_families
from headway.operator.metrics.table import ScrapedCollector
from headway.operator.status.snapshot import Snapshot
from headway.supervision import Gpus, ProcessorUse

_SNAPSHOT_WAIT_S = 2.0


class MetricsCollector(ScrapedCollector):
    """Renders a snapshot as metric families at each scrape. ``snapshot`` takes one; it runs on the loop's thread.

    Without ``gpus`` no GPU is read, for these are another server's then.
    """

    def __init__(self, snapshot: Callable[[], Snapshot], loop: asyncio.AbstractEventLoop, *, gpus: bool = True) -> None:
        self._take = snapshot
        self._loop = loop
        self._loop_thread = threading.get_ident()
        self._last = snapshot()
        self._gpus = Gpus() if gpus else None
        self._processors = ProcessorUse()

    def collect(self) -> Iterator[Metric]:
        yield from snapshot_families(self._snapshot())
        yield from machine_families(self._processors, self._gpus)

    def _snapshot(self) -> Snapshot:
        """A fresh snapshot from the loop; the last one when the loop is too busy to answer in two seconds."""
        if threading.get_ident() == self._loop_thread:
            return self._take()
        answer: concurrent.futures.Future[Snapshot] = concurrent.futures.Future()
        try:
            self._loop.call_soon_threadsafe(lambda: answer.set_result(self._take()))
            self._last = answer.result(_SNAPSHOT_WAIT_S)
        except (TimeoutError, RuntimeError):  # RuntimeError: the loop has closed
            return self._last
        return self._last
