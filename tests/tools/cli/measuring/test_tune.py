"""``headway tune`` against a server with Headway's own admission and admin API around a fake engine."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from live_stand_in import TOKEN, LiveStandIn
from running_server import wait_until
from tiers import long_form

from headway.audit import Caller
from headway_policies import Preset, bundled_presets, load_preset
from headway_simulator.traffic.workload import Request
from headway_tools.cli import main
from headway_tools.load.completions import Completions
from headway_tools.load.served import Served
from headway_tools.tuning import live


def calm(name: str) -> Preset:
    """A bundled preset without objectives, which a slow machine would miss."""
    preset = bundled_presets()[name]
    loose = {"ttft_slo_s": 3600.0, "inter_token_slo_ms": 60_000.0}
    return preset.model_copy(
        update={"classes": {key: terms.model_copy(update=loose) for key, terms in preset.classes.items()}}
    )


BALANCED = calm("balanced")
QUICK = ("--settle", "0.1", "--measure", "0.4")
FEW = ("--seats", "8,16,48", *QUICK)


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator of the stand-in."""
    monkeypatch.setenv("HEADWAY_ADMIN_TOKEN", TOKEN)


@pytest.fixture
def server() -> Iterator[LiveStandIn]:
    """One with enough users to fill its seats."""
    with LiveStandIn(BALANCED, clients=80) as running:
        yield running


def tune(server: LiveStandIn, *words: str) -> int:
    """Run it."""
    return main(["tune", "--url", server.url, *words])


