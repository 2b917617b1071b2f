"""The forecast in its thread: when it asks, what it says when there is none."""

from __future__ import annotations

import threading

import pytest
from predicted import forecast
from stub_server import OPERATOR_TOKEN, StubServer

from headway.api import AdminClient
from headway.api.schema import Forecast
from headway_dashboard.sources.preset_forecast import NO_TRAFFIC, ForecastJob

TRAFFIC = {"span_s": 600.0, "requests": 300, "rate_per_s": 0.5}
POST = ("POST", "/headway/v1/presets/forecast")


def answers(stub: StubServer, *names: str) -> None:
    """The stub has traffic, and forecasts these presets."""
    stub.forced["GET", "/headway/v1/traffic"] = (200, TRAFFIC)
    stub.forced[POST] = (200, forecast(*names).model_dump(mode="json"))


def finished(job: ForecastJob) -> ForecastJob:
    """Wait for the thread."""
    assert job._thread is not None
    job._thread.join(60)
    assert not job.state().running
    return job


def test_a_forecast_comes_and_has_an_age(stub: StubServer) -> None:
    """All presets at once."""
    answers(stub, "balanced", "latency")
    now_s = [100.0]
    job = ForecastJob(stub.url, OPERATOR_TOKEN, clock=lambda: now_s[0])
    job.start()
    found = finished(job).state().forecast
    now_s[0] = 130.0
    assert found is not None
    assert [preset.name for preset in found.presets] == ["balanced", "latency"]
    assert job.age_s() == 30.0


def test_nothing_is_asked_for_without_traffic(stub: StubServer) -> None:
    """One sentence says so, and the server computes nothing."""
    stub.forced["GET", "/headway/v1/traffic"] = (200, TRAFFIC | {"requests": 0})
    job = ForecastJob(stub.url, OPERATOR_TOKEN)
    job.start()
    assert finished(job).state().problem == NO_TRAFFIC
    assert POST not in stub.requests


@pytest.mark.parametrize(
    ("status", "words"),
    [(403, "operator's token"), (404, "does not offer it"), (409, "the engine's step time is not known yet")],
)
def test_a_failure_is_one_sentence_and_keeps_the_last_forecast(stub: StubServer, status: int, words: str) -> None:
    """The forecast of before is still shown, with its age."""
    answers(stub, "latency")
    job = ForecastJob(stub.url, OPERATOR_TOKEN)
    job.start()
    finished(job)
    stub.forced[POST] = (status, {"detail": "the engine's step time is not known yet."})
    job.start()
    assert words in finished(job).state().problem
    assert job.state().forecast is not None


def test_a_visit_asks_by_itself_only_while_there_is_none_and_not_again_at_once(stub: StubServer) -> None:
    """A server without traffic is not asked by every visitor."""
    now_s = [100.0]
    job = ForecastJob(stub.url, OPERATOR_TOKEN, clock=lambda: now_s[0])
    for later_s, asked in ((0.0, 1), (1.0, 1), (60.0, 2)):
        now_s[0] = 100.0 + later_s
        job.start_first()
        finished(job)
        assert stub.requests.count(("GET", "/headway/v1/traffic")) == asked


def test_one_forecast_at_a_time(stub: StubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second visitor waits for the first one's."""
    answers(stub, "latency")
    go, asked = threading.Event(), threading.Semaphore(0)

    def wait(client: AdminClient, **_: object) -> Forecast:
        asked.release()
        assert go.wait(60)
        return forecast("latency")

    monkeypatch.setattr(AdminClient, "forecast", wait)
    job = ForecastJob(stub.url, OPERATOR_TOKEN)
    job.start()
    assert asked.acquire(timeout=60)
    job.start()
    assert job.state().running
    go.set()
    finished(job)
    assert not asked.acquire(blocking=False)


def test_an_unexpected_error_ends_the_wait(stub: StubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else no forecast could ever be asked for again."""
    answers(stub, "latency")
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    monkeypatch.setattr(AdminClient, "forecast", lambda *_, **__: 1 / 0)
    job = ForecastJob(stub.url, OPERATOR_TOKEN)
    job.start()
    assert "failed" in finished(job).state().problem
