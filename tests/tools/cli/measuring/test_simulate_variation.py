"""``headway simulate`` on an engine that varies: the words, the report, and one line for every error."""

from __future__ import annotations

import json

import pytest

from headway_tools.cli import main

SHORT = ["simulate", "--duration", "40", "--load", "0.8"]
WORDS = [
    "--slow", "6x:20s-30s", "--slow", "1.5x:0-10", "--pause", "2.5s@0.2m", "--neighbour", "2x:500ms/5s",
    "--drift", "0.5:1h", "--jitter", "0.2",
]  # fmt: skip


def test_the_report_says_what_disturbs_the_engine(capsys: pytest.CaptureFixture[str]) -> None:
    """A line under the engine's constants, and one about the ceiling under the table; neither without a disturbance."""
    assert main([*SHORT, *WORDS]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[2] == (
        "  disturbed: steps from 20 s to 30 s take 6 times as long; steps from 0 s to 10 s take 1.5 times as long; "
        "a pause of 2.5 s at 12 s; steps take 2 times as long for 0.5 s of every 5 s; "
        "the speed falls by 50 % over 3600 s and returns in as much; a jitter of 20 % of each step"
    )
    assert "the ceiling, and the loads, are of the undisturbed engine" in out
    assert main(SHORT) == 0
    assert "disturbed" not in capsys.readouterr().out


def test_json_has_a_name_for_every_number(capsys: pytest.CaptureFixture[str]) -> None:
    """The words in seconds, with the seed that draws the rest; null without a disturbance."""
    assert main([*SHORT, *WORDS, "--seed", "7", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"]["variation"] == {
        "slow": [
            {"factor": 6.0, "begin_s": 20.0, "end_s": 30.0}, {"factor": 1.5, "begin_s": 0.0, "end_s": 10.0},
        ],
        "pauses": [{"length_s": 2.5, "at_s": 12.0}],
        "neighbour": {"factor": 2.0, "for_s": 0.5, "every_s": 5.0},
        "drift": {"ratio": 0.5, "over_s": 3600.0},
        "jitter_ratio": 0.2,
        "jitter_hold_s": 0.0,
        "seed": 7,
    }  # fmt: skip
    assert main([*SHORT, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["model"]["variation"] is None


@pytest.mark.parametrize(
    "words",
    [["--slow", "6x:0s-30s"], ["--pause", "10s@5s"], ["--neighbour", "4x:5s/10s"], ["--drift", "0.8:20s"]],
    ids=lambda words: words[0],
)
def test_every_disturbance_makes_the_same_requests_slower(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The same traffic at the same load, on an engine that is busy for longer."""
    found = []
    for more in ([], words):
        assert main([*SHORT, *more, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0]["workload"] == found[1]["workload"]
    assert found[0]["ceiling_per_s"] == found[1]["ceiling_per_s"]
    steady, disturbed = (one["runs"][0]["classes"]["all"]["end_to_end"]["mean_s"] for one in found)
    assert disturbed > 1.2 * steady


def test_every_preset_meets_the_disturbances(capsys: pytest.CaptureFixture[str]) -> None:
    """Side by side, with the engine alone, and under strategies."""
    pause = ["--pause", "20s@5s", "--json"]
    for words in (["--preset", "latency", "--engine-alone"], ["--strategies", "8"]):
        found = []
        for more in (["--json"], pause):
            assert main([*SHORT, *words, *more]) == 0
            found.append(json.loads(capsys.readouterr().out)["runs"])
        for steady, paused in zip(*found, strict=True):
            assert paused["classes"]["all"]["end_to_end"]["p99_s"] > steady["classes"]["all"]["end_to_end"]["p99_s"]


def test_help_explains_each_word_by_an_example_that_works(capsys: pytest.CaptureFixture[str]) -> None:
    """Every option of the group is there, and the example in its help is accepted."""
    with pytest.raises(SystemExit):
        main(["simulate", "--help"])
    out = capsys.readouterr().out
    examples = {
        "--slow": "6x:20s-60s", "--pause": "10s@30s", "--neighbour": "2x:5s/20s", "--drift": "0.5:3600s",
        "--jitter": "0.2:5s",
    }  # fmt: skip
    for flag, example in examples.items():
        assert f"  {flag} " in out
        assert example in out
        assert main([*SHORT, flag, example]) == 0
    assert "stall" in out


@pytest.mark.parametrize(
    ("words", "issue"),
    [
        (["--slow", "6x"], "--slow: words such as 6x:20s-60s are needed, not '6x'"),
        (["--slow", "6:20s-60s"], "words such as 6x:20s-60s"),
        (["--slow", "6x:20s-1e3s"], "words such as 6x:20s-60s"),
        (["--slow", "-6x:20s-60s"], "--slow"),
        (["--slow", "6x:60s-20s"], "a slow spell ends after it began"),
        (["--slow", "0x:20s-60s"], "a factor is a number from"),
        (["--slow", "6x:0s-9999999h"], "a slow spell ends after it began"),
        (["--pause", "10s"], "words such as 10s@30s"),
        (["--pause", "0s@30s"], "a pause is longer than 0 s"),
        (["--neighbour", "2x:5s"], "words such as 2x:5s/20s"),
        (["--neighbour", "2x:20s/5s"], "a neighbour is there"),
        (["--drift", "0.5"], "words such as 0.5:3600s"),
        (["--drift", "1:60s"], "a drift is by a part"),
        (["--jitter", "much"], "words such as 0.2 or 0.2:5s"),
        (["--jitter", "11"], "a jitter is a number from 0 to 10"),
        (["--jitter", "1" * 200], "words such as 0.2 or 0.2:5s"),
        (["--sweep", "--jitter", "0.2"], "--sweep and --timeline are of a steady engine"),
        (["--timeline", "--slow", "6x:1s-2s"], "--sweep and --timeline are of a steady engine"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(words: list[str], issue: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, nothing on standard output, and no more than a part of what was given."""
    assert main(["simulate", *words]) == 2
    out, err = capsys.readouterr()
    assert issue in err
    assert err.count("\n") == 1
    assert len(err) < 250
    assert out == ""
