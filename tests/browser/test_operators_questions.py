"""The questions of an operator at night, each answered within two clicks from the first screen."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Callable, Iterator

import live_stand_in
import pytest
from dashboard_process import dashboard_process
from live_stand_in import LiveStandIn
from playwright.sync_api import Page, expect
from predicted import forecast
from small_presets import balanced_without_fallback
from stub_server import OPERATOR_TOKEN, StubServer
from usage_records import opened, usage_record

from headway.api import AdminClient
from headway.api.schema import ForecastErrors
from headway.logs.last_warnings import LastWarnings, keep_last_warnings
from headway.operator.status.launch import launch_status

pytestmark = pytest.mark.browser

MOST_CLICKS = 2
BAND, CHANGES = ".st-key-headway-headline", ".st-key-headway-changes"
#: Sixteen seats of two seconds and forty places in the queue, for seventy clients.
NARROW = """
[batching]
seats = 16
[limit]
policy = "fixed"
memory_aware = false
[classes.normal]
ttft_slo_s = 1
inter_token_slo_ms = 400
max_waiting = 40
"""
SERVER, TENANTS = ("link", "Server & diagnostics"), ("link", "Tenants")
CONFIGURATION = ".st-key-headway-configuration"
Clicks = tuple[tuple[str, str], ...]

#: By the clicks from the first screen: each question, where its answer stands, and its words.
ANSWERS: dict[Clicks, dict[str, tuple[str, str]]] = {
    (): {
        "which class": (BAND, r"of [\d,]+ requests of class normal .* are refused"),
        "engine or queue or host": (BAND, r"Why: .*seats"),
        "since when": (BAND, r"since \d\d:\d\d"),
        "who changed what, and why": (CHANGES, r"narrow → latency.*ann.*a try"),
        "error budget left": (".headway-class-rows tbody tr:nth-child(2) [data-title='Budget left']", r"\d\s%"),
    },
    (("button", "Copy incident"),): {
        "what to tell others": (
            "[data-testid='stPopoverBody'] code",
            r"\d UTC, overloaded, since.*State: .*class normal.*Why: .*Class normal: .*Change .*ann.*Link: http:",
        )
    },
    (TENANTS,): {"which tenant": (".st-key-headway-tenants-held-back", r"held had 14 of 20 requests")},
    (TENANTS, ("link", "held")): {"what of that tenant": (".st-key-headway-tenant-parts", r"queue full")},
    (SERVER,): {
        "the log's last warnings": (".st-key-headway-warnings", r"warning\s*the disk is nearly full"),
        "health of each source": (".st-key-headway-sources", r"direct scrape\s*answers.*admin API\s*answers"),
    },
    (SERVER, ("text", "Configuration")): {
        "launch arguments": (f"{CONFIGURATION} code", r"headway serve a-model --port 8000$"),
        "effective configuration": (CONFIGURATION, r"classes\.normal\.max_waiting\s*40"),
    },
}


@pytest.fixture(scope="module")
def started() -> Iterator[None]:
    """This process was started as a server is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["/usr/bin/headway", "serve", "a-model", "--port", "8000"])
        launch_status.cache_clear()
        yield
    launch_status.cache_clear()


@pytest.fixture(scope="module")
def troubled(started: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The dashboard of a server that refuses most of its requests, and of which there is something to tell."""
    folder, preset = tmp_path_factory.mktemp("troubled"), balanced_without_fallback(NARROW)
    preset = preset.model_copy(update={"name": "narrow"})
    keep_last_warnings()
    with opened(folder / "usage.db") as usage, LiveStandIn(preset, clients=70, usage=usage) as live:
        live.engine.base_s = 0.1
        logging.getLogger("headway.tried").warning("the disk is nearly full")
        for tenant, number, refused in (("loud", 900, ""), ("held", 6, ""), ("held", 14, "queue_full")):
            group = {"reason": refused, "outcome": "rejected_full" if refused else "completed"}
            for _ in range(number):
                usage.add(usage_record(tenant, time.time(), **group, output_tokens=0 if refused else 1000))
        client = AdminClient(live.url, live_stand_in.TOKEN)
        client.switch("latency", revision=1, reason="a try", actor="ann")
        client.undo(revision=2, reason="no better", actor="ann")
        log = folder / "dashboard.log"
        with dashboard_process(live.url, log, HEADWAY_ADMIN_TOKEN=live_stand_in.TOKEN) as running:
            yield running.url
    ours = logging.getLogger("headway")
    for handler in [one for one in ours.handlers if isinstance(one, LastWarnings)]:
        ours.removeHandler(handler)


def click(page: Page, role: str, name: str) -> None:
    """Click what is named so."""
    found = page.get_by_role(role, name=re.compile(f"^{re.escape(name)}"))  # type: ignore[arg-type]  # two of its roles
    (page.get_by_text(name, exact=True) if role == "text" else found.first).click()


def test_each_question_is_answered_within_two_clicks(page: Page, troubled: str) -> None:
    """In words that are seen, where the clicks lead; in one session, from the first screen on and from it again."""
    page.goto(troubled, wait_until="domcontentloaded")
    before: Clicks = ()
    for clicks, answers in ANSWERS.items():
        assert len(clicks) <= MOST_CLICKS
        if not clicks or clicks[:-1] != before:
            page.get_by_role("link", name="Overview").click()
            expect(page.locator(BAND)).to_be_visible()
            before = ()
        for role, name in clicks[len(before) :]:
            click(page, role, name)
        for place, words in answers.values():
            found = page.locator(place).first
            expect(found).to_be_visible()
            expect(found).to_contain_text(re.compile(words, re.DOTALL))
        before = clicks


def test_whether_another_preset_would_help_is_one_click_away(page: Page, dashboard: Callable[..., str]) -> None:
    """With how far forecasts have been from what came."""
    with StubServer(moving=True) as stub:
        stub.forced["GET", "/headway/v1/traffic"] = (200, {"span_s": 600.0, "requests": 300, "rate_per_s": 0.5})
        made = forecast("balanced", "latency").model_dump(mode="json")
        stub.forced["POST", "/headway/v1/presets/forecast"] = (200, made)
        errors = ForecastErrors(comparisons=3, error_ratio={"tokens_per_s": 0.03})
        told = stub.world.status().model_copy(update={"forecast": errors}).model_dump(mode="json")
        stub.forced["GET", "/headway/v1/status"] = (200, told)
        page.goto(dashboard(stub.url, OPERATOR_TOKEN), wait_until="domcontentloaded")
        click(page, "link", "Control")
        card = page.locator(".st-key-card-latency")
        expect(card).to_contain_text(re.compile("Forecast: normal: TTFT p95 .* refused"))
        expect(page.get_by_text(re.compile("After the last 3 switches forecasts were off by"))).to_be_visible()
