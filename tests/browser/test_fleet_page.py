"""The page Fleet in a real browser, in front of three stand-ins for servers, of which one goes away."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from engine_parts import long_form
from playwright.sync_api import Page, expect
from real_browser import PLOT
from stub_server import StubServer

from headway_dashboard.analysis.catalogue.fleet_panels import FLEET_SECTION
from headway_dashboard.analysis.server.instances import instance_name

pytestmark = pytest.mark.browser

ROWS = ".headway-rows tbody tr"
#: Whether the chart of ready servers has points over so many seconds.
KNOWN_FOR_S = """(least) => {
  const { times_ms, traces } = document.querySelector(".st-key-panel-fleet-ready .headway-plot").__headway.figure;
  const known = times_ms.filter((_, at) => traces.some((trace) => trace.y[at] !== null));
  return known.at(-1) - known[0] > 1000 * least;
}"""


@pytest.fixture
def three() -> Iterator[tuple[StubServer, StubServer, StubServer]]:
    """The second has more requests than seats, the others do little."""
    with StubServer(moving=True) as first, StubServer(moving=True, load=9.0) as full, StubServer(moving=True) as third:
        yield first, full, third


def addresses(*servers: StubServer) -> str:
    """What the dashboard is started with."""
    return ",".join(server.url for server in servers)


def row(page: Page, server: StubServer) -> str:
    """The text of a server's row."""
    return page.locator(ROWS, has_text=instance_name(server.url)).inner_text()


def names(page: Page) -> list[str]:
    """The servers in the order of their rows."""
    return page.locator(f"{ROWS} a").all_inner_texts()


def open_fleet(page: Page, url: str) -> None:
    """Open the page by its address, and wait until the table has its rows and a chart is there."""
    page.goto(f"{url}/fleet?range=15m", wait_until="domcontentloaded")
    expect(page.locator(ROWS)).to_have_count(3)
    page.locator(PLOT).first.wait_for()


@long_form("test_dashboard_page clicks a row of such a table, test_several_servers_page opens that address")
def test_a_click_on_a_row_opens_that_server(
    page: Page, dashboard: Callable[..., str], three: tuple[StubServer, StubServer, StubServer]
) -> None:
    """The Overview of that server alone, with the choices of the bar; the name is a link to the same address."""
    _, full, _ = three
    url = dashboard(addresses(*three), None)
    open_fleet(page, url)
    name = instance_name(full.url)
    link = page.locator(f"{ROWS} a", has_text=name)
    expect(link).to_have_attribute("href", f"./?range=15m&instance={name.replace(':', '%3A')}")
    page.locator(ROWS, has_text=name).get_by_role("cell").nth(3).click()
    page.wait_for_url(re.compile(rf"{url}/\?.*instance="))
    assert "range=15m" in page.url
    expect(page.get_by_role("link", name="Overview")).to_have_attribute("aria-current", "page")
    expect(page.locator(".st-key-headway-head")).to_contain_text(full.url)
    expect(page.get_by_text("3 servers:")).to_have_count(0)
    expect(page.get_by_test_id("stMetric").filter(has_text="Batch size")).to_contain_text("/ 32")

    page.goto(f"{url}/{page.url.rsplit('/', 1)[1]}", wait_until="domcontentloaded")  # the link, in another session
    expect(page.locator(".st-key-headway-head")).to_contain_text(full.url)
    expect(page.get_by_text("3 servers:")).to_have_count(0)


@long_form("test_dashboard_page clicks a row of such a table")
def test_a_column_sorts_the_rows_and_a_refresh_keeps_their_order(
    page: Page, dashboard: Callable[..., str], three: tuple[StubServer, StubServer, StubServer]
) -> None:
    """The largest first, then the least; one without a value is always the last. The order stays when pages change."""
    first, full, third = three
    open_fleet(page, dashboard(addresses(first, full, third), None))
    third.stop()
    expect(page.locator(ROWS, has_text=instance_name(third.url))).to_contain_text("Down")
    expect(page.locator(".headway-rows tfoot")).to_contain_text("2 of 3 answer")
    first.world.load, third_name = 0.2, instance_name(third.url)
    head = page.get_by_role("columnheader", name="Waiting")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    expect(page.locator(f"{ROWS} a").first).to_have_text(instance_name(full.url))
    assert names(page)[-1] == third_name
    before = row(page, full)
    page.wait_for_function(
        "([name, before]) => [...document.querySelectorAll('.headway-rows tbody tr')]"
        ".some(row => row.innerText.includes(name) && row.innerText !== before)",
        arg=[instance_name(full.url), before],
    )
    assert names(page) == [instance_name(one.url) for one in (full, first, third)]
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert names(page) == [instance_name(one.url) for one in (first, full, third)]
    page.get_by_role("columnheader", name="Server").get_by_role("button").focus()
    page.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-sort", "none")
    page.get_by_role("link", name="Overview").click()
    expect(page.locator(ROWS)).to_have_count(0)
    page.get_by_role("link", name="Fleet").click()
    expect(page.locator(".headway-rows thead th").first).to_have_attribute("aria-sort", "descending")


@long_form("tests/dashboard/pages/test_several_servers_page has the events, test_dashboard_page the widths")
def test_events_are_in_the_table_and_on_the_charts_and_nothing_sticks_out(
    page: Page, dashboard: Callable[..., str], three: tuple[StubServer, StubServer, StubServer]
) -> None:
    """A restart and a server that goes away; every chart is drawn, on a wide screen and on a narrow one."""
    first, full, third = three
    first.world.load = 5.0
    open_fleet(page, dashboard(addresses(*three), None))
    expect(page.locator("[class*='st-key-panel-']")).to_have_count(len(FLEET_SECTION))
    events = page.locator(".st-key-headway-fleet-events")
    expect(events).to_contain_text("There were none")
    page.wait_for_function(KNOWN_FOR_S, arg=20)  # half an hour has an instant each 8 s
    full.world.started_s += 60
    expect(events).to_contain_text("restarted")
    third.stop()
    expect(events).to_contain_text("gone")
    chart = page.locator(".st-key-panel-fleet-ready").get_by_role("figure")
    expect(chart).to_have_attribute("aria-label", re.compile(f"Server {instance_name(full.url)}: restarted"))
    expect(chart).to_have_attribute("aria-label", re.compile(f"Server {instance_name(third.url)}: gone"))
    for width in (2200, 390):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(
            "() => document.documentElement.scrollWidth <= window.innerWidth"
            " && [...document.querySelectorAll('.js-plotly-plot')].every(p => p.clientWidth < window.innerWidth)"
        )
