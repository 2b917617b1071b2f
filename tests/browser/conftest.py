"""A real browser, and dashboards in processes of their own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests
from playwright.sync_api import Browser, Page, expect, sync_playwright
from running_server import ending_with_us

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
#: Vega measures a sparkline before it has a size; it is not an error of the dashboard.
HARMLESS = ("Infinite extent",)
START_S = 60.0

expect.set_options(timeout=60_000)  # milliseconds; Playwright's own 5 s are too few where other tests run beside these


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One headless Chromium for a module; skipped where there is none, a failure in CI.

    Not for the session: Playwright's loop runs as long as it is open, and asyncio allows no second one in a thread.
    """
    binary = shutil.which("chromium")
    if binary is None and os.environ.get("CI"):
        pytest.fail("chromium is not installed")
    if binary is None:
        pytest.skip("chromium is not installed (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, headless=True, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def dashboard(tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Start ``python -m headway_dashboard`` for a server; returns the dashboard's address."""
    started: list[subprocess.Popen[bytes]] = []

    def start(server_url: str, token: str | None) -> str:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADWAY_")}
        if token:
            environment["HEADWAY_ADMIN_TOKEN"] = token
        command = [sys.executable, "-m", "headway_dashboard", "--url", server_url, "--port", str(port)]
        with (tmp_path / "dashboard.log").open("wb") as log:
            process = subprocess.Popen(
                ending_with_us([*command, "--refresh-s", "1"]), env=environment, stdout=log, stderr=subprocess.STDOUT
            )
        started.append(process)
        url = f"http://127.0.0.1:{port}"
        ends_s = time.monotonic() + START_S
        while not _healthy(url):
            text = (tmp_path / "dashboard.log").read_text(errors="replace")
            assert process.poll() is None, f"the dashboard ended:\n{text}"
            assert time.monotonic() < ends_s, f"the dashboard did not start:\n{text}"
            time.sleep(0.1)
        return url

    yield start
    for process in started:
        process.terminate()
        process.wait(30)


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
    opened.on("request", lambda request: strangers.append(request.url) if not _is_local(request.url) else None)
    opened.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    context.close()
    assert strangers == []
    assert [text for text in errors if not any(word in text for word in HARMLESS)] == []


def _is_local(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:"))


def _healthy(url: str) -> bool:
    try:
        return requests.get(f"{url}/healthz", timeout=1).ok
    except requests.RequestException:
        return False