def at_measurement(number: int, then: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Do this at the scrape of this number."""
    counts, calls = live.Live.counts, iter(range(1000))

    def scrape(self: live.Live) -> Any:
        if next(calls) == number:
            then()
        return counts(self)

    monkeypatch.setattr(live.Live, "counts", scrape)


@pytest.mark.slow
def test_the_seats_are_swept_and_the_preset_comes_back(
    server: LiveStandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The suggestion is a file that the server could start with, and the curve a page; nobody is dropped."""
    pytest.importorskip("plotly")
    file, page = tmp_path / "tuned.toml", tmp_path / "curve.html"
    assert tune(server, *FEW, "--out", str(file), "--html", str(page), "--actor", "ann") == 0
    out = capsys.readouterr().out
    assert (server.preset, server.control.limits.in_force) == (BALANCED, None)
    assert [line.split(",")[0] for line in server.orders] == [
        "balanced: 32 seats", "balanced: 48 seats", "balanced: 16 seats", "balanced: 8 seats", "balanced",
    ]  # fmt: skip
    assert {one.actor for one in server.control.audit.entries(50)} == {"ann"}
    made = load_preset(file)
    assert made.batching.seats in (8, 16, 32, 48)
    assert f"suggested: fixed at {made.batching.seats} seats: " in out
    assert "tokens/s by seats" in out
    assert all(title in page.read_text(encoding="utf-8") for title in ("seats of balanced", "Throughput and latency"))
    ledger = server.control.gateway.gate.desk.ledger
    assert sum(one.refusals.total() for one in ledger.classes.values()) == 0


@pytest.mark.slow
def test_json_has_every_step_and_the_preset(server: LiveStandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """Each with the batch that filled its seats, and with its figures."""
    assert tune(server, *FEW, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    steps = answer["steps"]
    assert [one["seats"] for one in steps] == [8, 16, 32, 48]
    assert all(0.7 * one["seats"] < one["mean_batch"] <= one["seats"] for one in steps)
    assert all(one["tokens_per_s"] > 0 and one["inter_token_mean_s"] > 0 for one in steps)
    assert f"seats = {answer['seats']}" in answer["toml"]


@pytest.mark.slow
def test_apply_holds_until_the_next_switch(server: LiveStandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """Without an end."""
    assert tune(server, "--seats", "16,48", *QUICK, "--apply", "--json") == 0
    seats = json.loads(capsys.readouterr().out)["seats"]
    order = server.control.limits.in_force
    assert order is not None
    assert (server.preset.batching.seats, order.seats, order.ends_s) == (seats, seats, None)
    server.call(server.control.switch("balanced", expected_revision=None, caller=Caller("ann")))
    assert server.preset == BALANCED


@pytest.mark.slow
def test_windows_follow_where_whole_batches_are_formed(capsys: pytest.CaptureFixture[str]) -> None:
    """At the suggested seats; the preset's own window comes back."""
    with LiveStandIn(calm("dynamic"), clients=80) as server:
        assert tune(server, "--seats", "16", *QUICK, "--json") == 0
        assert server.preset == calm("dynamic")
    answer = json.loads(capsys.readouterr().out)
    assert [one["window_ms"] for one in answer["windows"]] == [50.0, 0.0, 25.0, 100.0, 200.0]
    assert answer["window_ms"] in (0.0, 25.0, 50.0, 100.0, 200.0)


@pytest.mark.slow
def test_it_brings_its_own_load(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A closed loop that fills the seats, and ends with it."""
    drained = live.Live.drained

    def filled(self: live.Live, seats: int, window_ms: float | None, for_s: float) -> None:
        drained(self, seats, window_ms, for_s)
        wait_until(lambda: server.control.gateway.gate.desk.ledger.queued > 0, "the seats are filled")

    monkeypatch.setattr(live.Live, "drained", filled)
    with LiveStandIn(BALANCED) as server:
        assert tune(server, "--seats", "4,8", "--with-load", "--clients", "48", *QUICK, "--json") == 0
        steps = json.loads(capsys.readouterr().out)["steps"]
        assert [(one["seats"], one["mean_batch"] > 0.7 * one["seats"]) for one in steps] == [
            (4, True),
            (8, True),
            (32, True),
        ]
        wait_until(lambda: server.engine.running == {}, "its requests have ended")
        ledger = server.control.gateway.gate.desk.ledger
        assert (ledger.queued, ledger.in_flight) == (0, 0)


@pytest.mark.slow
def test_clients_of_its_own_that_end_early_are_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A measurement without them is no suggestion; the preset is back."""
    complete, calls = Completions.complete, iter(range(10_000))

    async def breaks(self: Completions, request: Request) -> Served:
        if next(calls) == 60:  # all of its clients have begun
            raise RuntimeError("a fault of the clients")
        return await complete(self, request)

    monkeypatch.setattr(Completions, "complete", breaks)
    with LiveStandIn(BALANCED) as server:
        words = ("--seats", "4", "--with-load", "--clients", "48", "--settle", "0.1", "--measure", "1.5")
        assert tune(server, *words) == 1
        assert (server.preset, server.control.limits.in_force) == (BALANCED, None)
    assert "the clients of --with-load ended early" in capsys.readouterr().err


def test_a_server_without_load_is_left_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    """One line says what to give."""
    with LiveStandIn(BALANCED) as server:
        assert tune(server, *FEW) == 1
        assert (server.preset, server.control.limits.in_force) == (BALANCED, None)
    assert "give --with-load" in capsys.readouterr().err


@pytest.mark.slow
def test_ctrl_c_puts_the_preset_back(
    server: LiveStandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the middle of a step; what was measured is shown, nothing is suggested."""

    def interrupt() -> None:
        assert server.preset.batching.seats == 48
        raise KeyboardInterrupt

    at_measurement(3, interrupt, monkeypatch)
    assert tune(server, *FEW, "--apply") == 130
    assert (server.preset, server.control.limits.in_force) == (BALANCED, None)
    assert "no suggestion" in capsys.readouterr().out


@long_form("Ctrl-C and SIGTERM take the same way back")
@pytest.mark.slow
def test_an_error_puts_the_preset_back(
    server: LiveStandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of any kind."""

    def fail() -> None:
        raise RuntimeError("a fault of the tuner")

    at_measurement(3, fail, monkeypatch)
    with pytest.raises(RuntimeError, match="a fault of the tuner"):
        tune(server, *FEW)
    assert (server.preset, server.control.limits.in_force) == (BALANCED, None)


@pytest.mark.slow
def test_somebody_elses_switch_ends_the_sweep_and_stays(
    server: LiveStandIn, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tuner changes nothing any more."""
    switch = lambda: server.call(  # noqa: E731
        server.control.switch("latency", expected_revision=None, caller=Caller("ann"))
    )
    at_measurement(3, switch, monkeypatch)
    assert tune(server, *FEW) == 1
    assert (server.preset.name, server.control.limits.in_force) == ("latency", None)
    out, err = capsys.readouterr()
    assert "the preset was changed meanwhile: latency is in force" in err
    assert "32" in out, "what was measured until then is shown"


@pytest.mark.slow
def test_two_tuners_do_not_meet(server: LiveStandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """The second one is refused while the first one's limit is ordered."""
    order = server.control.order_limit(8, expires_s=60, expected_revision=None, caller=Caller("ann"))
    server.call(order)
    assert tune(server, *FEW) == 1
    assert "a limit is set there already, for another" in capsys.readouterr().err
    assert server.preset.batching.seats == 8


#: The seats in force are measured by two scrapes; the third one is that of the next step.
STAYS_AT_ITS_SECOND_STEP = """
import sys, time
from headway_tools.cli import main
from headway_tools.tuning import live
counts, scrapes = live.Live.counts, iter(range(1000))
live.Live.counts = lambda self: time.sleep(600) if next(scrapes) == 2 else counts(self)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "code"),
    [
        pytest.param(signal.SIGTERM, 130, id="term"),
        pytest.param(
            signal.SIGKILL, -signal.SIGKILL, id="kill", marks=long_form("tests/plugin/operator has orders that expire")
        ),
    ],
)
def test_a_tuner_that_is_ended_leaves_nothing_behind(how: signal.Signals, code: int, server: LiveStandIn) -> None:
    """At once where it can, else when the order expires: by the server itself."""
    words = [sys.executable, "-c", STAYS_AT_ITS_SECOND_STEP, "tune", "--url", server.url, "--seats", "48", *QUICK]
    tuner = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: server.preset.batching.seats == 48, "a step has begun")
        tuner.send_signal(how)
        assert tuner.wait(120) == code
        if how is signal.SIGKILL:
            assert server.preset.batching.seats == 48
        wait_until(lambda: server.preset == BALANCED and server.control.limits.in_force is None, "the preset is back")
    finally:
        tuner.kill()
        tuner.wait()
    by = server.control.audit.entries(1)[0].actor
    assert (by == "headway") == (how is signal.SIGKILL)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--seats", "8,x"), "numbers of seats look like"),
        (("--seats", ",".join(["8"] * 33)), "at most 32 numbers of seats"),
        (("--clients", "8"), "--clients belongs to --with-load"),
        (("--inter-token-slo-ms", "0"), "--inter-token-slo-ms"),
        (("--measure", "5000"), "at most 3000 seconds together"),
        (("--out", "/no/such/folder/x.toml"), "/no/such/folder/x.toml: cannot be written"),
    ],
)
def test_wrong_usage_is_one_line(words: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is asked of the server."""
    assert main(["tune", "--url", "http://127.0.0.1:9", *words]) == 2
    err = capsys.readouterr().err
    assert text in err
    assert err.count("\n") == 1
