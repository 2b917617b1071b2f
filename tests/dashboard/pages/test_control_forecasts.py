"""Forecasts on the page Control: asked for by a visit, running, failed, or without traffic."""

from __future__ import annotations

from collections.abc import Callable

import live_stand_in
import pytest
import requests
from app_pages import again_until, plain, refresh_until, words
from live_stand_in import LiveStandIn
from predicted import forecast
from streamlit.testing.v1 import AppTest
from stub_server import OPERATOR_TOKEN, StubServer

from headway.api.schema import Forecast, ForecastCheck, ForecastErrors
from headway_dashboard.sources.preset_forecast import NO_TRAFFIC, ForecastState

pytestmark = pytest.mark.slow

Open = Callable[..., AppTest]
TRAFFIC = {"span_s": 600.0, "requests": 300, "rate_per_s": 0.5}


class PlayedJob:
    """A job whose state a test sets."""

    def __init__(self, state: ForecastState) -> None:
        self.now, self.started = state, 0

    def state(self) -> ForecastState:
        """As set."""
        return self.now

    def age_s(self) -> float:
        """Half a minute."""
        return 30.0

    def start(self) -> None:
        """Count it."""
        self.started += 1

    start_first = start


def played(monkeypatch: pytest.MonkeyPatch, state: ForecastState) -> PlayedJob:
    """Put a job in this state in the place of the shared one."""
    job = PlayedJob(state)
    monkeypatch.setattr("headway_dashboard.pages.control.forecast_view.job_for", lambda *_: job)
    return job


def predicted() -> Forecast:
    """Two presets."""
    return forecast("balanced", "latency")


def test_a_visit_asks_for_a_forecast_and_the_cards_show_it(control: Open, stub: StubServer) -> None:
    """By itself, where the role allows it and traffic is recorded; presets against classes first, then by class."""
    stub.forced["GET", "/headway/v1/traffic"] = (200, TRAFFIC)
    stub.forced["POST", "/headway/v1/presets/forecast"] = (200, predicted().model_dump(mode="json"))
    app = control(stub.url)
    text = again_until(app, "Forecast: normal: TTFT p95 800 ms (600 ms to 1.1 s), 240 tokens/s, 2 % refused")
    assert "No earlier forecast has been compared" in text
    matrix, by_class = app.table[0].value, app.table[1].value
    assert list(matrix.columns) == ["Preset", "realtime", "normal", "Tokens/s"]
    assert [*map(plain, matrix["Preset"])] == ["balanced", "latency"]
    assert list(by_class["Class"])[:3] == ["realtime", "normal", "all"]


def test_a_forecast_that_is_not_what_is_measured_is_not_shown_as_true(
    control: Open, stub: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence, each figure of another preset marked; both go once the forecast agrees again."""
    played(monkeypatch, ForecastState(forecast=predicted()))
    app = control(stub.url)
    again_until(app, "Forecast: normal")
    check = ForecastCheck(preset="balanced", measured_s=60.0, sentence="The forecast of balanced differs.")
    told(stub, ForecastErrors(comparisons=1, error_ratio={"tokens_per_s": 0.03}, in_force=check))
    text = again_until(app, "The forecast of balanced differs.", "Forecast, not confirmed: normal")
    assert "Forecast, not what is measured: normal" in text
    assert "Forecast: normal" not in text
    for drawn in app.table[:2]:
        assert {"balanced", "latency (not confirmed)"} == {*map(plain, drawn.value["Preset"])}
    assert "After the last switch forecasts were off by (median): tokens/s 3 %." in text
    told(stub, ForecastErrors())
    refresh_until(app, lambda: "differs" not in words(app) and "Forecast: normal" in words(app))


def told(stub: StubServer, errors: ForecastErrors) -> None:
    """Let the status of a server say this of its forecasts."""
    route = "/headway/v1/status"
    stub.forced.pop(("GET", route), None)
    answer = requests.get(f"{stub.url}{route}", headers={"Authorization": f"Bearer {OPERATOR_TOKEN}"}, timeout=10)
    stub.forced["GET", route] = (200, answer.json() | {"forecast": errors.model_dump(mode="json")})


def test_a_forecast_that_runs_shows_how_far_it_is(
    control: Open, stub: StubServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And is not asked for twice."""
    job = played(monkeypatch, ForecastState(running=True, done_ratio=0.4))
    app = control(stub.url)
    words(app)
    assert app.get("progress")
    assert app.button(key="forecast_go").disabled
    job.now = ForecastState(forecast=predicted())
    again_until(app, "Forecast: normal")
    while app.button(key="forecast_go").disabled:  # it is drawn above the table, and so a run earlier
        app.run()
    app.button(key="forecast_go").click().run()
    assert job.started == 2  # by the visit, and by the button


def test_a_forecast_that_failed_says_why(control: Open, stub: StubServer) -> None:
    """The server's own sentence."""
    stub.forced["GET", "/headway/v1/traffic"] = (200, TRAFFIC)
    stub.forced["POST", "/headway/v1/presets/forecast"] = (409, {"detail": "the step time is not known yet."})
    again_until(control(stub.url), "There is no forecast: the step time is not known yet.")


def test_without_traffic_there_is_no_forecast(control: Open, live: LiveStandIn) -> None:
    """One sentence, of a real server too."""
    again_until(control(live.url, live_stand_in.TOKEN), NO_TRAFFIC)
