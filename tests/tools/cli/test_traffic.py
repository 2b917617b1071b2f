"""``headway traffic`` and ``headway preset forecast`` against a server with Headway's own admission and admin API."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path

import predicted
import pytest
from live_stand_in import TOKEN, LiveStandIn

from headway.api import AdminClient, Traffic
from headway.api.schema import ForecastCheck, ForecastErrors
from headway_policies import Load
from headway_simulator import read_trace
from headway_tools.cli import main, traffic
from headway_tools.cli.presets import forecast

pytestmark = pytest.mark.slow


async def report_steps(server: LiveStandIn) -> None:
    """As a real engine does, until its step time is known."""
    gate, engine = server.control.gateway.gate, server.engine
    while gate.desk.engine_fit.error_ratio is None:
        gate.observe(Load(len(engine.running), 0, 0.1, engine.step_s, prefill_tokens=2))
        await asyncio.sleep(engine.step_s)


@pytest.fixture(scope="module")
def busy() -> Iterator[LiveStandIn]:
    """A server that had six clients, until fifty of their requests had completed."""
    with LiveStandIn(clients=6) as server:
        with AdminClient(server.url, TOKEN) as client:
            while (done := client.traffic().classes.get("normal")) is None or (
                done.output_tokens is None or done.output_tokens.count < 50
            ):
                time.sleep(0.05)
        server.call(report_steps(server))
        server.send_clients_away()
        yield server


@pytest.fixture
def server(busy: LiveStandIn, monkeypatch: pytest.MonkeyPatch) -> LiveStandIn:
    """The same, for a user whose environment has its address and token."""
    monkeypatch.setenv("HEADWAY_URL", busy.url)
    monkeypatch.setenv("HEADWAY_ADMIN_TOKEN", TOKEN)
    return busy


def test_the_traffic_is_a_table(server: LiveStandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """Requests, rates and lengths of each class."""
    assert main(["traffic"]) == 0
    out = capsys.readouterr().out
    assert "requests in" in out
    row = next(line.split() for line in out.splitlines() if line.startswith("normal"))
    assert int(row[1]) >= 50


def test_the_traffic_as_json_is_the_models(server: LiveStandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """For scripts."""
    assert main(["traffic", "--json"]) == 0
    found = Traffic.model_validate_json(capsys.readouterr().out)
    assert found.requests == sum(one.requests for one in found.classes.values())


def test_an_exported_trace_is_simulated(
    server: LiveStandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the classes that the server saw."""
    file = tmp_path / "monday.csv"
    assert main(["traffic", "--export", str(file)]) == 0
    assert f"{file}: " in capsys.readouterr().out
    assert {row.class_name for row in read_trace(file).rows} == {"normal"}
    assert main(["simulate", "--trace", str(file), "--preset", "latency", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_a_folder_that_does_not_exist_is_named_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is asked of a server."""
    assert main(["traffic", "--export", "/no/such/folder/a.csv"]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_no_traffic_is_a_sentence() -> None:
    """And no empty table."""
    nothing = Traffic(span_s=0.0, requests=0, rate_per_s=0.0)
    assert traffic.text(nothing) == "no request has arrived in the last half hour"


def test_a_forecast_of_named_presets_is_a_table(server: LiveStandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """The one in force is marked."""
    assert main(["preset", "forecast", "latency", "balanced"]) == 0
    out = capsys.readouterr().out
    assert "replays of each preset" in out
    assert any(line.startswith("*  balanced") for line in out.splitlines())
    assert any(line.startswith("   latency") for line in out.splitlines())


def test_a_forecast_that_is_not_what_is_measured_says_so() -> None:
    """One sentence, and a sign before each figure of a preset that is not in force."""
    check = ForecastCheck(preset="balanced", measured_s=60.0, sentence="The forecast of balanced differs.")
    found = predicted.forecast("balanced", "latency")
    text = forecast.forecast_text(found.model_copy(update={"earlier": ForecastErrors(in_force=check)}))
    assert "The forecast of balanced differs." in text.splitlines()
    assert "(? not confirmed: " in text
    assert sum(line.startswith("?") for line in text.splitlines()) == 1 + len(found.presets[1].classes)
    assert not any(line.startswith("?") for line in forecast.forecast_text(found).splitlines())


def test_a_file_that_the_server_does_not_have_is_forecast(
    server: LiveStandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As JSON; a mistake in it is named."""
    file = tmp_path / "night.toml"
    file.write_text(
        'name = "night"\nextends = "balanced"\nbatching.seats = 2\nlimit.policy = "fixed"\n', encoding="utf-8"
    )
    assert main(["preset", "forecast", str(file), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in found["presets"]] == ["night"]
    assert found["presets"][0]["mean_batch"]["high"] <= 3  # the most urgent class may take one more
    file.write_text('name = "night"\nextends = "balanced"\nbatching.seats = 0\n', encoding="utf-8")
    assert main(["preset", "forecast", str(file)]) != 0
    assert "batching.seats" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["nonsense"], ["a.toml", "latency"], ["--within", "0.1"], ["--span", "5"]])
def test_what_cannot_be_forecast_is_a_usage_error(words: list[str], server: LiveStandIn) -> None:
    """A preset that the server does not know, two kinds at once, no time."""
    assert main(["preset", "forecast", *words]) == 2


def test_figures_that_do_not_differ_have_no_bracket() -> None:
    """And what was not measured is a dash."""
    from headway.api.schema import Interval

    assert forecast._spread(Interval(value=1.0, low=1.0, high=1.0), ".1f") == "1.0"
    assert forecast._spread(Interval(value=1.0, low=0.5, high=2.0), ".1f") == "1.0 (0.5 to 2.0)"
    assert forecast._spread(None, ".1f") == "-"


def test_a_forecast_is_a_page(server: LiveStandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With a chart for each kind of figure, and nothing from the network."""
    path = tmp_path / "forecast.html"
    assert main(["preset", "forecast", "latency", "balanced", "--html", str(path)]) == 0
    text = path.read_text(encoding="utf-8")
    assert "forecast of latency, balanced" in text
    assert "balanced (in force)" in text
    assert all(f"<h2>{title}</h2>" in text for title in ("Tokens a second", "First token", "Between tokens", "Ends"))
    assert 'src="http' not in text
    assert main(["preset", "forecast", "latency", "--html", str(tmp_path)]) == 2
    assert "headway: error:" in capsys.readouterr().err
