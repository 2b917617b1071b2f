"""The dashboard in a real browser: it shows a running server, switches its preset, and keeps the user's zoom."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import requests
from playwright.sync_api import Page, expect
from stub_server import OPERATOR_TOKEN, StubServer

pytestmark = pytest.mark.browser

PLOT = ".js-plotly-plot .main-svg"


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
    assert page.locator(".js-plotly-plot").count() == 6
    expect(page.get_by_text("Batch size against the limit")).to_be_visible()
    expect(page.get_by_text("balanced · revision")).to_be_visible()

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
    expect(page.get_by_text("latency · revision")).to_be_visible()


def test_switch_the_preset_of_a_running_server(
    page: Page, dashboard: Callable[..., str], server_url: str, admin_token: str
) -> None:
    """With the real server: what is pressed in the browser changes the limit of the engine's server."""
    watch_and_switch(page, dashboard(server_url, admin_token), server_url, admin_token)


def test_switch_the_preset_of_a_stub(page: Page, dashboard: Callable[..., str]) -> None:
    """The same without an engine, for machines that have none."""
    with StubServer(moving=True) as stub:
        watch_and_switch(page, dashboard(stub.url, OPERATOR_TOKEN), stub.url, OPERATOR_TOKEN)
        assert stub.world.audit[0].actor == "tester"


def test_zoom_survives_refreshes(page: Page, dashboard: Callable[..., str]) -> None:
    """After a drag the chart keeps its node and its range while data go on arriving; a double click ends the zoom."""
    with StubServer(moving=True) as stub:
        page.goto(dashboard(stub.url, OPERATOR_TOKEN), wait_until="domcontentloaded")
        page.locator(PLOT).first.wait_for()
        area = page.locator(".js-plotly-plot .nsewdrag").first
        area.scroll_into_view_if_needed()
        box = area.bounding_box()
        assert box is not None
        page.evaluate("() => { document.querySelector('.js-plotly-plot').__mine = true; }")
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + box["width"] * 0.6, middle)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.9, middle, steps=8)
        page.mouse.up()
        page.wait_for_function("() => document.querySelector('.js-plotly-plot').__headway.zoom !== null")
        chosen = page.evaluate("() => document.querySelector('.js-plotly-plot').__headway.zoom")
        for _ in range(3):
            wait_for_refresh(page)
        assert page.evaluate("() => document.querySelector('.js-plotly-plot').__mine") is True
        assert page.evaluate("() => document.querySelector('.js-plotly-plot').layout.xaxis.range") == chosen
        area.dblclick()
        page.wait_for_function("() => document.querySelector('.js-plotly-plot').__headway.zoom === null")
        wait_for_refresh(page)
        assert page.evaluate("() => document.querySelector('.js-plotly-plot').layout.xaxis.range") != chosen


def wait_for_refresh(page: Page) -> None:
    """Wait until the first chart has got newer points."""
    last = "() => document.querySelector('.js-plotly-plot').__headway.figure.times_ms.at(-1)"
    page.wait_for_function(f"(before) => ({last})() > before", arg=page.evaluate(last))


@pytest.mark.parametrize("name", ["Requests", "Batching & memory", "Server"])
def test_every_page_draws_all_its_charts_and_fits_a_phone(page: Page, dashboard: Callable[..., str], name: str) -> None:
    """Each chart is drawn, on a wide screen and on a narrow one, and nothing sticks out sideways."""
    charts = {"Requests": 4, "Batching & memory": 11, "Server": 4}
    with StubServer(moving=True) as stub:
        page.goto(dashboard(stub.url, OPERATOR_TOKEN), wait_until="domcontentloaded")
        page.get_by_role("link", name=name).click()
        expect(page.locator(".js-plotly-plot")).to_have_count(charts[name])
        page.locator(PLOT).first.wait_for()
        for width in (2200, 390):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_function(
                "() => document.documentElement.scrollWidth <= window.innerWidth"
                " && [...document.querySelectorAll('.js-plotly-plot')].every(p => p.clientWidth < window.innerWidth)"
            )


