"""The dashboard of a real vLLM server that a real Prometheus scrapes, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
import requests
from dashboard_process import dashboard_process
from kept_load import Clients, kept_load
from playwright.sync_api import Page, expect
from prometheus_process import running_prometheus, scraping
from raw_metrics import (
    WITHOUT_REASON,
    RawMetrics,
    Spread,
    failed_ratio,
    gauge_spread,
    mean_of,
    rate_of,
    spread,
)
from real_browser import PLOT, drag
from running_server import RunningServer, wait_until
from tiers import LONG, long_form

from headway.api.routes import TABLE, Role

pytestmark = [pytest.mark.browser, pytest.mark.engine]

PAGES = {
    "overview": "Overview",
    "requests": "Requests & priorities",
    "tenants": "Tenants",
    "latency": "Latency & SLO",
    "engine": "Batching & memory",
    "control": "Control",
    "server": "Server & diagnostics",
}
#: This server counts no tenants.
WITHOUT_CHARTS = {"control": "Operator actions", "tenants": "Tokens by tenant"}
LIGHT = [Clients(2, "normal", 30, pause_s=1.0), Clients(1, "realtime", 30, pause_s=1.0)]
#: More than two seats serve, with little room to wait: what waits too long, finds no room, or may not wait is refused.
OVERLOAD = [
    Clients(6, "normal", 250, queue_timeout_s=0.8),
    Clients(4, "batch", 250),
    Clients(2, "realtime", 250, waits=False),
]
#: The words of the page for the reasons that this overload has.
WORDS = {
    "queue_timeout": "timed out waiting",
    "class_queue_full": "class queue full",
    "queue_full": "queue full",
    "no_free_seat": "no free seat",
    "evicted": "evicted by a more urgent one",
}
#: A scrape of Prometheus, a refresh of the dashboard and a point of a chart later or earlier, in all.
#: The server itself takes up to a minute for a forecast.
_FORECAST_MS = 120_000
INTERVAL_S = 4.0
WINDOW_S, BATCH_WINDOW_S = 30.0, 10.0
LOOKED_S = WINDOW_S + 2 * INTERVAL_S
LOOKS = 8  # refreshes

#: Tiles and charts of one refresh that is newer than ``before``; null while only a part of it is drawn.
FRESH = """(before) => {
  const figures = [...document.querySelectorAll('.headway-plot')].map(host => host.__headway?.figure).filter(Boolean);
  const ends = new Set(figures.map(figure => figure.times_ms.at(-1)));
  if (!figures.length || ends.size !== 1 || !(Math.min(...ends) > before)) return null;
  const charts = Object.fromEntries(figures.map(figure => [figure.layout.uirevision, figure]));
  const text = (tile, part) => tile.querySelector(`[data-testid=stMetric${part}]`).innerText.trim();
  const tiles = [...document.querySelectorAll('[data-testid=stMetric]')];
  return {
    end_ms: Math.min(...ends), charts,
    tiles: Object.fromEntries(tiles.map(tile => [text(tile, "Label"), text(tile, "Value")])),
  };
}"""
COMPARED = ("Requests", "Output tokens", "Batch size", "Waiting", "Error share")
NEWEST_MS = "() => document.querySelector('.js-plotly-plot')?.__headway.figure.times_ms.at(-1) ?? 0"


@dataclass(frozen=True, slots=True)
class Watched:
    """A real server, the dashboard that reads it from Prometheus, and an independent look at it."""

    server: RunningServer
    url: str
    prometheus_url: str
    raw: RawMetrics


@pytest.fixture(scope="module")
def watched(shared_server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """All of it, started once; the server is left as it was."""
    folder = tmp_path_factory.mktemp("watched")
    shared_server.use("balanced")
    shared_server.settle()
    with ExitStack() as stack:
        raw = stack.enter_context(RawMetrics(shared_server.url).watching())
        prometheus = stack.enter_context(running_prometheus(folder, scraping(folder, [shared_server.url])))
        token = {"HEADWAY_ADMIN_TOKEN": shared_server.token}
        refresh_s = 1.0 if LONG else 2.0  # the figures of the long form are of each second
        log = folder / "dashboard.log"
        dashboard = dashboard_process(shared_server.url, log, refresh_s=refresh_s, prometheus_url=prometheus, **token)
        yield Watched(shared_server, stack.enter_context(dashboard).url, prometheus, raw)
    shared_server.use("balanced")
    shared_server.settle()
    assert shared_server.scrape().unbalanced() == []


def go(page: Page, url: str) -> None:
    """Open an address and wait until its first chart is drawn."""
    page.goto(url, wait_until="domcontentloaded")
    page.locator(PLOT).first.wait_for()


def refreshed(page: Page) -> dict[str, Any]:
    """What the page shows right after a refresh."""
    found: dict[str, Any] = page.wait_for_function(FRESH, arg=page.evaluate(NEWEST_MS)).json_value()
    return found


def number(text: str) -> float:
    """The first number of a tile; a share in percent as a ratio."""
    found = re.search(r"[\d.,]+", text)
    assert found is not None, text
    value = float(found[0].replace(",", ""))
    return value / 100 if "%" in text else value


def with_numbers(page: Page) -> dict[str, Any] | None:
    """What the page shows right after a refresh; None while a tile that is compared has no number yet."""
    found = refreshed(page)
    return found if all(re.search(r"\d", found["tiles"][label]) for label in COMPARED) else None


def shown_causes(charts: Mapping[str, Any]) -> dict[str, float]:
    """Failed requests a second by the words of their cause, at the newest point of the chart."""
    return {trace["name"]: trace["y"][-1] or 0.0 for trace in charts["errors"]["traces"]}


def compared(page: Page, raw: RawMetrics) -> tuple[dict[str, tuple[float, Spread]], Callable[[Any], Spread], Any]:
    """What tiles show beside what the text of ``/metrics`` gives for the same time."""
    page_now = wait_until(lambda: with_numbers(page), "each tile has its number")
    tiles, end_s = page_now["tiles"], page_now["end_ms"] / 1000
    wait_until(lambda: raw.looks[-1].time_s > end_s + INTERVAL_S, "the script has looked longer than the page")

    def over_window(figure: Any) -> Spread:
        return spread(raw.looks, figure, end_s, WINDOW_S, INTERVAL_S)

    pairs = {
        "Requests": over_window(rate_of("headway_arrivals_total")),
        "Output tokens": over_window(rate_of("vllm:generation_tokens_total")),
        "Batch size": spread(raw.looks, mean_of("headway_batch_size"), end_s, BATCH_WINDOW_S, INTERVAL_S),
        "Waiting": gauge_spread(raw.looks, "headway_queue_depth", end_s, INTERVAL_S),
        "Error share": over_window(failed_ratio),
    }
    return {label: (number(tiles[label]), one) for label, one in pairs.items()}, over_window, page_now["charts"]


def wrong(pairs: Mapping[str, tuple[float, Spread]]) -> dict[str, tuple[float, Spread]]:
    """The tiles that differ by more than the interval, rounding, and one request in a queue."""
    allowed = {"Waiting": 1.0, "Error share": 0.005}
    return {
        label: (shown, one)
        for label, (shown, one) in pairs.items()
        if not one.holds(shown, one=allowed.get(label, 0.0))
    }


def agreeing(page: Page, raw: RawMetrics) -> tuple[dict[str, tuple[float, Spread]], Any]:
    """The tiles and charts of the first of a few refreshes that agrees: a busy machine may miss a scrape."""
    for _ in range(LOOKS):
        pairs, _, charts = compared(page, raw)
        if not wrong(pairs):
            break
    return pairs, charts


# before the next test, which needs a window of figures: it begins to fill with the server's first reader
@long_form("tests/engine/test_access has each route of a real server, tests/dashboard/pages the page of a viewer")
def test_a_viewer_changes_nothing_on_the_page_or_at_the_server(
    page: Page, watched: Watched, dashboard: Callable[..., str]
) -> None:
    """Every button that would send something is off, and the server refuses each order of this token."""
    server = watched.server
    token, before = server.viewer_token, server.status()
    url = dashboard(server.url, None, HEADWAY_VIEWER_TOKEN=token)
    page.goto(f"{url}/control", wait_until="domcontentloaded")
    expect(page.get_by_text("a viewer's token, which may only read")).to_be_visible()
    page.locator(".st-key-card-latency").get_by_role("button", name="Compare").click()
    expect(page.get_by_role("button", name="Apply latency")).to_be_disabled()
    main = page.get_by_test_id("stMain")
    for name in ("Forecast", "Recycle the engine", "Warm the engine up"):
        expect(main.get_by_role("button", name=name, exact=True)).to_be_disabled()
    proposal = page.locator(".st-key-headway-proposal")
    for label in ("Reason", "Revert after", "Revert if"):
        expect(proposal.get_by_role("textbox", name=label)).to_be_disabled()
    changing = [(route.method, route.path) for route in TABLE if route.role is Role.OPERATOR]
    assert len(changing) > 8
    for method, path in changing:
        answer = requests.request(
            method, f"{server.url}{path}", json={}, headers={"Authorization": f"Bearer {token}"}, timeout=20
        )
        assert answer.status_code == 403, (method, path, answer.text)
    after = server.status()
    assert (after["preset"], after["limit"], after["state"]) == (before["preset"], before["limit"], before["state"])


@long_form("tests/dashboard/pages has every page and its numbers, the next test the pages of this server")
def test_every_page_loads_under_light_load_and_its_numbers_are_those_of_the_metrics(
    page: Page, watched: Watched
) -> None:
    """Every page without an error; then requests, tokens, batch, queue and error share agree with the bare text."""
    with kept_load(watched.server.url, LIGHT):
        for path, name in PAGES.items():
            page.goto(f"{watched.url}/{path}", wait_until="domcontentloaded")
            expect(page.get_by_role("link", name=name)).to_be_visible()
            ready = page.get_by_text(WITHOUT_CHARTS[path]) if path in WITHOUT_CHARTS else page.locator(PLOT)
            ready.first.wait_for()
            expect(page.locator(".st-key-headway-banner").get_by_text("Prometheus").first).to_be_visible()
            assert page.get_by_test_id("stException").count() == 0
        go(page, watched.url)
        wait_until(lambda: watched.raw.span_s() > LOOKED_S, "there is a window to compare")
        pairs, charts = agreeing(page, watched.raw)
    assert wrong(pairs) == {}
    assert pairs["Requests"][0] > 0.5
    assert pairs["Error share"][0] == 0
    assert "errors" not in charts


@long_form("tests/dashboard/sources/test_real_prometheus has all causes of a stub, the test above the tiles")
def test_the_causes_of_an_overload_are_those_of_the_metrics(page: Page, watched: Watched) -> None:
    """Several reasons at once: each cause, their sum, the share and the other tiles agree with the bare text."""
    watched.server.use("tight")
    go(page, watched.url)
    with kept_load(watched.server.url, OVERLOAD):
        began_s = watched.raw.looks[-1].time_s
        wait_until(lambda: watched.raw.looks[-1].time_s - began_s > LOOKED_S, "the whole window is overload")
        pairs, over_window, charts = compared(page, watched.raw)
        expect(page.locator(".st-key-headway-banner").get_by_text("overloaded").first).to_be_visible()
    watched.server.use("balanced")
    assert wrong(pairs) == {}
    shown = shown_causes(charts)
    assert len({*shown} & {*WORDS.values()}) >= 3, shown
    assert {*shown} <= {*WORDS.values()}
    for reason, words in WORDS.items():
        one = over_window(rate_of("headway_refusals_total", reason=reason))
        assert one.holds(shown.get(words, 0.0), one=2 / WINDOW_S), (words, shown, one)
    others = [over_window(rate_of("headway_outcomes_total", outcome=outcome)) for outcome in WITHOUT_REASON]
    assert [one.high for one in others] == [0.0, 0.0]
    ends = over_window(rate_of("headway_outcomes_total"))
    assert Spread(sum(shown.values()) / ends.high, sum(shown.values()) / ends.low).holds(pairs["Error share"][0])


def test_a_preset_is_forecast_tried_watched_and_undone(page: Page, watched: Watched) -> None:
    """All of it through the page: the forecast of this traffic, a trial with its condition, and Undo."""
    server = watched.server
    server.use("balanced")
    with kept_load(server.url, LIGHT):
        page.goto(f"{watched.url}/control", wait_until="domcontentloaded")
        page.get_by_role("button", name="Forecast", exact=True).wait_for()
        card = page.locator(".st-key-card-latency")
        made = card.get_by_text(re.compile("^Forecast(, not confirmed)?: "))  # a busy machine: doubted
        expect(made).to_be_visible(timeout=_FORECAST_MS)
        before = server.status()["preset"]
        card.get_by_role("button", name="Compare").click()
        proposal = page.locator(".st-key-headway-proposal")
        proposal.get_by_role("textbox", name="Reason").fill("a trial in a browser")
        proposal.get_by_role("textbox", name="Your name").fill("tester")
        proposal.get_by_role("textbox", name="Revert after").fill("10m")
        proposal.get_by_role("textbox", name="Revert if").fill("error_ratio > 0.9 for 20 s")
        page.get_by_role("button", name="Apply latency").click()
        watch = page.locator(".st-key-headway-trial")
        expect(watch.get_by_text("is on trial")).to_be_visible()
        expect(watch.get_by_role("cell", name="normal").first).to_be_visible()
        on_trial = server.status()
        assert on_trial["preset"]["name"] == "latency"
        assert on_trial["preset"]["revision"] == before["revision"] + 1
        assert on_trial["preset"]["trial"]["back_to"] == before["name"]
        watch.get_by_role("button", name="Undo").click()
        expect(page.get_by_text(f"{before['name']} is in force as revision")).to_be_visible()
    after = server.status()
    assert after["preset"]["name"] == before["name"]
    assert after["preset"].get("trial") is None
    entries = server.admin("GET", "audit").json()["entries"]
    assert any(one["actor"] == "tester" and one["after"].startswith("latency") for one in entries)


@long_form("test_dashboard_page has the zoom and the link with a stub")
def test_a_zoom_survives_refreshes_and_a_link_restores_everything(page: Page, watched: Watched) -> None:
    """Range, classes and comparison of a link, and a dragged zoom through three refreshes, with Prometheus behind."""
    go(page, f"{watched.url}/requests?range=15m&classes=batch&classes=normal&compare=before")
    bar = page.locator(".st-key-headway-bar")
    for words in ("15m", "batch", "normal", "before"):
        expect(bar.get_by_role("radio", name=words).or_(bar.get_by_role("button", name=words)).first).to_be_visible()
    found = page.evaluate("() => [...new URLSearchParams(window.location.search)]")
    assert sorted(map(tuple, found)) == [
        ("classes", "batch"),
        ("classes", "normal"),
        ("compare", "before"),
        ("range", "15m"),
    ]
    begin_ms, end_ms = page.evaluate(
        "() => document.querySelector('.js-plotly-plot').__headway.figure.layout.xaxis.range"
    )
    assert end_ms - begin_ms == pytest.approx(900_000, rel=0.05)
    drag(page)
    zoom = page.evaluate("() => document.querySelector('.js-plotly-plot').__headway.zoom")
    for _ in range(3):
        page.wait_for_function(f"(before) => ({NEWEST_MS})() > before", arg=page.evaluate(NEWEST_MS))
    assert page.evaluate("() => document.querySelector('.js-plotly-plot').layout.xaxis.range") == zoom
