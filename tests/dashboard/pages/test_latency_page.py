"""The pages of charts as a visitor gets them: what is drawn, what takes a line, and the CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from app_pages import again_until, refresh_until, words
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from streamlit.testing.v1 import AppTest
from stub_server import OPERATOR_TOKEN, StubServer

from headway_dashboard.analysis.catalogue import ALL_PANELS
from headway_dashboard.analysis.catalogue.batch_panels import BATCHES_PANEL

pytestmark = pytest.mark.slow

Open = Callable[..., AppTest]
OLD = ("headway_time_to_first_token_seconds", "headway_batch_size")


class Latencies(Collector):
    """Durations, objectives and processors of a server that has completed a request of batch at each scrape."""

    def __init__(self) -> None:
        self._scrapes = 0.0

    def describe(self) -> list[Metric]:
        """Registering counts no scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """One more request."""
        self._scrapes += 1.0
        done = self._scrapes
        for name in ("queue_wait", "inter_token", "end_to_end", "prefill", "decode"):
            family = HistogramMetricFamily(f"headway_{name}_seconds", "-", labels=("class",))
            family.add_metric(["batch"], [("0.1", 0.0), ("45.0", done), ("+Inf", done)], 20.0 * done)
            yield family
        longest = GaugeMetricFamily("headway_longest_seconds", "-", labels=("class", "of"))
        stated = GaugeMetricFamily("headway_objective_seconds", "-", labels=("class", "objective"))
        for of in ("wait", "first_token", "inter_token", "end_to_end"):
            longest.add_metric(["batch", of], 20.0)
        for objective in ("first_token", "inter_token"):
            stated.add_metric(["batch", objective], 30.0)
        yield from (longest, stated)
        for what, count in (("judged", done), ("met", 0.9 * done)):
            family = CounterMetricFamily(f"headway_objective_{what}_total", "-", labels=("class", "objective"))
            for objective in ("first_token", "inter_token", "both"):
                family.add_metric(["batch", objective], count)
            yield family


def older(stub: StubServer) -> StubServer:
    """The stub as a server that measures first tokens and batches alone."""
    families = stub.metrics._histogram_families
    stub.metrics._histogram_families = lambda: (one for one in families() if one.name in OLD)  # type: ignore[method-assign]  # an older server
    stub.moving = True
    return stub


def full(stub: StubServer) -> StubServer:
    """The same with durations and objectives that no class but batch has."""
    older(stub)._registry.register(Latencies())
    return stub


def test_every_panel_of_the_page_is_there(visit: Open, stub: StubServer) -> None:
    """Drawn, or with a line that says why not; the target and the short memory of the source are told."""
    app = visit("latency", full(stub).url)
    text = again_until(app, "The target is 99 %.")
    for panel in ALL_PANELS["Latency & SLO"]:
        assert f"**{panel.title}**".replace("\u00a0", " ") in text
    assert "keeps 30 min" in text


def test_an_older_server_leaves_lines_and_no_empty_charts(visit: Open, stub: StubServer) -> None:
    """Metrics that a server does not have take one line of text each."""
    text = again_until(visit("latency", older(stub).url), "**Time to first token**\n")
    assert "**Goodput** :small[no request was judged in this time]" in text
    assert "**Time between tokens** :small[no request of two or more tokens completed in this time]" in text


def test_a_class_filter_keeps_the_page_whole(visit: Open, stub: StubServer) -> None:
    """A class that is chosen in the bar limits the charts; those of a class without figures take a line."""
    app = visit("latency", full(stub).url)
    again_until(app, "**Goodput**\n")
    next(group for group in app.button_group if group.label == "Classes").set_value(["realtime"])
    again_until(app, "**Goodput** :small[no request was judged in this time]")


@pytest.mark.parametrize("page", ["latency", "requests", "engine"])
def test_the_page_can_be_downloaded(visit: Open, stub: StubServer, page: str) -> None:
    """One button for all series of the page."""
    app = visit(page, stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    assert not app.exception
    assert [one.label for one in app.get("download_button")] == ["CSV"]


def test_requests_show_fairness_and_both_shares_of_errors(visit: Open, stub: StubServer) -> None:
    """Every panel of the page; that an hour is cut short by the source is said."""
    stub.moving = True
    app = visit("requests", stub.url)
    text = again_until(app, "**Arrivals by class**\n")
    for panel in ALL_PANELS["Requests & priorities"]:
        assert f"**{panel.title}**" in text
    assert "the error share over an hour covers no more" in text
    assert "#### Fallback ladder" in text


class Batches(Collector):
    """A batch in progress, which is late: with each scrape ten lines more are over."""

    def __init__(self) -> None:
        self._over = 0.0

    def describe(self) -> list[Metric]:
        """Registering counts no scrape."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Ten lines more."""
        self._over += 10.0
        by_status = GaugeMetricFamily("headway_open_batches", "-", labels=("status",))
        by_status.add_metric(["in_progress"], 1.0)
        lines = CounterMetricFamily("headway_batch_lines_total", "-", labels=("outcome",))
        lines.add_metric(["completed"], self._over)
        yield from (by_status, lines)
        yield GaugeMetricFamily("headway_late_batches", "-", value=1.0)
        yield GaugeMetricFamily("headway_batch_lines_left", "-", value=1000.0 - self._over)


def test_requests_show_batches_of_files(visit: Open, stub: StubServer) -> None:
    """Where the server has a folder for them; else a line says how to get one."""
    app = visit("requests", stub.url)
    again_until(app, f"**Batch API: open batches** :small[{BATCHES_PANEL.idle}]")
    stub._registry.register(Batches())
    stub.moving = True
    text = again_until(app, "**Batch API: open batches**\n", "**Batch API: lines over**\n")
    assert "**Batch API: lines left**\n" in text


def test_the_window_is_shown_where_there_is_one(visit: Open, stub: StubServer) -> None:
    """Continuous batching has no window, so with a token, which tells the strategy, its chart is left out.

    The seats for which there is memory are said as well.
    """
    stub.moving, stub.world.kv_seats = True, 19
    app = visit("engine", stub.url, HEADWAY_ADMIN_TOKEN=OPERATOR_TOKEN)
    again_until(app, "**Engine steps by batch size**\n")
    refresh_until(app, lambda: "**Batch window**" not in words(app))
    text = words(app)
    assert "CPU backend, no GPU" in text
    assert "GPU utilisation" not in text
    assert "**Processor use**" in text
    assert "The KV space has room for 19 sequences of 1000 tokens beside its reserve, a typical length." in text


def test_a_gpu_has_its_utilisation(visit: Open) -> None:
    """GPU memory and utilisation only where there is a GPU."""
    with StubServer(gpu=True, moving=True) as stub:
        app = visit("engine", stub.url)
        text = again_until(app, "**GPU memory**\n")
        assert "**GPU utilisation**" in text
        assert "Memory of the server's processes" in text
        assert "CPU backend" not in text
