"""A real browser, and dashboards in processes of their own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from dashboard_process import dashboard_process
from playwright.sync_api import Browser, ConsoleMessage, Page, expect
from real_browser import HARMLESS, chromium_path, is_local
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


@pytest.fixture
def dashboard(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Start ``python -m headway_dashboard`` for a server, or several with commas between them; returns its address."""
    with ExitStack() as running:

        def start(server_url: str, token: str | None, **environment: str) -> str:
            tokens = {"HEADWAY_ADMIN_TOKEN": token} if token else {}
            log_path = tmp_path / "dashboard.log"
            return running.enter_context(dashboard_process(server_url, log_path, **tokens, **environment)).url

        yield start


def _told(message: ConsoleMessage) -> str:
    """An error of the console, with the address of what it is about."""
    return f"{message.text} ({message.location.get('url', '')})"


@pytest.fixture
def page(chromium: Browser, dashboard: Callable[..., str]) -> Iterator[Page]:
    """A page of its own; the test fails on any request beyond this machine and on console errors.

    It asks for ``dashboard`` only to be closed before the dashboard ends.
    """
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(60_000)
    opened = context.new_page()
    strangers: list[str] = []
    errors: list[str] = []
    opened.on("request", lambda request: strangers.append(request.url) if not is_local(request.url) else None)
    opened.on("websocket", lambda socket: strangers.append(socket.url) if not is_local(socket.url) else None)
    opened.on("console", lambda message: errors.append(_told(message)) if message.type == "error" else None)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    context.close()
    assert strangers == []
    assert [text for text in errors if not any(word in text for word in HARMLESS)] == []
