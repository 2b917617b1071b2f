"""``headway preset use`` on trial, ``keep``, and the watch, against a server with Headway's own admission and API."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest
from live_stand_in import TOKEN, LiveStandIn

from headway_tools.cli import main

pytestmark = pytest.mark.slow


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveStandIn]:
    """A server with two clients, for a user whose environment has its address and token."""
    with LiveStandIn(clients=2) as server:
        monkeypatch.setenv("HEADWAY_URL", server.url)
        monkeypatch.setenv("HEADWAY_ADMIN_TOKEN", TOKEN)
        yield server


def test_a_trial_that_nobody_keeps_ends_with_five(server: LiveStandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """The last look says how it ended; the earlier preset is in force again."""
    assert main(["preset", "use", "latency", "--revert-after", "1.5s", "--watch"]) == 5
    out = capsys.readouterr().out
    assert "balanced -> latency" in out
    assert "latency: reverted, not confirmed within 1.5 s; in force again: balanced" in out
    assert "ttft_p95_s" in out
    assert server.preset.name == "balanced"


def test_a_trial_that_hurts_ends_with_five(server: LiveStandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON: the switch, and the trial at its end."""
    words = ["--revert-if", "normal.ttft_p95_s > 0 for 1s", "--revert-after", "1h", "--watch", "--json"]
    assert main(["preset", "use", "latency", *words]) == 5
    switched, trial = map(json.loads, capsys.readouterr().out.splitlines())
    assert switched["trial"]["end"] is None
    assert (trial["end"], trial["back_to"]) == ("reverted", "balanced")
    assert trial["conditions"][0]["reading"] > 0


def test_a_trial_that_is_kept_ends_with_zero(server: LiveStandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """By somebody else, in another terminal."""
    found: list[int] = []
    watch = threading.Thread(
        target=lambda: found.append(main(["preset", "use", "latency", "--revert-after", "1h", "--watch"]))
    )
    watch.start()
    while server.control.trials.running is None:
        watch.join(0.05)
        assert watch.is_alive()
    assert main(["preset", "keep", "--reason", "fine"]) == 0
    watch.join(30)
    assert found == [0]
    out = capsys.readouterr().out
    assert "latency stays  (revision 2)" in out
    assert "latency: kept, confirmed by" in out
    assert main(["preset", "keep"]) == 1
    assert server.preset.name == "latency"


def test_without_a_watch_the_server_decides_alone(server: LiveStandIn, capsys: pytest.CaptureFixture[str]) -> None:
    """The command says how long, and what ends it."""
    assert main(["preset", "use", "latency", "--revert-after", "10m"]) == 0
    out = capsys.readouterr().out
    assert "on trial for 10 min: `headway preset keep` keeps it" in out
    assert main(["preset", "undo"]) == 0
    assert server.control.trials.running is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--revert-after", "soon"], "a time such as 90s, 10m or 1h"),
        (["--revert-after", "0s"], "a time such as 90s, 10m or 1h"),
        (["--revert-if", "ttft > 2"], "there is no figure 'ttft'"),
        (["--revert-if", "nobody.ttft_p95_s > 2"], "there is no class 'nobody'"),
        (["--revert-after", "1000h"], "revert_after_s"),
        (["--watch"], "give --revert-after or --revert-if too"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    words: list[str], said: str, server: LiveStandIn, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, one sentence, and the preset stays."""
    try:
        code = main(["preset", "use", "latency", *words])
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert said in capsys.readouterr().err
    assert server.preset.name == "balanced"
