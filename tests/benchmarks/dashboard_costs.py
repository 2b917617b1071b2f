"""``make bench-dashboard``: what the dashboard costs, and how soon it is of use, in a real browser.

--only tabs load hang soak   some goals only
--only soak-long             the soak over 30 minutes, in place of 3 that are scaled
--strict                     exit code 1 on a miss
--write                      put the table into deploy/site/docs/measured/index.md

A server with the tiny model on the processor under a light load, a dashboard process of its own with its defaults, and
Debian's Chromium. About eight minutes. Processor time is that of the dashboard's process alone.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from accepted import NONE
from command import Goals, run
from dashboard_process import DashboardProcess, dashboard_process
from goal import Goal
from kept_load import Clients, kept_load
from playwright.sync_api import Browser, Page
from real_browser import chromium
from running_server import RunningServer
from silent_server import silent_server
from soak import slope

from headway_dashboard.settings import DEFAULT_REFRESH_S

PAGE = Path(__file__).resolve().parents[2] / "deploy/site/docs/measured/index.md"
LOAD = [Clients(2, "normal", 60), Clients(1, "realtime", 30)]
SETTLE_S, COUNT_S, SAMPLE_S = 15.0, 60.0, 5.0
SOAK_S, WHOLE_SOAK_S = 180.0, 1800.0
MB = 1e6
PLOTLY = "/assets/plotly.min.js"
_TILES = (
    "() => [...document.querySelectorAll('[data-testid=stMetricValue]')].filter(one => one.innerText.trim()).length"
)


@dataclass(frozen=True, slots=True)
class Bench:
    """What every goal is measured on."""

    server_url: str
    folder: Path
    browser: Browser

    @contextmanager
    def dashboard(self, prometheus_url: str = "") -> Iterator[DashboardProcess]:
        """A dashboard with its defaults, without a token."""
        log_path = self.folder / "dashboard.log"
        with dashboard_process(
            self.server_url, log_path, refresh_s=DEFAULT_REFRESH_S, prometheus_url=prometheus_url
        ) as running:
            yield running

    def tab(self, url: str) -> Page:
        """A visitor of its own, once there is a chart."""
        page = self.browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        page.goto(url, wait_until="domcontentloaded")
        page.locator(".js-plotly-plot .main-svg").first.wait_for(timeout=60_000)
        return page


@contextmanager
def bench() -> Iterator[Bench]:
    """The server under its load, and the browser."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        alone = {"VLLM_PLUGINS": "headway"}  # without the plugin of the tests, which changes how an engine waits
        server = stack.enter_context(RunningServer.headway(folder / "server.log", **alone))
        stack.enter_context(kept_load(server.url, LOAD))
        yield Bench(server.url, folder, stack.enter_context(chromium()))


# ---------------------------------------------------------------------- processor


def tabs() -> Iterator[Goal]:
    """Processor time of the dashboard with 0, 1 and 3 tabs, a minute each"""
    with bench() as on, on.dashboard() as running:
        shares = {0: _busy_ratio(running.pid)}
        for number in (1, 3):
            while sum(len(context.pages) for context in on.browser.contexts) < number:
                on.tab(running.url)
            shares[number] = _busy_ratio(running.pid)
    note = f"{shares[0]:.1%} without a tab"
    yield Goal("dashboard", "processor with one tab, of a core", 5, 100 * shares[1], most=True, unit="%", note=note)
    more = (shares[3] - shares[1]) / 2
    yield Goal("dashboard", "processor for each further tab", 2, 100 * more, most=True, unit="%",
               note=f"{shares[3]:.1%} with three")  # fmt: skip


def _busy_ratio(pid: int) -> float:
    """The share of a core over the counted time, once the pages have settled."""
    process = psutil.Process(pid)
    time.sleep(SETTLE_S)
    began_s, before_s = time.monotonic(), _processor_s(process)
    time.sleep(COUNT_S)
    return (_processor_s(process) - before_s) / (time.monotonic() - began_s)


def _processor_s(process: psutil.Process) -> float:
    spent = process.cpu_times()
    return float(spent.user + spent.system)


# ---------------------------------------------------------------------- the first load


