"""The metrics of a router: a series for each instance from the start, and the figures of the pool."""

from __future__ import annotations

import re

from instance_pools import pool_of
from prometheus_client import CollectorRegistry, generate_latest
from running_server import Scrape
from virtual_time import on_virtual_time

from headway.operator.metrics import METRIC_NAMES
from headway.router.forwarding.call import Call
from headway.router.instances.metrics import InstancesCollector
from headway.router.instances.reading import InstanceReading
from headway_policies.fallback import Verdict
from headway_policies.routing import Demand


@on_virtual_time
async def test_every_instance_has_every_series_from_the_start() -> None:
    """One that was never reached, too: it is down."""
    pool = pool_of("a:1", "b:2", heard=False)
    registry = CollectorRegistry()
    registry.register(InstancesCollector(pool))
    pool.heard(pool.links["a:1"])
    pool.read(pool.links["a:1"], InstanceReading(limit=3, running=2, kv_use=0.5), 0)
    lease = await pool.lease(Call(), Demand(100, 50, seats=1), frozenset())

    def read() -> Scrape:
        return Scrape(generate_latest(registry).decode())

    first = read()
    suffixes = ("_bucket", "_sum", "_count")
    names = {re.sub(f"({'|'.join(suffixes)})$", "", sample.name) for sample in first.samples}
    assert names == {name for name in METRIC_NAMES if name.startswith("headway_instance")}
    assert [first("headway_instance_up", instance_name=name) for name in ("a:1", "b:2")] == [1, 0]
    assert [first("headway_instance_seats", instance_name=name) for name in ("a:1", "b:2")] == [3, 4]
    assert first("headway_instance_own_seats", instance_name="b:2") == 4
    pool.grant({"b:2": 1}, 10.0)
    assert [read()("headway_instance_own_seats", instance_name=name) for name in ("a:1", "b:2")] == [0, 1]
    pool.links["a:1"].first_token.add(0.2, 0.0)
    assert read()("headway_instance_time_to_first_token_seconds_sum", instance_name="a:1") == 0.2
    assert read()("headway_instance_inter_token_seconds_count", instance_name="a:1") == 0
    assert first("headway_instance_running", instance_name="a:1", sent_by="router") == 1
    assert first("headway_instance_running", instance_name="a:1", sent_by="others") == 2
    assert first("headway_instance_kv_cache_usage_ratio", instance_name="a:1") == 0.5
    for ended in ("answered", "refused", "lost", "aborted"):
        assert first("headway_instance_exchanges_total", instance_name="b:2", ended=ended) == 0
    pool.release(lease, Verdict.SUCCESS, "answered")
    assert read()("headway_instance_exchanges_total", instance_name="a:1", ended="answered") == 1
