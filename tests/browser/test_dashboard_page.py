"""The dashboard in a real browser, in front of a stand-in for the server: pages, charts, orders, the user's zoom."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
import requests
from dashboard_process import dashboard_process
from playwright.sync_api import BrowserContext, Page, expect
from real_browser import BANNER, PLOT, SCREEN, checked_page, drag, wait_for_refresh
from stub_server import OPERATOR_TOKEN, StubServer
from tiers import LONG, long_form

from headway_dashboard.analysis.catalogue import ALL_PANELS, engine_panels, panels
from headway_dashboard.analysis.catalogue.memory_panels import GPU_BUSY_PANEL

pytestmark = pytest.mark.browser

#: A load at which requests wait, so that every chart of the Overview has something to show.
BUSY = 3.0
#: A page that is drawn anew all the time takes a processor, and each step of a test longer.
REFRESH_S = 3.0
PAGES = ("Overview", "Requests & priorities", "Tenants", "Latency & SLO", "Batching & memory", "Server & diagnostics")
#: What the browser calls a background that is none.
NO_COLOUR = "rgba(0, 0, 0, 0)"
#: A chart in its card, or the line that says why there is none.
PANEL = "[class*='st-key-panel-']"
#: Whether a chart is zoomed.
ZOOMED = "() => [...document.querySelectorAll('.js-plotly-plot')].some(plot => plot.__headway?.zoom)"


@pytest.fixture(scope="module")
def stub() -> Iterator[StubServer]:
    """A busy server."""
    with StubServer(moving=True) as stub:
        stub.world.load = BUSY
        yield stub


@pytest.fixture(scope="module")
def busy(stub: StubServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of one dashboard of a busy server, for the tests that only look."""
    token = {"HEADWAY_ADMIN_TOKEN": OPERATOR_TOKEN}
    log = tmp_path_factory.mktemp("busy") / "dashboard.log"
    with dashboard_process(stub.url, log, refresh_s=REFRESH_S, **token) as running:
        yield running.url


@pytest.fixture(scope="module")
def opened(context: BrowserContext, busy: str) -> Iterator[Page]:
    """One page for many tests: to open a page takes many times as long as to follow a link of it."""
    with checked_page(context) as opened:
        yield opened


@pytest.fixture
def overview(opened: Page, busy: str) -> Page:
    """The Overview with its charts, wide and live, without a choice or a zoom; in the session of the test before, if
    that left it so.
    """
    opened.set_viewport_size(SCREEN)
    if urlsplit(opened.url).query or not opened.url.startswith(busy) or opened.evaluate(ZOOMED):
        opened.goto(busy, wait_until="domcontentloaded")
    else:
        opened.get_by_role("link", name="Overview").click()
    expect(opened.get_by_role("link", name="Overview")).to_have_attribute("aria-current", "page")
    opened.locator(PLOT).nth(3).wait_for()
    return opened


def status(server_url: str, token: str) -> dict[str, Any]:
    """The server's status."""
    answer = requests.get(f"{server_url}/headway/v1/status", headers={"Authorization": f"Bearer {token}"}, timeout=10)
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found


def watch_and_switch(page: Page, dashboard_url: str, server_url: str, token: str) -> None:
    """Open Overview, see the charts, go to Control, switch to latency, and see the server's limit change."""
    before = status(server_url, token)
    assert before["limit"]["live"] == 32
    page.goto(dashboard_url, wait_until="domcontentloaded")
    page.locator(PLOT).first.wait_for()
    expect(page.locator(PANEL)).to_have_count(4)
    expect(page.get_by_text("Batch size against the limit")).to_be_visible()
    expect(page.locator(BANNER).get_by_text("balanced · revision").first).to_be_visible()

    page.get_by_role("link", name="Control").click()
    card = page.locator(".st-key-card-latency")
    card.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("cell", name="batching.seats")).to_be_visible()
    assert status(server_url, token)["limit"]["live"] == 32

    proposal = page.locator(".st-key-headway-proposal")
    proposal.get_by_label("Reason").fill("browser test")
    proposal.get_by_label("Your name").fill("tester")
    page.get_by_role("button", name="Apply latency").click()
    expect(page.get_by_text("latency is in force as revision")).to_be_visible()
    after = status(server_url, token)
    assert after["limit"]["live"] == 8
    assert after["preset"]["revision"] == before["preset"]["revision"] + 1
    expect(page.locator(BANNER).get_by_text("latency · revision").first).to_be_visible()


