"""The sources of the numbers: a real /metrics, servers that are unreachable or hang, and a circuit breaker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest
import requests
from stub_server import StubServer

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.queries.model import Series
from headway_dashboard.analysis.queries.reading import Health, SourceReading
from headway_dashboard.analysis.server import newest_values
from headway_dashboard.analysis.view import Span
from headway_dashboard.sources import FallbackSource, PrometheusSource, ScrapeSource, read

Until = Callable[[Callable[[], bool]], None]


class Clock:
    """A clock a test sets."""

    def __init__(self) -> None:
        self.now_s = 10_000.0

    def __call__(self) -> float:
        return self.now_s


def scraped(stub: StubServer, steps: int = 20) -> tuple[ScrapeSource, Clock]:
    """A source that has polled a moving server every two seconds, without a thread and without waiting."""
    clock = Clock()
    source = ScrapeSource(stub.url, interval_s=2.0, clock=clock)
    source._start = lambda: None  # type: ignore[method-assign]  # the test polls by hand
    for _ in range(steps):
        stub.world.step(2.0)
        clock.now_s += 2
        source.poll()
    return source, clock


def test_scrape_reads_real_exposition_text(stub: StubServer) -> None:
    """Every fact of the overview comes out of generate_latest's text."""
    stub.world.load = 3.0
    source, _ = scraped(stub)
    reading = read(source, panels.FACTS, 300.0)
    assert all(reading[fact].latest() is not None for fact in panels.FACTS)
    assert reading[panels.LIMIT].latest() == 32
    assert reading[panels.CEILING].latest() == 64
    assert reading[panels.QUEUED].latest() == sum(stub.world.queued.values())
    assert reading[panels.ARRIVALS].latest() == pytest.approx(39, rel=0.1)
    assert reading.health.trouble is None
    source.close()


@pytest.mark.parametrize("age_s", [0.0, 1.9, 5.5, 6.1, 7.3, 8.0, 8.1, 20.0])
def test_figures_are_shown_for_as_long_as_they_count_as_current(stub: StubServer, age_s: float) -> None:
    """The banner never calls a server live beside tiles without a value."""
    source, clock = scraped(stub)
    clock.now_s += age_s
    reading = read(source, (*panels.FACTS, *panels.HEAD), 300.0)
    assert newest_values.condition_of(reading, clock.now_s).current == (age_s <= 8.0)
    if age_s <= 8.0:
        assert reading[panels.LIMIT].latest() == 32
        assert reading[panels.ARRIVALS].latest() is not None
    source.close()


def test_scrape_sees_a_preset_change(stub: StubServer) -> None:
    """The limit steps down, and the old preset's line ends."""
    source, clock = scraped(stub)
    stub.world.switch("latency", {}, "")
    for _ in range(5):
        clock.now_s += 2
        source.poll()
    reading = read(source, (panels.LIMIT, panels.PRESET), 300.0)
    assert {32, 8} <= set(reading[panels.LIMIT].line())
    assert reading[panels.PRESET].latest("latency", "2") == 1
    source.close()


def test_scrape_says_when_the_server_went_away(stub: StubServer) -> None:
    """Two polls after the end: refused, with the time of the last numbers, which stay."""
    source, clock = scraped(stub)
    measured_s = clock.now_s
    stub.stop()
    for _ in range(2):
        clock.now_s += 2
        source.poll()
    health = read(source, (), 300.0).health
    assert (health.last_ok_s, health.failures, health.trouble) == (measured_s, 2, "refused")
    source.close()


@pytest.mark.parametrize(
    ("status", "body", "detail"),
    [
        (503, "busy", "HTTP 503"),
        (200, "<html>not metrics</html>", "text format"),
        (200, "process_open_fds 3\nprocess_start_time_seconds 3\n", "neither headway nor vLLM"),
    ],
)
def test_scrape_explains_a_wrong_answer(stub: StubServer, status: int, body: str, detail: str) -> None:
    """A wrong port or a sick server is named, and nothing is kept of it."""
    stub.forced["GET", "/metrics"] = (status, body)
    source, _ = scraped(stub, steps=1)
    health = read(source, (), 300.0).health
    assert detail in health.detail
    assert health.last_ok_s is None
    source.close()


