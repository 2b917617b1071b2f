"""``headway simulate --instances``: routers side by side, and one line for options that do not go together."""

from __future__ import annotations

import json
import re

import pytest

from headway_tools.cli import main

SHORT = ["simulate", "--duration", "30", "--instances", "3", "--load", "0.8"]


def test_routers_are_compared_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    """A column for each; the instances and their seats above it."""
    assert main(SHORT) == 0
    out = capsys.readouterr().out.splitlines()
    assert re.search(r"balanced on 3 instances of \d+ seats, seed 1", out[0])
    assert any(line.split() == ["late", "round-robin", "random", "jsq"] for line in out)


def test_chosen_routers_with_a_slow_instance(capsys: pytest.CaptureFixture[str]) -> None:
    """In the order in which they are given; the load is of what all can serve, the slow one too."""
    assert main([*SHORT, "--router", "jsq", "--router", "late", "--slow-instance", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [run["name"] for run in found["runs"]] == ["jsq", "late"]
    assert "the last of them 2 times as slow" in found["workload"]
    assert main([*SHORT, "--router", "late", "--json"]) == 0
    assert found["ceiling_per_s"] == pytest.approx(json.loads(capsys.readouterr().out)["ceiling_per_s"] * 2.5 / 3)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--router", "late"], "belong to --instances"),
        (["--slow-instance", "2"], "belong to --instances"),
        (["--instances", "2", "--sweep"], "not with --sweep"),
        (["--instances", "2", "--preset", "latency", "--preset", "balanced"], "one --preset"),
        (["--instances", "1001"], "at most 1000"),
        (["--instances", "0"], "a whole number"),
        (["--instances", "2", "--router", "best"], "invalid choice"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 2 and the option."""
    assert main(["simulate", *words]) == 2
    assert says in capsys.readouterr().err