@long_form("test_real_server puts a preset on trial and back through the same card, at a real server")
def test_switch_the_preset_of_a_stub(page: Page, dashboard: Callable[..., str]) -> None:
    """A button that is pressed in the browser changes the limit of the server."""
    with StubServer(moving=True) as stub:
        watch_and_switch(page, dashboard(stub.url, OPERATOR_TOKEN), stub.url, OPERATOR_TOKEN)
        assert stub.world.audit[0].actor == "tester"


def test_zoom_survives_refreshes(overview: Page) -> None:
    """After a drag the chart keeps its node and its range while data go on arriving; a double click ends the zoom."""
    page = overview
    page.evaluate("() => { document.querySelector('.js-plotly-plot').__mine = true; }")
    area = drag(page)
    chosen = page.evaluate("() => document.querySelector('.js-plotly-plot').__headway.zoom")
    for _ in range(2):
        wait_for_refresh(page)
    assert page.evaluate("() => document.querySelector('.js-plotly-plot').__mine") is True
    assert page.evaluate("() => document.querySelector('.js-plotly-plot').layout.xaxis.range") == chosen
    area.dblclick()
    page.wait_for_function("() => document.querySelector('.js-plotly-plot').__headway.zoom === null")
    wait_for_refresh(page)
    assert page.evaluate("() => document.querySelector('.js-plotly-plot').layout.xaxis.range") != chosen


def address(page: Page) -> dict[str, str]:
    """The choices in the address of the page."""
    found: dict[str, str] = page.evaluate("() => Object.fromEntries(new URLSearchParams(window.location.search))")
    return found


def shown_ms(page: Page) -> list[list[int]]:
    """The time axis of every chart, in milliseconds of UTC."""
    found: list[list[int]] = page.evaluate(
        "() => [...document.querySelectorAll('.js-plotly-plot')].map(p => p.__headway.figure.layout.xaxis.range)"
    )
    return found


#: Whether the first chart has points at so many instants.
KNOWN = """(least) => {
  const { times_ms, traces } = document.querySelector('.js-plotly-plot').__headway.figure;
  return times_ms.filter((_, at) => traces.some((trace) => trace.y[at] !== null)).length >= least;
}"""


def expect_time(page: Page, chosen: list[int]) -> None:
    """Wait until every chart shows exactly this time."""
    page.wait_for_function(
        "(chosen) => { const plots = [...document.querySelectorAll('.js-plotly-plot')];"
        " return plots.length > 0 && plots.every(p => p.__headway.figure.layout.xaxis.type !== 'date'"
        " || String(p.__headway.figure.layout.xaxis.range) === String(chosen)) }",
        arg=chosen,
    )