def test_one_thread_and_it_ends(stub: StubServer, until: Until) -> None:
    """Many readers share one poller; close ends it."""
    source = ScrapeSource(stub.url, interval_s=0.5)
    readers = [threading.Thread(target=read, args=(source, panels.FACTS, 300.0)) for _ in range(8)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert sum(thread.name == "headway-scrape" for thread in threading.enumerate()) == 1
    source.close()
    until(lambda: all(thread.name != "headway-scrape" for thread in threading.enumerate()))


def test_prometheus_is_not_asked_after_two_failures() -> None:
    """For ten seconds; then one attempt decides, and the same again."""
    clock = Clock()
    source = PrometheusSource("http://127.0.0.1:1", clock=clock, steady=clock)
    sent: list[float] = []

    def look() -> None:
        sent.append(clock.now_s)
        raise requests.ConnectionError

    source._look_at_targets = look  # type: ignore[method-assign]  # no network
    for later_s in (0.0, 1.0, 9.9, 0.1, 1.0, 8.9, 0.1):
        clock.now_s += later_s
        source.refresh()
    assert [at_s - 10_000 for at_s in sent] == pytest.approx([0, 1, 11, 21])
    assert not source.reachable
    source._look_at_targets = lambda: None  # type: ignore[method-assign]  # it is back
    clock.now_s += 10
    source.refresh()
    assert source.reachable
    source.close()


def test_while_prometheus_is_away_the_scrape_answers(stub: StubServer, nobody: str, until: Until) -> None:
    """The page goes on with the direct scrape and says so."""
    stub.moving = True
    source = FallbackSource(PrometheusSource(nobody, interval_s=0.5), ScrapeSource(stub.url, interval_s=0.5))
    until(lambda: read(source, (panels.LIMIT,), 300.0)[panels.LIMIT].latest() == 32)
    reading = read(source, (panels.LIMIT,), 300.0)
    assert reading.source == "direct scrape"
    assert "not reachable" in reading.note
    source.close()


def test_a_live_server_that_prometheus_does_not_scrape_is_shown() -> None:
    """By the direct scrape, with a sentence; a time of the past is Prometheus' own."""
    span, past, well = Span(300.0), Span(300.0, 1_800_000_000.0), Health(last_ok_s=1.0)
    unknown = Health(None, 3, "refused", "Prometheus does not know it", 1.0)
    empty = Series((0.0,), {})
    told = SourceReading({panels.LIMIT: empty}, unknown, 2.0, "Prometheus")
    own = SourceReading({panels.LIMIT: empty}, well, 2.0, "direct scrape", instances={"127.0.0.1:8000": well})
    prometheus = SimpleNamespace(reachable=True, read=lambda questions: dict.fromkeys(questions, told))
    scrape = SimpleNamespace(begin=lambda: None, read=lambda questions: dict.fromkeys(questions, own))
    source = FallbackSource(cast(PrometheusSource, prometheus), cast(ScrapeSource, scrape))
    found = source.read({span: (panels.LIMIT,)})[span]
    assert (found.source, found.health) == ("direct scrape", well)
    assert found.note == "Prometheus does not know it: showing the direct scrape instead."
    assert source.read({past: (panels.LIMIT,)})[past].source == "Prometheus"


def test_a_closed_page_of_metrics_is_asked_for_rarely(stub: StubServer) -> None:
    """With a token that it refuses: a server locks out an address with too many wrong ones."""
    stub.forced["GET", "/metrics"] = (401, "")
    source = ScrapeSource(stub.url, token="of yesterday", interval_s=0.5)
    (scrape,) = source._servers.values()
    for _ in range(3):
        scrape.poll()
    assert len(stub.requests) == 1
    assert scrape.health.failures == 3
    source.close()


def test_prometheus_says_which_servers_there_are_while_it_answers() -> None:
    """Also where nothing else is asked, and it knows the servers by other names than the direct scrape."""
    span, well = Span(300.0), Health(last_ok_s=1.0)
    told = SourceReading({}, well, 2.0, "", instances={"gpu-1:8000": well, "gpu-2:8000": well})
    own = SourceReading({}, well, 2.0, "", instances={"127.0.0.1:8000": well})
    prometheus = SimpleNamespace(reachable=True, read=lambda questions: {span: told})
    scrape = SimpleNamespace(begin=lambda: None, read=lambda questions: {span: own})
    source = FallbackSource(cast(PrometheusSource, prometheus), cast(ScrapeSource, scrape))
    assert list(source.read({span: ()})[span].instances) == ["gpu-1:8000", "gpu-2:8000"]
