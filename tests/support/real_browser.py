"""Debian's Chromium, headless, and what a page of ours may do in it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, ViewportSize, sync_playwright

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
#: Vega measures a sparkline before it has a size; it is not an error of the dashboard.
HARMLESS = ("Infinite extent",)
PLOT = ".js-plotly-plot .main-svg"
#: The line of badges above every page. A badge with a help text may stand there a second time, out of sight.
BANNER = ".st-key-headway-banner"
SCREEN: ViewportSize = {"width": 1280, "height": 900}


def chromium_path() -> str | None:
    """Where Chromium is installed; None where it is not."""
    return shutil.which("chromium")


@contextmanager
def chromium() -> Iterator[Browser]:
    """One headless Chromium until the block ends."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_path(), headless=True, args=FLAGS)
        yield browser
        browser.close()


def is_local(url: str) -> bool:
    """Whether a request stays on this machine."""
    return url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:"))


@contextmanager
def checked_page(context: BrowserContext) -> Iterator[Page]:
    """A new page; it is an error if it asks for anything beyond this machine, or writes one to the console."""
    opened = context.new_page()
    strangers: list[str] = []
    errors: list[str] = []
    opened.on("request", lambda request: strangers.append(request.url) if not is_local(request.url) else None)
    opened.on("websocket", lambda socket: strangers.append(socket.url) if not is_local(socket.url) else None)
    opened.on("console", lambda message: errors.append(_told(message)) if message.type == "error" else None)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    opened.close()
    assert strangers == []
    assert [text for text in errors if not any(word in text for word in HARMLESS)] == []


def _told(message: ConsoleMessage) -> str:
    """An error of the console, with the address of what it is about."""
    return f"{message.text} ({message.location.get('url', '')})"


def wait_for_refresh(page: Page) -> None:
    """Wait until the first chart has got newer points; until there is one, where a page is being drawn."""
    last = "() => document.querySelector('.js-plotly-plot')?.__headway?.figure.times_ms.at(-1) ?? 0"
    page.wait_for_function(f"(before) => ({last})() > before", arg=page.evaluate(last))


def drag(page: Page, upto: float = 0.9) -> Locator:
    """Drag over a part of the first chart, from 0.6 of its width on; returns what of it takes the pointer."""
    area = page.locator(".js-plotly-plot .nsewdrag").first
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.6, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * upto, middle, steps=8)
    page.mouse.up()
    page.wait_for_function("() => document.querySelector('.js-plotly-plot').__headway.zoom !== null")
    return area
