"""The metrics of an arbiter: what each server has, what it wants, and whether it follows commands.

They are served on this machine alone. A server that did not answer in the last step has ``headway_share_managed`` 0 and
no other series.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from headway.operator.metrics.table import ScrapedCollector, gauge, one_gauge
from headway_tools.sharing.arbiter import Standing
from headway_tools.sharing.reading import ServerReading

HOST = "127.0.0.1"


class ShareCollector(ScrapedCollector):
    """Shows the last step. ``show`` may be called while another thread collects."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._last: tuple[Mapping[str, Standing], Mapping[str, ServerReading]] = {}, {}

    def show(self, standing: Mapping[str, Standing], readings: Mapping[str, ServerReading]) -> None:
        """Show this step from now on; both are by URL, and are not changed any more."""
        self._last = standing, readings

    def collect(self) -> Iterator[Metric]:
        """All families. The label ``server`` is the server's host and port."""
        standing, readings = self._last
        yield one_gauge("headway_share_total_seats", self._total)
        names = ("seats", "wanted_seats", "taken_seats", "paused", "late", "managed")
        families = {name: gauge(f"headway_share_{name}", "server", "model") for name in names}
        for url, state in standing.items():
            labels = [urlsplit(url).netloc, state.model]
            values: dict[str, float] = {"managed": state.managed}
            if (reading := readings.get(url)) is not None:
                values |= {"seats": state.seats, "paused": state.paused, "late": state.late}
                values |= {"wanted_seats": reading.load.demand_seats, "taken_seats": reading.taken}
            for name, value in values.items():
                families[name].add_metric(labels, float(value))
        yield from families.values()


@contextmanager
def serving(collector: Collector, port: int) -> Iterator[int]:
    """Serve the metrics of a collector at ``http://127.0.0.1:port/metrics``; yields the port, a free one for 0.

    Raises OSError where the port cannot be listened on.
    """
    registry = CollectorRegistry()
    registry.register(collector)
    server, thread = start_http_server(port, HOST, registry)
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