def test_a_dragged_time_is_that_of_all_pages_until_back_to_live(overview: Page, busy: str) -> None:
    """One button after a drag: the time is in the address, on every page and in a link, and nothing moves it."""
    page = overview
    button = page.get_by_role("button", name="Show this time on all pages")
    expect(button).to_have_count(0)
    page.wait_for_function(KNOWN, arg=3)  # the time has something to show
    live_ms = shown_ms(page)[0]
    drag(page, upto=0.99)
    expect(button).to_have_count(1)
    button.click()
    page.wait_for_url("**/*from=*")
    expect(page.get_by_text("Paused", exact=True).first).to_be_visible()
    expect(button).to_have_count(0)
    chosen = [int(address(page)[name]) * 1000 for name in ("from", "to")]
    part_ms = (live_ms[1] - live_ms[0]) * 0.39
    assert part_ms * 0.8 < chosen[1] - chosen[0] < part_ms * 1.2
    assert live_ms[0] + part_ms < chosen[0] < chosen[1] < live_ms[1] + 60_000
    expect_time(page, chosen)

    page.get_by_role("link", name="Server & diagnostics").click()
    page.wait_for_url(f"{busy}/server?*")
    expect_time(page, chosen)
    assert address(page) == {"from": str(chosen[0] // 1000), "to": str(chosen[1] // 1000)}
    if LONG:  # the link, in a session of its own: on a commit in tests/dashboard/pages/test_frame
        page.goto(page.url, wait_until="domcontentloaded")
        page.locator(PLOT).first.wait_for()
        expect_time(page, chosen)

    page.get_by_role("button", name="Back to live").click()
    page.wait_for_url(f"{busy}/server")
    wait_for_refresh(page)
    assert shown_ms(page)[0][1] > chosen[1]


@long_form("tests/dashboard/pages/test_frame has the pause, its place in the address and its end")
def test_a_pause_stops_every_chart(overview: Page, stub: StubServer) -> None:
    """The server goes on, and so does the line above the pages; the charts stay."""
    page = overview
    page.get_by_test_id("stButtonGroup").get_by_text("Paused", exact=True).click()
    page.wait_for_url("**/*to=*")
    chosen = [int(address(page)[name]) * 1000 for name in ("from", "to")]
    expect_time(page, chosen)
    stub.world.ready = False
    try:
        expect(page.get_by_text("HeadwayNotReady")).to_be_visible()
        expect_time(page, chosen)
    finally:
        stub.world.ready = True
    page.get_by_role("button", name="Back to live").click()
    page.wait_for_function("() => window.location.search === ''")


@long_form("tests/dashboard/pages/test_frame has what stands on a wall and that nothing can be pressed")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_wall_fits_its_screen(page: Page, busy: str, scheme: Literal["light", "dark"]) -> None:
    """Diagnosis, tiles and four charts on 1920 by 1080 without scrolling; nothing can be pressed; it refreshes."""
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.emulate_media(color_scheme=scheme)
    page.goto(f"{busy}/?wall=1", wait_until="domcontentloaded")
    expect(page.locator(".js-plotly-plot")).to_have_count(4)
    expect(page.get_by_test_id("stMetric")).to_have_count(8)
    expect(page.locator(".st-key-headway-headline")).to_be_visible()
    assert page.locator("button:visible").count() == 0
    assert page.get_by_role("link", name="Control").count() == 0
    wait_for_refresh(page)
    page.wait_for_function(
        "() => [...document.querySelectorAll('.js-plotly-plot')]"
        ".every(plot => plot.getBoundingClientRect().bottom <= window.innerHeight)"
    )
    assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")


def test_every_chart_and_control_has_a_name(overview: Page) -> None:
    """A chart is reached with the keyboard and says what it shows; each control of the bar says what it chooses."""
    page = overview
    figures = page.get_by_role("figure")
    expect(figures).to_have_count(4)
    names = [figures.nth(at).get_attribute("aria-label") or "" for at in range(4)]
    assert len(set(names)) == 4
    assert all("Newest values: " in name or " in this time." in name for name in names)
    for at in range(4):
        plot = figures.nth(at)
        assert plot.get_attribute("tabindex") == "0"
        plot.focus()
        assert plot.evaluate("plot => plot === document.activeElement && plot.classList.contains('headway-plot')")
    for label in ("Range", "Refresh", "Classes", "Compare"):
        expect(page.locator(".st-key-headway-bar").get_by_label(label, exact=True).first).to_be_attached()


def panels_of(title: str) -> int:
    """How many panels a page has for a stub that has no GPU; the one window of batches belongs to dynamic batching."""
    left_out = {panels.GPU_PANEL.id, GPU_BUSY_PANEL.id, engine_panels.WINDOW_PANEL.id, engine_panels.RESIDENT_PANEL.id}
    shown = [panel for panel in ALL_PANELS[title] if panel.id not in left_out]
    return len(shown) + (title == "Batching & memory")  # the memory of the processes, under a title of its own


def test_every_page_draws_all_its_charts_and_fits_a_phone(overview: Page) -> None:
    """Each chart is drawn, and nothing sticks out sideways on a narrow screen, nor on a wide one (in part at night)."""
    page = overview
    page.get_by_test_id("stButtonGroup").get_by_text("Paused", exact=True).click()  # dozens of charts are drawn once
    page.wait_for_url("**/*to=*")
    for name in PAGES:
        page.set_viewport_size(SCREEN)  # a phone has its menu folded
        page.get_by_role("link", name=name).click()
        expect(page.locator(PANEL)).to_have_count(panels_of(name))
        expect(page.get_by_role("link", name=name)).to_have_attribute("aria-current", "page")
        page.locator(PLOT).first.wait_for()
        for width in (2200, 390) if LONG or name == "Overview" else (390,):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_function(
                "() => document.documentElement.scrollWidth <= window.innerWidth"
                " && [...document.querySelectorAll('.js-plotly-plot')]"
                ".every(p => 100 < p.clientWidth && p.clientWidth < window.innerWidth)"
            )
    page.get_by_role("button", name="Back to live").click()
    page.wait_for_function("() => window.location.search === ''")


@long_form("the next test has the address, tests/dashboard/pages what each part of it shows")
def test_a_link_is_opened_as_it_was_sent(page: Page, busy: str) -> None:
    """A deep link with choices: no request is answered with 404, and the choices stay when the page changes."""
    missing: list[str] = []
    page.on("response", lambda answer: missing.append(answer.url) if answer.status == 404 else None)
    page.goto(f"{busy}/requests?range=15m&classes=batch&compare=before", wait_until="domcontentloaded")
    page.locator(PLOT).first.wait_for()
    page.get_by_role("link", name="Control").click()
    page.wait_for_url(f"{busy}/control?*")
    expect(page.get_by_text("Operator actions")).to_be_visible()
    chosen = page.evaluate("() => Object.fromEntries(new URLSearchParams(window.location.search))")
    assert chosen == {"range": "15m", "classes": "batch", "compare": "before"}
    assert missing == []


def test_a_choice_is_in_the_address_until_it_is_the_default_again(overview: Page) -> None:
    """A choice in the bar can be sent as a link, and the default makes it short again."""
    page = overview
    bar = page.locator(".st-key-headway-bar")
    bar.get_by_text("15m", exact=True).click()
    page.wait_for_url("**/*range=15m")
    bar.get_by_text("batch", exact=True).click()
    page.wait_for_url("**/*classes=batch*")
    assert address(page) == {"range": "15m", "classes": "batch"}
    bar.get_by_text("5m", exact=True).click()
    bar.get_by_text("batch", exact=True).click()
    page.wait_for_function("() => window.location.search === ''")


def test_a_tenant_is_a_click_away_and_so_is_the_file_of_all(overview: Page) -> None:
    """Anywhere on its row; the range stays in the address; on a phone only the table is wider than the screen."""
    page = overview
    page.locator(".st-key-headway-bar").get_by_text("15m", exact=True).click()
    page.wait_for_url("**/*range=15m")
    page.get_by_role("link", name="Tenants").click()
    page.set_viewport_size({"width": 390, "height": 844})
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="held", exact=True))
    row.get_by_role("cell").first.click()
    page.wait_for_url("**/tenants?*tenant=*")
    expect(page.get_by_role("heading", name="Tenant held")).to_be_visible()
    assert address(page) == {"range": "15m", "tenant": "held"}
    assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
    page.get_by_role("button", name="All tenants").click()
    expect(page.get_by_role("link", name="quiet")).to_be_visible()
    assert address(page) == {"range": "15m"}
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV of tenants").click()
    assert download.value.path().read_text().splitlines()[1].startswith("loud,900,90,60,")
    page.locator(".st-key-headway-bar").get_by_text("5m", exact=True).click()
    page.wait_for_function("() => window.location.search === ''")


