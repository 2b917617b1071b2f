"""The notes of the tiles: the classes they are of, and whether they keep their bounds."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from readings import Lines, reading_of

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.server import newest_values, tile_notes
from headway_dashboard.analysis.server.condition import Condition, State
from headway_dashboard.analysis.server.newest_values import TileText
from headway_dashboard.analysis.server.objectives import ClassObjectives
from headway_dashboard.analysis.server.status import Status
from headway_dashboard.analysis.view import View

NOW = Condition(State.LIVE, "")
TILES = {tile.id: tile for tile in panels.TILES}
ALL = View(known=("realtime", "normal"))
REALTIME = View(known=("realtime", "normal"), classes=("realtime",))
TTFT: Lines = {("realtime",): [0.4], ("normal",): [3.0]}
OBJECTIVES = Status(known=True, objectives={"realtime": ClassObjectives(0.5), "normal": ClassObjectives(2.0)})

Answers = Mapping[Expression, Lines | list[float | None]]


def note(tile: str, answers: Answers, view: View = ALL, status: Status | None = None) -> tuple[str, str]:
    """The note of a tile, and its colour."""
    text = TileText("", "1", "", "")
    found = tile_notes.noted(text, TILES[tile], reading_of(answers), status or Status(), NOW, view)
    return found.note, found.tone


@pytest.mark.parametrize(
    ("tile", "answers", "view", "expected"),
    [
        ("requests", {}, ALL, ("", "blue")),
        ("requests", {}, REALTIME, ("realtime only", "blue")),
        ("tokens", {}, REALTIME, ("all classes", "blue")),
        ("errors", {panels.ERROR_SHARE: [0.01]}, ALL, ("", "blue")),
        ("errors", {panels.ERROR_SHARE: [0.011]}, ALL, ("over 1 %", "red")),
        ("errors", {panels.ERROR_SHARE: [None]}, ALL, ("", "blue")),
        (
            "errors",
            {panels.ERROR_SHARE: [0.2], panels.ENDED: [15], panels.FAILED: [3]},
            ALL,
            ("3 of 15, over 1 %", "red"),
        ),
        ("errors", {panels.ERROR_SHARE: [0.0], panels.ENDED: [5.1], panels.FAILED: [0]}, ALL, ("0 of 5", "blue")),
        ("queue", {panels.QUEUED: [128.0], panels.LIMIT: [32.0]}, ALL, ("", "blue")),
        ("queue", {panels.QUEUED: [129.0], panels.LIMIT: [32.0]}, ALL, ("over 4 batches", "orange")),
        ("oldest", {panels.QUEUE_AGE_BY_CLASS: {("normal",): [0.6]}}, ALL, ("too old: normal", "orange")),
        ("oldest", {panels.QUEUE_AGE_BY_CLASS: {("normal",): [0.6]}}, REALTIME, ("realtime only", "blue")),
    ],
)
def test_a_bound_is_said_with_its_colour(tile: str, answers: Answers, view: View, expected: tuple[str, str]) -> None:
    """Just inside there is no word, just outside there is one; a filter is always said."""
    assert note(tile, answers, view) == expected


def test_each_class_is_compared_with_its_own_objective() -> None:
    """From the preset's settings, and without a token from the metrics."""
    answers: Answers = {panels.TTFT_P95_BY_CLASS: TTFT}
    assert note("ttft", answers, status=OBJECTIVES) == ("over objective: normal", "red")
    assert note("ttft", answers, REALTIME, OBJECTIVES) == ("realtime only · within objectives", "green")
    assert note("ttft", answers) == ("", "blue")
    assert note("ttft", {**answers, tile_notes.OBJECTIVE: {("normal",): [1.0]}}) == ("over objective: normal", "red")


def test_both_objectives_are_judged_and_refusals_are_no_success() -> None:
    """First tokens in time are not all: tokens may come slowly, and a class that is refused has few first tokens."""
    answers: Answers = {panels.TTFT_P95_BY_CLASS: {("realtime",): [0.4], ("normal",): [1.0]}}
    both = {"realtime": ClassObjectives(0.5), "normal": ClassObjectives(2.0, inter_token_slo_s=0.1)}
    status = Status(known=True, objectives=both)
    slow: Answers = {**answers, panels.INTER_TOKEN_P95_BY_CLASS: {("normal",): [0.2]}}
    assert note("ttft", answers, status=status) == ("within objectives", "green")
    assert note("ttft", slow, status=status) == ("in time; between tokens over objective: normal", "red")
    assert note("ttft", {**slow, tile_notes.INTER_TOKEN_OBJECTIVE: {("normal",): [0.1]}})[1] == "red"
    refused: Answers = {**answers, panels.ERROR_SHARE_BY_CLASS: {("realtime",): [1.0], ("normal",): [0.0]}}
    assert note("ttft", refused, status=status) == ("of those served; errors: realtime", "orange")


def test_figures_of_an_engine_that_is_gone_are_not_shown_as_now() -> None:
    """Rates and quantiles look back half a minute: after a death they are of the past, and nothing in green."""
    gone = reading_of(
        {
            panels.ENGINE_STATE: {("up",): [0], ("restarting",): [1]},
            panels.TOKENS: [103.0],
            panels.TTFT[0.95]: [59.5],
            panels.TTFT_P95_BY_CLASS: TTFT,
        }
    )
    for tile in ("tokens", "batch", "ttft"):
        text = newest_values.tile_text(TILES[tile], gone, TILES[tile].expression, NOW)
        found = tile_notes.noted(text, TILES[tile], gone, OBJECTIVES, NOW, ALL)
        assert (found.value, found.note, found.tone) == ("engine down", "", "blue")


def test_a_class_without_an_objective_is_not_judged() -> None:
    """An infinite objective, or one that is no number, is none."""
    status = Status(known=True, objectives={"realtime": ClassObjectives(), "normal": ClassObjectives(None)})
    assert note("ttft", {panels.TTFT_P95_BY_CLASS: TTFT}, status=status) == ("", "blue")


def test_old_figures_are_not_judged() -> None:
    """A tile that shows the last known value says only that."""
    text = TileText("", "1", "", "last known")
    found = tile_notes.noted(text, TILES["errors"], reading_of({panels.ERROR_SHARE: [0.5]}), Status(), NOW, ALL)
    assert found is text


def test_servers_with_different_presets_have_no_objective_in_common() -> None:
    """The longest of them would call those of the others well."""
    figures: Answers = {panels.TTFT_P95_BY_CLASS: {("normal",): [0.9]}, tile_notes.OBJECTIVE: {("normal",): [10.0]}}
    balanced: Lines = {("balanced", "1"): [1.0], ("balanced", "4"): [1.0], ("throughput", "1"): [0.0]}
    assert note("ttft", {**figures, panels.PRESET: balanced}) == ("within objectives", "green")
    assert note("ttft", {**figures, panels.PRESET: {**balanced, ("throughput", "2"): [1.0]}}) == ("", "blue")
