"""A server that restarts, takes a command, or goes away, as the dashboard in a real browser shows it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from engine_parts import long_form
from playwright.sync_api import Page, expect
from real_browser import BANNER, PLOT, wait_for_refresh
from stub_server import OPERATOR_TOKEN, StubServer

pytestmark = pytest.mark.browser

#: A load at which requests wait, so that every chart of the Overview has something to show.
BUSY = 3.0


@long_form("test_pages has the notice, the headline and the tab, analysis/charts the marks")
def test_a_restart_is_shown_while_it_lasts(page: Page, dashboard: Callable[..., str]) -> None:
    """The notice appears, names the attempt with a progress bar, and disappears; every chart keeps a mark of the
    restart."""
    with StubServer(moving=True) as stub:
        stub.world.load = BUSY
        page.goto(dashboard(stub.url, OPERATOR_TOKEN), wait_until="domcontentloaded")
        expect(page.locator(BANNER).get_by_text("Live", exact=True).first).to_be_visible()
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
        expect(page.locator(".js-plotly-plot").get_by_text("engine restarting")).to_have_count(4)
        expect(page.locator(".st-key-headway-headline")).to_contain_text("The engine is being replaced")
        for place in (BANNER, ".st-key-headway-headline"):  # above all pages, and in the headline
            expect(page.locator(place).get_by_text("down", exact=True).first).to_be_visible()
        expect(page).to_have_title("down · Headway")
        world.state, world.ready = "up", True
        world.restart_step, world.restart_attempts = "", 0
        expect(page.get_by_text("Attempt 2 of 3")).to_have_count(0)
        expect(page).not_to_have_title(re.compile("^down"))
        expect(page.locator(".js-plotly-plot").get_by_text("engine restarting")).to_have_count(4)


@long_form("test_pages has the order with its word, test_control_page one without; test_real_server presses buttons")
def test_order_a_rung_with_a_typed_word(page: Page, dashboard: Callable[..., str]) -> None:
    """Nothing happens without the word; with it the server obeys the order, and its response is shown."""
    with StubServer(moving=True) as stub:
        page.goto(dashboard(stub.url, OPERATOR_TOKEN), wait_until="domcontentloaded")
        page.get_by_role("link", name="Control").click()
        card = page.locator(".st-key-headway-command-ladder")
        card.get_by_test_id("stButtonGroup").get_by_text("shed", exact=True).click()
        card.get_by_role("button", name="Set to shed").click()
        expect(card.get_by_text("Nothing was changed")).to_be_visible()
        card.get_by_label('Type "shed" to confirm').fill("shed")
        card.get_by_role("button", name="Set to shed").click()
        expect(card.get_by_text("The ladder is at shed, as set here.")).to_be_visible()
        # While a refresh is drawn the badge may stand there twice.
        expect(page.locator(BANNER).get_by_text("fallback: shed", exact=True).first).to_be_visible()
        assert stub.world.rung.word == "shed"


@long_form("test_pages and test_every_page have a server that goes away, on every page")
def test_down_is_said_without_a_trace(page: Page, dashboard: Callable[..., str]) -> None:
    """When the server becomes unreachable, the page says so, and shows neither a traceback nor a zero."""
    with StubServer(moving=True) as stub:
        page.goto(dashboard(stub.url, None), wait_until="domcontentloaded")
        expect(page.locator(BANNER).get_by_text("Live", exact=True).first).to_be_visible()
    expect(page.get_by_text(re.compile("^Down for"))).to_be_visible()
    assert page.get_by_text("Traceback").count() == 0
    assert page.get_by_test_id("stException").count() == 0
