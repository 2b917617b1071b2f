"""The questions of an operator at night, each answered within two clicks from the first screen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import live_stand_in
import pytest
from dashboard_process import dashboard_process
from operators_questions import ANSWERS, BAND, Clicks, troubled_server
from playwright.sync_api import Page, expect
from predicted import forecast
from stub_server import OPERATOR_TOKEN, StubServer
from tiers import long_form

from headway.api.schema import ForecastErrors

pytestmark = pytest.mark.browser

MOST_CLICKS = 2


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The dashboard of a server in trouble."""
    folder = tmp_path_factory.mktemp("troubled")
    with (
        troubled_server(folder) as live,
        dashboard_process(live.url, folder / "dashboard.log", HEADWAY_ADMIN_TOKEN=live_stand_in.TOKEN) as running,
    ):
        yield running.url


def click(page: Page, role: str, name: str) -> None:
    """Click what is named so."""
    found = page.get_by_role(role, name=re.compile(f"^{re.escape(name)}"))  # type: ignore[arg-type]  # two of its roles
    (page.get_by_text(name, exact=True) if role == "text" else found.first).click()


@long_form("tests/dashboard/pages/test_operators_questions has each answer on the page that is so many clicks away")
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


@long_form("tests/dashboard/pages/test_control_forecasts has both sentences, test_real_server a forecast in a browser")
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
