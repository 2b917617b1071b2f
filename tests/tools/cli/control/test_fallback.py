"""``headway fallback`` against a stand-in of the admin API."""

from __future__ import annotations

import json

import pytest
from admin_stand_in import Stub

from headway_tools.cli import main


@pytest.mark.parametrize("words", [["fallback"], ["fallback", "show"]])
def test_it_says_where_the_ladder_stands_and_why(
    words: list[str], operator: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rung, its trigger, what is in force, the other model, and the last moves."""
    assert main(words) == 0
    out = capsys.readouterr().out
    for line in ("rung      cap  (queue_age)", "mode      automatic", "divert to small, breaker closed, 2 in flight"):
        assert line in out
    assert out.splitlines()[-1].split() == ["2026-01-01T00:00:00.000Z", "normal", "cap", "queue_age"]


def test_an_order_is_sent_with_its_reason(operator: Stub, capsys: pytest.CaptureFixture[str]) -> None:
    """And taken back with auto."""
    assert main(["fallback", "set", "divert", "--reason", "night", "--actor", "ann"]) == 0
    assert "an operator has set it to divert" in capsys.readouterr().out
    assert main(["fallback", "auto", "--json", "--actor", "ann"]) == 0
    assert json.loads(capsys.readouterr().out) == operator.fallback().model_dump()
    bodies = [body for method, _, _, body in operator.seen if method == "PUT"]
    assert bodies == [{"rung": "divert", "reason": "night", "actor": "ann"}, {"rung": None, "actor": "ann"}]


@pytest.mark.parametrize("words", [["set"], ["auto", "shed"], ["show", "shed"], ["up"]])
def test_wrong_words_are_refused_before_the_server_is_asked(words: list[str], operator: Stub) -> None:
    """Exit code 2."""
    assert main(["fallback", *words]) == 2
    assert operator.seen == []
