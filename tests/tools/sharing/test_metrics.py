"""The metrics of an arbiter: what the last step has read and ordered."""

from __future__ import annotations

import urllib.request

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from running_server import Scrape
from shared_stand_in import SharedStandIn

from headway.operator.metrics import METRIC_NAMES
from headway_tools.sharing.arbiter import Arbiter
from headway_tools.sharing.metrics import ShareCollector, serving

FIRST, SECOND = {"server": "a:1", "model": "model of http://a:1"}, {"server": "b:2", "model": "model of http://b:2"}


def scraped(collector: ShareCollector) -> Scrape:
    registry = CollectorRegistry()
    registry.register(collector)
    return Scrape(generate_latest(registry).decode())


def stepped() -> tuple[list[SharedStandIn], Arbiter, ShareCollector]:
    """Two servers after a step, the first one late and the second one paused for it."""
    servers = [
        SharedStandIn("http://a:1", urgent=True, late_ratio=1.0, queued=40),
        SharedStandIn("http://b:2", may_pause=True),
    ]
    servers[0].pass_time(0.0)
    arbiter, collector = Arbiter(servers, 16), ShareCollector(16)
    collector.show(arbiter.step(0.0), arbiter.readings)
    return servers, arbiter, collector


def test_each_server_has_what_it_got_wants_and_uses() -> None:
    """Under every name of the table of metrics, and no other."""
    _, _, collector = stepped()
    page = scraped(collector)
    assert {one.name for one in page.samples} == {name for name in METRIC_NAMES if name.startswith("headway_share_")}
    assert page("headway_share_total_seats") == 16
    for name, first, second in (
        ("seats", 15, 1), ("wanted_seats", 40, 0), ("taken_seats", 8, 0), ("paused", 0, 1), ("late", 1, 0),
        ("managed", 1, 1),
    ):  # fmt: skip
        found = [page(f"headway_share_{name}", **labels) for labels in (FIRST, SECOND)]
        assert (name, found) == (name, [first, second])


def test_a_server_that_does_not_answer_shows_nothing_of_before() -> None:
    """But that it is not managed; one that is left alone still has its seats."""
    servers, arbiter, collector = stepped()
    servers[0].answers, servers[1].left_alone = False, "a trial"
    collector.show(arbiter.step(1.0), arbiter.readings)
    page = scraped(collector)
    assert {sample.name for sample in page.samples if sample.labels.get("server") == "a:1"} == {"headway_share_managed"}
    assert [page("headway_share_managed", **labels) for labels in (FIRST, SECOND)] == [0, 0]
    assert page("headway_share_seats", **SECOND) == 1


def test_before_the_first_step_there_is_only_the_total() -> None:
    """Nothing was read yet."""
    assert [sample.name for sample in scraped(ShareCollector(16)).samples] == ["headway_share_total_seats"]


def test_the_page_is_served_on_this_machine_until_the_end() -> None:
    """A second one cannot have the port, which is free again afterwards."""
    _, _, collector = stepped()
    with serving(collector, 0) as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            assert Scrape(answer.read().decode())("headway_share_seats", **FIRST) == 15
        with pytest.raises(OSError, match="in use"), serving(collector, port):
            pass
    with serving(collector, port):
        pass
