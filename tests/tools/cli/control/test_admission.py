"""``headway pause``, ``resume``, ``drain``, ``warmup`` and ``recycle`` against a stand-in of the admin API."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from admin_stand_in import Stub

from headway.api.schema import OperatorStop
from headway_tools.cli import main, status
from headway_tools.cli.control import drain

SAID = {"reason": "disk", "actor": "ann"}


@pytest.mark.parametrize(
    ("command", "sentence", "told"),
    [
        (
            "pause",
            "paused: 1 running request will finish; 2 waiting requests and all new ones wait, with their time-outs",
            {"running": 1},
        ),
        ("resume", "resumed: 1 waiting request dispatched at once, 1 still waiting\n", {"running": 1}),
        (
            "drain",
            "draining: 2 waiting requests refused, new ones are refused too; 1 running request will finish",
            {"running": 1},
        ),
        (
            "warmup",
            "accepted: batches of at most 27 beside 1 running request; the result is in the audit log",
            {"running": 1},
        ),
        ("recycle", "replaced when 5 running requests have finished", {"accepted": True, "seats_taken": 5}),
    ],
)
def test_an_order_is_sent_with_its_author_and_its_effect_is_said(
    command: str, sentence: str, told: dict[str, object], operator: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    """The counts of the requests that it touches; the same as JSON for scripts."""
    assert main([command, "--reason", "disk", "--actor", "ann"]) == 0
    assert sentence in capsys.readouterr().out
    method, path, _, body = operator.seen[-1]
    assert (method, path, body) == ("POST", f"/headway/v1/{command}", SAID)
    assert main([command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out).items() >= told.items()


@pytest.mark.parametrize("command", ["pause", "resume", "drain", "warmup", "recycle"])
def test_a_server_that_refuses_says_why(command: str, operator: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, and the server's own sentence."""
    operator.refuse_put = (409, "the server is paused already: resume ends the pause.")
    assert main([command]) == 1
    assert "resume ends the pause" in capsys.readouterr().err


@pytest.mark.parametrize(("said", "expires_s", "words"), [("30", 30.0, "30 s"), ("10m", 600.0, "10 min")])
def test_a_pause_for_a_time(
    said: str, expires_s: float, words: str, operator: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server is told when it ends, and so is the reader."""
    assert main(["pause", "--for", said, "--actor", "ann"]) == 0
    assert operator.seen[-1][3] == {"actor": "ann", "expires_s": expires_s}
    shown = capsys.readouterr().out
    assert shown.endswith(f"until headway resume, for {words} at most\n")
    assert main(["pause", "--for", "soon"]) == 2


def test_the_status_says_when_a_pause_ends(operator: Stub) -> None:
    """Beside the resume that ends it now."""
    stop = OperatorStop(state="paused", since="", for_s=5.0, actor="ann", left_s=25.0)
    told = operator.status().model_copy(update={"stopped": stop})
    shown = status.text(told, operator.url)
    assert "paused for 5 s by ann; ends by itself in 25 s  [headway resume]" in shown


def test_a_resume_names_what_else_stops_dispatch(operator: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """The command does not claim that requests are served."""
    operator.holds, operator.state_after_resume = ["recycle"], "paused"
    assert main(["resume"]) == 0
    assert "; dispatch is still blocked by recycle\n" in capsys.readouterr().out


def test_a_drain_waits_for_the_last_request(operator: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command returns once the status shows none."""
    monkeypatch.setattr(drain, "_POLL_S", 0.0)
    operator.drained_after = 3
    assert main(["drain", "--wait", "5m"]) == 0
    assert [path for method, path, *_ in operator.seen if method == "GET"] == ["/headway/v1/status"] * 4


def _too_long(operator: Stub) -> str:
    operator.drained_after = 10**6
    return "1 running request left after 1e-06 s; the drain goes on"


def _resumed(operator: Stub) -> str:
    operator.drained_after, operator.state_after_drain = 10**6, "open"
    return "the drain was ended: the server is open"


@pytest.mark.parametrize("makes", [_too_long, _resumed])
def test_a_wait_that_fails_says_why(
    makes: Callable[[Stub], str], operator: Stub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1: a script must not stop a server whose requests still run."""
    monkeypatch.setattr(drain, "_POLL_S", 0.0)
    sentence = makes(operator)
    assert main(["drain", "--wait", "0.000001s"]) == 1
    assert sentence in capsys.readouterr().err


def test_the_status_shows_the_command_that_stops_dispatch(operator: Stub) -> None:
    """With its age, its author and reason, and the command that ends it."""
    stop = OperatorStop(state="paused", since="2026-01-01T00:00:00Z", for_s=185.0, actor="ann", reason="disk")
    now = operator.status()
    assert "stopped " not in status.text(now, operator.url)
    shown = status.text(now.model_copy(update={"state": "paused", "stopped": stop}), operator.url)
    assert "\nstopped   paused for 3 min 5 s by ann: disk  [headway resume]\n" in shown


def test_an_alert_is_silenced_for_a_time_or_its_silence_is_ended(
    operator: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of both is needed."""
    assert main(["silence", "HeadwayQueueLong", "--for", "2h", "--reason", "test", "--actor", "ann"]) == 0
    assert "HeadwayQueueLong: silent until 2026-" in capsys.readouterr().out
    sent = {"alert": "HeadwayQueueLong", "expires_s": 7200.0, "reason": "test", "actor": "ann"}
    assert (operator.seen[-1][0], operator.seen[-1][1], operator.seen[-1][3]) == ("PUT", "/headway/v1/silence", sent)
    assert main(["silence", "HeadwayQueueLong", "--end", "--actor", "ann"]) == 0
    assert operator.seen[-1][3] == {"alert": "HeadwayQueueLong", "expires_s": None, "actor": "ann"}
    assert main(["silence", "HeadwayQueueLong"]) == 2
