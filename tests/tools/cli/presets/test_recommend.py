"""``headway preset recommend``, alone and with what a server shows."""

from __future__ import annotations

import io
import json
import sys

import pytest
from admin_stand_in import Stub

from headway.api.schema import Diagnosis, Remedy
from headway_policies import bundled_presets
from headway_policies.preset import seat_words
from headway_tools.cli import main


class Terminal(io.StringIO):
    """A user at a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("words", "preset"),
    [
        ([], "balanced"),
        (["--latency-sensitive"], "latency"),
        (["--throughput"], "throughput"),
        (["--offline"], "offline"),
        (["--inter-token-slo-ms", "60"], "interactive"),
    ],
)
def test_flags_lead_to_a_preset(words: list[str], preset: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No server is needed, and the reason is printed."""
    assert main(["preset", "recommend", *words]) == 0
    name, reason, seats = capsys.readouterr().out.splitlines()
    assert name == preset
    assert reason.strip()
    assert seats == f"  seats: {seat_words(bundled_presets()[preset].settings())}"


@pytest.mark.parametrize(
    ("typed", "preset"),
    [("y\n", "latency"), ("n\nyes\n", "offline"), ("\n\nY\n", "throughput"), ("\n\n\n", "balanced"), ("", "balanced")],
)
def test_without_flags_a_person_is_asked(
    typed: str, preset: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At most three queries; the end of the input means no."""
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    assert main(["preset", "recommend"]) == 0
    assert f"{preset}\n" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["--latency-sensitive", "--offline"], ["--inter-token-slo-ms", "0"]])
def test_contradictions_and_nonsense_are_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """One line, exit code 2."""
    assert main(["preset", "recommend", *words]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("as_json", [False, True])
def test_a_server_says_what_limits_it(as_json: bool, operator: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """Its own diagnosis, with what would help and what each costs."""
    operator.diagnosis = Diagnosis(
        severity="overloaded",
        bottleneck="seats",
        statement="Limited by the seats of this preset: 32 of 32 seats taken, 41 waiting.",
        remedies=[
            Remedy(action="the preset throughput", cost="longer steps", command="headway preset use throughput"),
            Remedy(action="another instance", cost="its hardware"),
        ],
    )
    words = ["--json"] if as_json else []
    assert main(["preset", "recommend", "--url", operator.url, *words]) == 0
    printed = capsys.readouterr().out
    if as_json:
        answer = json.loads(printed)
        assert (answer["preset"], answer["diagnosis"]["bottleneck"]) == ("balanced", "seats")
        return
    assert "overloaded: Limited by the seats of this preset: 32 of 32 seats taken, 41 waiting." in printed
    assert "1. the preset throughput; costs: longer steps  [headway preset use throughput]" in printed
    assert "2. another instance; costs: its hardware" in printed


def test_an_older_server_has_no_diagnosis(operator: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """The command says so, and the recommendation stands."""
    assert main(["preset", "recommend", "--url", operator.url]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("balanced\n")
    assert "no diagnosis: the server is older" in printed
