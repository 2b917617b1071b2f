"""``headway calibrate`` against a stand-in that streams at once: its output, files and errors."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from admin_stand_in import Stub
from completions_stand_in import CompletionsStandIn

from headway.api.schema import StepTime
from headway.cli import calibrate, main
from headway.simulator.engine_model.fit import Point, fit
from headway.simulator.engine_model.probe import Measured, Probe, Stream

BETWEEN = [Point(number, 0.02 + 0.001 * number) for number in (1, 8, 32)]
FIRST = [Point(tokens, 0.025 + 0.0005 * tokens) for tokens in (20, 200, 1000)]


@pytest.fixture
def server() -> Iterator[CompletionsStandIn]:
    """A running stand-in."""
    with CompletionsStandIn() as running:
        yield running


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of a server that behaves exactly as the model: a stand-in's own are noise."""
    monkeypatch.setattr(Probe, "measure", lambda probe, within_s, progress: Measured(BETWEEN, FIRST))


@pytest.fixture
def side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams that overlap, a piece each second: those of the stand-in are over before the next begins."""
    stream = Stream(0.0, [1.0, 2.0, 3.0], output_tokens=3)
    monkeypatch.setattr(Probe, "streams", lambda probe, number: [stream] * number)


def test_the_fit_its_error_and_the_flags_are_printed(
    server: CompletionsStandIn, measured: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every measurement beside what the fit makes of it."""
    assert main(["calibrate", "--url", server.url]) == 0
    out = capsys.readouterr().out
    assert "a step                                       20.000 ms" in out
    assert out.count("mean error 0.0%") == 2
    assert out.rstrip().endswith("headway simulate --step-ms 20 --seat-ms 1 --prefill-ms 0.5")


def test_the_flags_are_those_simulate_takes(
    server: CompletionsStandIn, measured: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """So that one command can be put into the other."""
    assert main(["calibrate", "--url", server.url, "--flags"]) == 0
    flags = shlex.split(capsys.readouterr().out)
    assert main(["simulate", "--duration", "5", "--json", *flags]) == 0
    model = json.loads(capsys.readouterr().out)["model"]
    assert (model["base_s"], model["seat_s"], model["prefill_s"]) == pytest.approx((0.02, 0.001, 0.0005))


def test_the_fit_and_the_measurements_are_kept_in_a_file(
    server: CompletionsStandIn, measured: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same as with --json."""
    file = tmp_path / "engine.json"
    assert main(["calibrate", "--url", server.url, "--json", "-o", str(file)]) == 0
    written = json.loads(file.read_text())
    assert written == json.loads(capsys.readouterr().out)
    assert written["base_s"] == pytest.approx(0.02)
    assert written["first_token"][2] == {"at": 1000, "seconds": 0.525}


@pytest.mark.parametrize("words", [["--flags"], ["--json"], []], ids=["flags", "json", "text"])
def test_a_poor_fit_is_a_warning_beside_the_output(
    words: list[str], server: CompletionsStandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On standard error, so that the flags can still be put into another command."""
    scattered = [Point(number, seconds) for number, seconds in ((1, 0.03), (8, 0.12), (16, 0.04), (32, 0.11))]
    monkeypatch.setattr(Probe, "measure", lambda probe, within_s, progress: Measured(scattered, FIRST))
    assert main(["calibrate", "--url", server.url, *words]) == 0
    out, err = capsys.readouterr()
    (line,) = [line for line in err.splitlines() if "warning" in line]
    assert line.startswith("headway: warning: poor fit of the time between tokens: mean error ")
    if words == ["--flags"]:
        assert out.startswith("--step-ms ")
        assert out.count("\n") == 1
    if words == ["--json"]:
        assert [f"headway: warning: {one}" for one in json.loads(out)["warnings"]] == [line]


def test_a_server_is_measured_from_end_to_end(
    server: CompletionsStandIn, side_by_side: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever its times are, the constants can be used."""
    assert main(["calibrate", "--url", server.url, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["base_s"], answer["seat_s"]) == pytest.approx((1.0, 0.0))
    assert answer["prefill_s"] >= 0
    assert all(body["model"] == "stand-in" for body in server.asked)


def test_the_model_can_be_named(
    server: CompletionsStandIn, side_by_side: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Then the server is not asked for its list."""
    server.models = False
    assert main(["calibrate", "--url", server.url, "--model", "mine", "--json"]) == 0
    assert {body["model"] for body in server.asked} == {"mine"}


@pytest.mark.parametrize(
    ("url", "code", "issue"),
    [
        ("http://127.0.0.1:1", 3, "does not answer"),
        ("nonsense", 2, "must look like http://HOST:PORT"),
        ("ftp://127.0.0.1", 2, "must look like http://HOST:PORT"),
    ],
)
def test_a_server_that_is_not_there_is_said_in_one_line(
    url: str, code: int, issue: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """3 for an address without a server, 2 for no address."""
    assert main(["calibrate", "--url", url]) == code
    err = capsys.readouterr().err
    assert issue in err
    assert err.count("\n") == 1


def test_a_server_that_names_no_model_or_takes_no_prompt_fails(
    server: CompletionsStandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, with the server's own words where it has some."""
    server.models = False
    assert main(["calibrate", "--url", server.url]) == 1
    assert "names no model; give --model" in capsys.readouterr().err
    server.longest_prompt = 2
    assert main(["calibrate", "--url", server.url, "--model", "mine"]) == 1
    assert "answered 400: " in capsys.readouterr().err


def test_too_short_a_time_is_said(server: CompletionsStandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """Not enough was measured for a line."""
    assert main(["calibrate", "--url", server.url, "--within", "0.0000001"]) == 1
    assert "not enough was measured" in capsys.readouterr().err


def test_the_text_shows_the_fitted_value_of_each_point() -> None:
    """Measured and fitted side by side."""
    text = calibrate.text(fit(BETWEEN, FIRST), Measured(BETWEEN, FIRST))
    assert ["32", "52.0", "52.0"] in [line.split() for line in text.splitlines()]


def test_the_servers_own_fit_stands_beside_it(
    server: CompletionsStandIn, measured: None, operator: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where a Headway server with a token has one; nothing is said of any other."""
    assert calibrate._own_fit(server.url) is None
    assert calibrate._own_fit(operator.url) is None
    operator.step_time = StepTime(base_s=0.022, sequence_s=0.001, prompt_token_s=0.0004, error_ratio=0.03)
    assert calibrate._own_fit(operator.url) == operator.step_time
    text = calibrate._compared(fit(BETWEEN, FIRST), operator.step_time)
    assert "(error 3%)" in text
    assert text.splitlines()[-3].split() == ["1", "21.0", "23.0", "+10%"]