CLASS_ROWS = ".headway-class-rows tbody tr"
#: Where they stand, all at one moment: a refresh between two looks may move what is below.
BOXES = "(selectors) => [...document.querySelectorAll(selectors)].map(one => one.getBoundingClientRect().toJSON())"


def test_a_row_of_the_classes_chooses_its_class(overview: Page) -> None:
    """A press shows that class alone on the whole page and in the address, another one all of them; by keyboard too."""
    page = overview
    row = page.locator(CLASS_ROWS, has_text="batch")
    row.locator("td").nth(2).click()
    page.wait_for_url("**/*classes=batch*")
    expect(row.get_by_role("button")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_test_id("stMetric").filter(has_text="Waiting")).to_contain_text("batch only")
    expect(page.locator(CLASS_ROWS)).to_have_count(3)
    other = page.locator(CLASS_ROWS, has_text="realtime")
    other.get_by_role("button").press("Enter")
    page.wait_for_url("**/*classes=realtime*")
    expect(row.get_by_role("button")).to_have_attribute("aria-pressed", "false")
    expect(other.get_by_role("button")).to_have_attribute("aria-pressed", "true")
    other.get_by_role("button").press("Enter")
    page.wait_for_function("() => window.location.search === ''")
    expect(page.get_by_test_id("stMetric").filter(has_text="Waiting")).not_to_contain_text("only")


