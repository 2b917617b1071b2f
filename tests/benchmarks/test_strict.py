"""Tests of ``make bench-policies ARGS=--strict``: which misses fail a run, on goals that cost nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from accepted import BATCHING, ENGINE, POLICIES, SERVING, Accepted
from command import run
from goal import Goal

KEY = ("G1", "tokens/s, ours : theirs")


def goals(reached: float) -> Mapping[str, object]:
    """One goal with one figure, which wants 2, and another goal that is met."""

    def first() -> Iterator[Goal]:
        """G1: a ratio."""
        yield Goal(*KEY, 2.0, reached)

    def second() -> Iterator[Goal]:
        """G2: a bound."""
        yield Goal("G2", "CPU a token", 3.0, 1.0, most=True, unit="µs")

    return {"G1": first, "G2": second}


def outcome(tmp_path: Path, reached: float, accepted: Accepted, *words: str) -> int:
    """The exit code."""
    return run(words, goals(reached), accepted, tmp_path / "README.md")  # type: ignore[arg-type]  # as above


def test_an_unlisted_miss_fails_a_strict_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1, and the last line names the goal and the figure."""
    assert outcome(tmp_path, 1.9, {}, "--strict") == 1
    assert capsys.readouterr().out.splitlines()[-1] == "missed, and not accepted: G1 tokens/s, ours : theirs"


def test_without_strict_a_miss_is_only_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0; the table says that the figure is missed."""
    assert outcome(tmp_path, 1.9, {}) == 0
    assert "**missed** (-5 %)" in capsys.readouterr().out


def test_a_listed_miss_passes_with_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reason stands in the table."""
    assert outcome(tmp_path, 1.9, {KEY: "theirs is limited"}, "--strict") == 0
    output = capsys.readouterr().out
    assert "**missed** (-5 %): theirs is limited |" in output
    assert "note:" not in output
    assert "not accepted" not in output


def test_a_listed_miss_that_is_met_is_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The entry is stale; the run passes."""
    assert outcome(tmp_path, 2.0, {KEY: "it is slow"}, "--strict") == 0
    note = "note: G1 tokens/s, ours : theirs: listed as an accepted miss, but met in this run"
    assert capsys.readouterr().out.splitlines()[-1] == note


def test_a_listed_figure_that_does_not_exist_is_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Only where its goal was run: a renamed figure must not keep its reason for ever."""
    accepted = {("G1", "a former name"): "it was slow"}
    assert outcome(tmp_path, 2.0, accepted, "--strict") == 0
    assert (
        capsys.readouterr().out.splitlines()[-1].startswith("note: G1 a former name: listed as an accepted miss, but")
    )
    assert outcome(tmp_path, 2.0, accepted, "--strict", "--only", "G2") == 0
    assert "note:" not in capsys.readouterr().out


def test_the_same_figure_of_another_goal_is_not_accepted(tmp_path: Path) -> None:
    """An entry accepts one figure of one goal."""
    assert outcome(tmp_path, 1.9, {("G2", KEY[1]): "slow"}, "--strict") == 1


def test_write_puts_the_table_between_its_marks(tmp_path: Path) -> None:
    """And leaves the text around them as it was."""
    readme = tmp_path / "README.md"
    readme.write_text("before <!-- figures -->old<!-- /figures --> after")
    assert outcome(tmp_path, 1.9, {}, "--write") == 0
    text = readme.read_text()
    assert text.startswith("before <!-- figures -->\n| goal | figure |")
    assert text.endswith("|\n<!-- /figures --> after")
    assert "old" not in text


def test_write_of_some_goals_leaves_the_rows_of_the_others(tmp_path: Path) -> None:
    """In their places; the rows of a goal that was run are replaced, and those of a new one come last."""
    readme = tmp_path / "README.md"
    readme.write_text(
        "<!-- figures -->\n| goal | figure |\n| --- | --- |\n| G0 | a |\n| G1 | old |\n| G3 | b |\n<!-- /figures -->"
    )
    assert outcome(tmp_path, 2.5, {}, "--write", "--only", "G1") == 0
    rows = [line.split(" | ")[:2] for line in readme.read_text().splitlines() if line.startswith("| G")]
    assert rows == [["| G0", "a |"], ["| G1", KEY[1]], ["| G3", "b |"]]
    assert outcome(tmp_path, 2.5, {}, "--write", "--only", "G2") == 0
    assert [line[:4] for line in readme.read_text().splitlines() if line.startswith("| G")] == [
        "| G0",
        "| G1",
        "| G3",
        "| G2",
    ]


def test_every_accepted_miss_has_a_reason() -> None:
    """More than a word."""
    assert [key for key, reason in {**POLICIES, **ENGINE, **SERVING, **BATCHING}.items() if len(reason) < 20] == []
