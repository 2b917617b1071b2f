"""Metrics of the instances behind a router."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import Metric

from headway.operator.metrics.table import ScrapedCollector, counter, gauge, histogram, one_counter
from headway.router.instances.pool import InstancePool


class InstancesCollector(ScrapedCollector):
    """A collector that reads the pool at each scrape. The label ``instance_name`` is the instance's host and port."""

    def __init__(self, pool: InstancePool) -> None:
        self._pool = pool

    def collect(self) -> Iterator[Metric]:
        healthy = {link.address.name for link in self._pool.healthy()}
        up = gauge("headway_instance_up", "instance_name")
        seats = gauge("headway_instance_seats", "instance_name")
        own_seats = gauge("headway_instance_own_seats", "instance_name")
        running = gauge("headway_instance_running", "instance_name", "sent_by")
        kv_use = gauge("headway_instance_kv_cache_usage_ratio", "instance_name")
        exchanges = counter("headway_instance_exchanges_total", "instance_name", "ended")
        times = {
            "first_token": histogram("headway_instance_time_to_first_token_seconds", "instance_name"),
            "inter_token": histogram("headway_instance_inter_token_seconds", "instance_name"),
        }
        for name, link in self._pool.links.items():
            up.add_metric([name], float(name in healthy))
            seats.add_metric([name], link.seats)
            own_seats.add_metric([name], link.seats if link.granted is None else min(link.granted, link.seats))
            running.add_metric([name, "router"], link.sent)
            running.add_metric([name, "others"], link.others)
            kv_use.add_metric([name], link.reading.kv_use)
            for of, family in times.items():
                seen = getattr(link, of).read(0.0)
                family.add_metric([name], seen.buckets, seen.total)
            for how in ("answered", "refused", "lost", "aborted"):
                exchanges.add_metric([name, how], link.ended[how])
        yield from (up, seats, own_seats, running, kv_use, *times.values(), exchanges)
        yield one_counter("headway_instance_retries_total", self._pool.retried)