def test_a_restart_is_shown_while_it_lasts(page: Page, dashboard: Callable[..., str]) -> None:
    """The notice appears, names the attempt with a progress bar, and disappears; every chart keeps a mark of the
    restart."""
    with StubServer(moving=True) as stub:
        page.goto(dashboard(stub.url, OPERATOR_TOKEN), wait_until="domcontentloaded")
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        page.locator(PLOT).first.wait_for()
        wait_for_refresh(page)  # a mark needs a point of the charts at which the engine was still up
        world = stub.world
        world.state, world.restart_step, world.restart_attempts, world.ready = (
            "restarting",
            "starting another engine",
            2,
            False,
        )
        expect(page.get_by_text("Attempt 2 of 3: starting another engine")).to_be_visible()
        expect(page.get_by_test_id("stProgress")).to_be_visible()
        expect(page.get_by_text("engine restarts")).to_have_count(6)
        expect(page.locator(".st-key-headway-headline")).to_contain_text("The engine is being replaced")
        expect(page.get_by_text("down", exact=True)).to_be_visible()
        expect(page).to_have_title("down · Headway")
        world.state, world.ready = "up", True
        world.restart_step, world.restart_attempts = "", 0
        expect(page.get_by_text("Attempt 2 of 3")).to_have_count(0)
        expect(page).not_to_have_title(re.compile("^down"))
        expect(page.get_by_text("engine restarts")).to_have_count(6)


def test_order_a_rung_with_a_typed_word(page: Page, dashboard: Callable[..., str]) -> None:
    """Nothing happens without the word; with it the server obeys the order, and its response is shown."""
    with StubServer(moving=True) as stub:
        page.goto(dashboard(stub.url, OPERATOR_TOKEN), wait_until="domcontentloaded")
        page.get_by_role("link", name="Control").click()
        card = page.locator(".st-key-headway-order-ladder")
        card.get_by_text("shed", exact=True).click()
        card.get_by_role("button", name="Set to shed").click()
        expect(card.get_by_text("Nothing was changed")).to_be_visible()
        card.get_by_label('Type "shed" to confirm').fill("shed")
        card.get_by_role("button", name="Set to shed").click()
        expect(card.get_by_text("The ladder is at shed, as set here.")).to_be_visible()
        expect(page.get_by_text("fallback: shed")).to_be_visible()
        assert stub.world.rung.word == "shed"


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)], ids=["desktop", "phone"])
def test_nothing_overflows_sideways(page: Page, dashboard: Callable[..., str], width: int, height: int) -> None:
    """No page scrolls sideways, and the charts stay inside their cards."""
    page.set_viewport_size({"width": width, "height": height})
    with StubServer(moving=True) as stub:
        page.goto(dashboard(stub.url, OPERATOR_TOKEN), wait_until="domcontentloaded")
        page.locator(PLOT).first.wait_for()
        assert page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
        widths = page.evaluate("() => [...document.querySelectorAll('.js-plotly-plot')].map(p => p.clientWidth)")
        assert all(100 < one < width for one in widths)


def test_down_is_said_without_a_trace(page: Page, dashboard: Callable[..., str]) -> None:
    """When the server becomes unreachable, the page says so, and shows neither a traceback nor a zero."""
    with StubServer(moving=True) as stub:
        page.goto(dashboard(stub.url, None), wait_until="domcontentloaded")
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
    expect(page.get_by_text(re.compile("^Down since"))).to_be_visible()
    assert page.get_by_text("Traceback").count() == 0
    assert page.get_by_test_id("stException").count() == 0


def test_a_slow_refresh_does_not_dim_the_page(page: Page, dashboard: Callable[..., str]) -> None:
    """Streamlit fades what a running refresh has not redrawn yet; the banner says how old the figures are."""
    with StubServer(moving=True) as stub:
        page.goto(dashboard(stub.url, OPERATOR_TOKEN), wait_until="domcontentloaded")
        page.locator(PLOT).first.wait_for()
        opacity = page.get_by_test_id("stElementContainer").first.evaluate(
            "one => { one.style.opacity = '0.33'; one.dataset.stale = 'true'; return getComputedStyle(one).opacity }"
        )
        assert opacity == "1"