@dataclass
class Traffic:
    """The bytes of a page's answers as they came over the network, by address; what the socket brought stands apart.

    Without slots: Playwright writes on the object of a handler.
    """

    urls: dict[str, str] = field(default_factory=dict)
    bytes_by_url: dict[str, int] = field(default_factory=dict)
    socket_bytes: int = 0

    def attach(self, page: Page) -> None:
        """Count from now on."""
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        session.on("Network.requestWillBeSent", self.asked)
        session.on("Network.loadingFinished", self.came)
        session.on("Network.webSocketFrameReceived", self.framed)

    def asked(self, event: Mapping[str, Any]) -> None:
        """A request, with its address."""
        self.urls[event["requestId"]] = event["request"]["url"]

    def came(self, event: Mapping[str, Any]) -> None:
        """A whole answer, headers included."""
        url = self.urls.get(event["requestId"], "")
        self.bytes_by_url[url] = self.bytes_by_url.get(url, 0) + round(event["encodedDataLength"])

    def framed(self, event: Mapping[str, Any]) -> None:
        """A message of the socket; a binary one comes in base 64."""
        frame = event["response"]
        self.socket_bytes += len(frame["payloadData"]) * (3 if frame["opcode"] == 2 else 4) // 4

    def without_plotly(self) -> int:
        """All bytes but those of plotly.js, which a browser keeps for a year."""
        return self.socket_bytes + sum(size for url, size in self.bytes_by_url.items() if PLOTLY not in url)

    def largest(self, number: int) -> str:
        """The largest answers, for a note."""
        found = sorted(self.bytes_by_url.items(), key=lambda one: -one[1])[:number]
        return ", ".join(f"{url.rsplit('/', 1)[-1].partition('?')[0]} {size / MB:.2f} MB" for url, size in found)


def load() -> Iterator[Goal]:
    """Bytes of the first visit, by the browser's own count"""
    with bench() as on, on.dashboard() as running:
        page, traffic = on.browser.new_context().new_page(), Traffic()
        traffic.attach(page)
        page.goto(running.url, wait_until="domcontentloaded")
        page.wait_for_function("() => document.querySelectorAll('.js-plotly-plot .main-svg').length >= 3")
        page.wait_for_timeout(1000 * DEFAULT_REFRESH_S)
    note = f"{len(traffic.bytes_by_url)} answers; {traffic.largest(3)}; socket {traffic.socket_bytes / MB:.2f} MB"
    yield Goal(
        "dashboard", "first load but for plotly", 2, traffic.without_plotly() / MB, most=True, unit="MB", note=note
    )


# ---------------------------------------------------------------------- Prometheus hangs


def hang() -> Iterator[Goal]:
    """Time until all tiles have a value, while Prometheus accepts connections and never answers"""
    with bench() as on:
        with silent_server() as hole, on.dashboard(hole) as running:
            time.sleep(SETTLE_S)
            first_s, later_s = _usable_s(on, running.url), [_usable_s(on, running.url) for _ in range(3)]
        with on.dashboard() as running:
            time.sleep(SETTLE_S)
            without_s = min(_usable_s(on, running.url) for _ in range(4))
    note = f"first visit of the process {first_s:.1f} s; without Prometheus {without_s:.1f} s"
    yield Goal("dashboard", "usable while Prometheus hangs", 2, min(later_s), most=True, unit="s", note=note)
    yield Goal("dashboard", "the same : without Prometheus", 1.2, min(later_s) / without_s, most=True)


def _usable_s(on: Bench, url: str) -> float:
    """From the request of the page to eight tiles with a value, in a fresh browser context."""
    context = on.browser.new_context()
    page = context.new_page()
    began_s = time.monotonic()
    page.goto(url, wait_until="commit")
    page.wait_for_function(f"() => ({_TILES})() >= 8", timeout=60_000)
    took_s = time.monotonic() - began_s
    context.close()
    return took_s


# ---------------------------------------------------------------------- soak


def soak() -> Iterator[Goal]:
    """Growth of the dashboard's memory with a tab over 3 minutes, scaled to 30"""
    yield from _soak(SOAK_S, "growth in 30 minutes, scaled from 3")


def soak_long() -> Iterator[Goal]:
    """Growth of the dashboard's memory with a tab over 30 minutes"""
    yield from _soak(WHOLE_SOAK_S, "growth in 30 minutes")


def _soak(length_s: float, figure: str) -> Iterator[Goal]:
    with bench() as on, on.dashboard() as running:
        on.tab(running.url)
        time.sleep(4 * SETTLE_S)
        points = _resident(running.pid, length_s)
    note = f"{points[0][1] / MB:.0f} to {points[-1][1] / MB:.0f} MB"
    yield Goal("dashboard", figure, 10, growth_mb(points), most=True, unit="MB", note=note)


def _resident(pid: int, length_s: float) -> list[tuple[float, float]]:
    process, began_s, points = psutil.Process(pid), time.monotonic(), []
    while (age_s := time.monotonic() - began_s) < length_s:
        points.append((age_s, float(process.memory_info().rss)))
        time.sleep(SAMPLE_S)
    return points


def growth_mb(points: Sequence[tuple[float, float]]) -> float:
    """What resident memory grows by in 30 minutes, by a line through the samples."""
    return slope(list(points))[0] * WHOLE_SOAK_S / MB


GOALS: Goals = {"tabs": tabs, "load": load, "hang": hang, "soak": soak, "soak-long": soak_long}

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], GOALS, NONE, PAGE, help_text=__doc__ or "", marks="costs", on_request=("soak-long",)))