@long_form("a matter of looks, and the phone test above finds what sticks out")
def test_on_a_phone_the_classes_are_cards_under_the_verdict(overview: Page) -> None:
    """Verdict, then a card for each class with every figure under its name, and nothing sticks out sideways."""
    page = overview
    page.set_viewport_size({"width": 390, "height": 844})
    cards = page.locator(CLASS_ROWS)
    expect(cards).to_have_count(3)
    verdict, *boxes = page.evaluate(BOXES, [".st-key-headway-headline", CLASS_ROWS])
    assert all(box["left"] >= 0 and box["right"] <= 390 for box in boxes)
    tops = [box["top"] for box in boxes]
    assert verdict["bottom"] <= tops[0] < tops[1] < tops[2]
    titles = cards.first.locator("td").evaluate_all(
        "cells => cells.map(cell => getComputedStyle(cell, '::before').content)"
    )
    assert '"TTFT p95"' in titles
    assert cards.first.evaluate("card => [...card.children].every(one => one.scrollWidth <= one.clientWidth)")
    cards.first.hover()  # a card is lit as a whole: its cells have gaps between them
    card, *cells = cards.first.evaluate(
        "card => [card, ...card.children].map(one => getComputedStyle(one).backgroundColor)"
    )
    assert card != NO_COLOUR
    assert set(cells) == {NO_COLOUR}


@long_form("a matter of looks, and the phone test finds what sticks out")
def test_the_buttons_of_the_presets_in_a_row_stand_in_one_line(overview: Page) -> None:
    """However many lines the cards have."""
    page = overview
    page.set_viewport_size({"width": 1440, "height": 900})
    page.get_by_role("link", name="Control").click()
    expect(page.locator("[class*='st-key-compare-']")).to_have_count(9)
    cards, buttons = (page.evaluate(BOXES, [f"[class*='st-key-{kind}-']"]) for kind in ("card", "compare"))
    rows = {card["top"] for card in cards}
    assert len(rows) == 3
    assert len({(card["top"], button["bottom"]) for card, button in zip(cards, buttons, strict=True)}) == len(rows)


def test_a_slow_refresh_does_not_dim_the_page(overview: Page) -> None:
    """Streamlit fades what a running refresh has not redrawn yet; the banner says how old the figures are."""
    opacity = overview.get_by_test_id("stElementContainer").first.evaluate(
        "one => { one.style.opacity = '0.33'; one.dataset.stale = 'true'; return getComputedStyle(one).opacity }"
    )
    assert opacity == "1"
