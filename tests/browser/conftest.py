"""A real browser, and dashboards in processes of their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from dashboard_process import dashboard_process
from playwright.sync_api import Browser, BrowserContext, Page, expect
from real_browser import SCREEN, checked_page, chromium_path
from real_browser import chromium as running_chromium

expect.set_options(timeout=60_000)  # milliseconds; Playwright's own 5 s are too few where other tests run beside these


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One headless Chromium for a module; skipped where there is none, a failure in CI.

    Not for the session: Playwright's loop runs as long as it is open, and asyncio allows no second one in a thread.
    """
    if chromium_path() is None and os.environ.get("CI"):
        pytest.fail("chromium is not installed")
    if chromium_path() is None:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
    with running_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def context(chromium: Browser) -> Iterator[BrowserContext]:
    """What the pages of a module share: the cache of the scripts, which take longer to load than a page to draw."""
    made = chromium.new_context(viewport=SCREEN)
    made.set_default_timeout(60_000)
    yield made
    made.close()


@pytest.fixture
def dashboard(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Start ``python -m headway_dashboard`` for a server, or several with commas between them; returns its address."""
    with ExitStack() as running:

        def start(server_url: str, token: str | None, **environment: str) -> str:
            tokens = {"HEADWAY_ADMIN_TOKEN": token} if token else {}
            log_path = tmp_path / "dashboard.log"
            return running.enter_context(dashboard_process(server_url, log_path, **tokens, **environment)).url

        yield start


@pytest.fixture
def page(context: BrowserContext, dashboard: Callable[..., str]) -> Iterator[Page]:
    """A page of its own. It asks for ``dashboard`` only to be closed before the dashboard ends."""
    with checked_page(context) as opened:
        yield opened
