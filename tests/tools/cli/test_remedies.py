"""The commands that a diagnosis names as remedies: each is one of the command line, with options that it has."""

from __future__ import annotations

import shlex

import pytest

from headway_policies.diagnosis import Bottleneck, ClassFacts, Facts, Forecasted
from headway_policies.diagnosis.remedies import remedies
from headway_policies.engine import EngineState
from headway_tools.cli import main
from headway_tools.cli.measuring import tune as tune_command

FULL = Facts(
    adaptive=False, seats_taken=32, limit=32, ceiling=64, queued=9, error_share=0.2, strategy="dynamic",
    mean_batch=3.0, classes=(ClassFacts("normal"),),
)  # fmt: skip
KINDS = (
    FULL,
    Facts(rung="pause", rung_set=True, engine=EngineState.LOST),
    Facts(error_share=0.2, forecast=Forecasted("balanced", 32, 0.8), forecasts=(Forecasted("latency", 8, 0.99),)),
)
COMMANDS = sorted(
    {remedy.command for found in Bottleneck for facts in KINDS for remedy in remedies(facts, found) if remedy.command}
)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_line_takes_every_command_of_a_remedy(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command gets as far as the server, which is not there: 3 for that, 2 would be for wrong usage."""
    monkeypatch.setenv("HEADWAY_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("HEADWAY_ADMIN_TOKEN", "x" * 40)
    program, *words = shlex.split(command)
    assert program == "headway"
    assert main(words) == 3, capsys.readouterr().err


def test_all_kinds_of_commands_are_among_them() -> None:
    """So that the test above cannot pass by having none."""
    kinds = {" ".join(command.split()[:3]) for command in COMMANDS}
    assert {"headway preset forecast", "headway preset use", "headway fallback auto"} <= kinds
    assert any(command.startswith(f"headway {tune_command.NAME}") for command in COMMANDS)
