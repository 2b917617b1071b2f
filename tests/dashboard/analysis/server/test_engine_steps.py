"""Figures of an engine's steps while there is no engine."""

from __future__ import annotations

import pytest
from readings import reading_of

from headway_dashboard.analysis.catalogue import engine_panels, panels
from headway_dashboard.analysis.charts.figure import figure
from headway_dashboard.analysis.server import newest_values
from headway_dashboard.analysis.server.condition import Condition, State
from headway_dashboard.analysis.server.engine_steps import engine_away, without_dead_steps

STEPS = (engine_panels.ENGINE_RUNNING, engine_panels.ENGINE_WAITING, panels.KV_USE, panels.BATCH)
AWAY = {("up",): [1, 1, 0, 0], ("restarting",): [0, 0, 1, 1]}


@pytest.mark.parametrize("state", ["restarting", "lost", "silent"])
def test_a_dead_engine_runs_nothing(state: str) -> None:
    """The metrics keep the last step's figures; from the death on they are a gap, and not a flat line."""
    held = {step: [6.0] * 4 for step in STEPS}
    states = {("up",): [1, 1, 0, 0], (state,): [0, 0, 1, 1]}
    shown = without_dead_steps(reading_of({**held, panels.ENGINE_STATE: states}))
    assert all(list(shown[step].line()) == [6.0, 6.0, None, None] for step in STEPS)


def test_the_chart_of_the_engine_has_a_gap() -> None:
    """The lines of the chart end with the engine."""
    answers = {panels.ENGINE_STATE: AWAY, engine_panels.ENGINE_RUNNING: [6.0] * 4}
    drawn = figure(engine_panels.ENGINE_PANEL, without_dead_steps(reading_of(answers)))
    assert drawn.traces[0]["y"] == [6.0, 6.0, None, None]


def test_figures_of_the_server_stay() -> None:
    """The queue is the server's: it is counted while the engine is away."""
    shown = without_dead_steps(reading_of({panels.QUEUED: [3.0] * 4, panels.ENGINE_STATE: AWAY}))
    assert list(shown[panels.QUEUED].line()) == [3.0] * 4


@pytest.mark.parametrize("states", [{}, {("up",): [1, 1]}], ids=["unknown", "up"])
def test_nothing_is_cleared_without_reason(states: dict[tuple[str, ...], list[float | None]]) -> None:
    """An engine that works, or a server that does not tell."""
    found = reading_of({panels.KV_USE: [0.5, 0.5], panels.ENGINE_STATE: states} if states else {panels.KV_USE: [0.5]})
    assert without_dead_steps(found) is found
    assert engine_away(found) == ""


def test_the_tile_and_the_table_say_so() -> None:
    """Words in place of the figure: not the last batch, and no running requests."""
    answers = {
        panels.ENGINE_STATE: AWAY,
        panels.BATCH: [6.0] * 4,
        panels.LIMIT: [32.0] * 4,
        panels.IN_FLIGHT_BY_CLASS: {("normal",): [6.0] * 4},
    }
    shown = without_dead_steps(reading_of(answers))
    batch = next(tile for tile in panels.TILES if tile.id == "batch")
    text = newest_values.tile_text(batch, shown, panels.BATCH, Condition(State.NOT_READY, ""))
    assert text.value == "engine down"
    assert newest_values.class_rows(shown, ("normal",))[0]["Running"] == "engine down"
