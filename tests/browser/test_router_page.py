"""The page Fleet of a router in a real browser: `headway route` in front of two stand-ins, of which one goes away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests
from playwright.sync_api import Page, expect
from running_router import RunningRouter, StandIn
from running_server import wait_until
from tiers import long_form

pytestmark = pytest.mark.browser


@pytest.fixture
def routed(tmp_path: Path) -> Iterator[tuple[RunningRouter, StandIn, StandIn]]:
    """A router, which has answered some requests, and its instances."""
    with StandIn() as first, StandIn() as second:
        router = RunningRouter.before(tmp_path / "router.log", [first.url, second.url], "--seats", "4")
        with router:
            for at in range(6):
                wait_until(lambda at=at: asked(router, f"prompt-{at}"), "the router serves")  # type: ignore[misc]  # a bound name
            yield router, first, second


def asked(router: RunningRouter, prompt: str) -> bool:
    """Whether a request is served: on a busy machine both instances may have missed a heartbeat."""
    content = {"model": "tiny", "prompt": prompt, "max_tokens": 4}
    return requests.post(f"{router.url}/v1/completions", json=content, timeout=60).ok


@long_form("tests/dashboard/pages has the table, test_real_server pages that follow a server")
def test_the_instances_of_a_router_are_a_table_that_follows_them(
    page: Page, dashboard: Callable[..., str], routed: tuple[RunningRouter, StandIn, StandIn]
) -> None:
    """The page is in the menu of one watched server if that is a router; an instance that dies is away."""
    router, first, second = routed
    page.goto(dashboard(router.url, router.token), wait_until="domcontentloaded")
    page.get_by_role("link", name="Fleet").click()
    table = page.locator(".st-key-headway-routed")
    for one in (first, second):
        row = table.get_by_role("row").filter(has_text=one.name)
        expect(row).to_contain_text("healthy")
        expect(row).to_contain_text("0 / 4")
    first.end()
    expect(table.get_by_role("row").filter(has_text=first.name)).to_contain_text("away")
    expect(table.get_by_role("row").filter(has_text=second.name)).to_contain_text("healthy")
