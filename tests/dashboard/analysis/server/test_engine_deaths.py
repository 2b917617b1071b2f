"""The cause of the last engine death, and the deaths that nobody ordered."""

from __future__ import annotations

import pytest
from readings import reading_of

from headway_dashboard.analysis.catalogue import engine_panels, panels
from headway_dashboard.analysis.diagnosis.facts import facts_of
from headway_dashboard.analysis.queries.model import NOTHING, Point, Series
from headway_dashboard.analysis.server import descriptions
from headway_dashboard.analysis.server.condition import Condition, State
from headway_dashboard.analysis.server.engine_deaths import last_cause, unplanned
from headway_dashboard.analysis.server.status import Status

NOW = Condition(State.NOT_READY, "")
Lines = dict[tuple[str, ...], list[Point]]


def deaths(lines: Lines) -> Series:
    """The counters of deaths by cause."""
    return reading_of({engine_panels.DEATHS_BY_CAUSE: lines})[engine_panels.DEATHS_BY_CAUSE]


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        ({("crash",): [2, 2, 2], ("recycle",): [0, 0, 1]}, "recycle"),
        ({("crash",): [1, 1, 2], ("recycle",): [0, 1, 1]}, "crash"),
        ({("crash",): [None, 1, 2], ("recycle",): [0, None, 1]}, "recycle"),
        ({("crash",): [0, 0, 0], ("recycle",): [1, 1, 1]}, "recycle"),
        ({("crash",): [1, 1, 1], ("recycle",): [1, 1, 1]}, ""),
        ({}, ""),
    ],
    ids=["just now", "a crash after a recycle", "gaps", "the only one", "too long ago", "none"],
)
def test_the_last_death(lines: Lines, cause: str) -> None:
    """The counter that grew last; of old ones only where there is no choice."""
    if lines:
        assert last_cause(deaths(lines)) == cause
    else:
        assert last_cause(NOTHING) == cause


def test_a_recycle_is_no_death() -> None:
    """The server counts it among the deaths by cause; the page does not."""
    assert unplanned(deaths({("crash",): [2], ("recycle",): [3]})) == 2
    assert unplanned(NOTHING) is None
    found = reading_of({engine_panels.DEATHS_BY_CAUSE: {("recycle",): [3]}, panels.DEATHS: [3]})
    tiles = {one.label: one.value for one in descriptions.server_tiles(found, Status(), NOW)}
    assert tiles["Engine deaths"] == "0"


@pytest.mark.parametrize(
    ("lines", "kind", "title", "planned"),
    [
        ({("crash",): [0, 0, 0], ("recycle",): [0, 1, 1]}, "info", "Recycle: the engine is being replaced", True),
        ({("crash",): [0, 1, 1], ("recycle",): [0, 0, 0]}, "warning", "The engine died and is being restarted", False),
        ({("crash",): [0, 0, 0], ("recycle",): [0, 0, 0]}, "warning", "The engine is being restarted", False),
    ],
    ids=["recycle", "crash", "unknown"],
)
def test_without_a_token_a_recycle_is_told_from_a_death(lines: Lines, kind: str, title: str, planned: bool) -> None:
    """The metrics alone say that the engine was replaced by order: neither the notice nor the diagnosis is alarmed."""
    states: Lines = {("up",): [1, 0, 0], ("restarting",): [0, 1, 1]}
    found = reading_of({panels.ENGINE_STATE: states, engine_panels.DEATHS_BY_CAUSE: lines, panels.READY: [1, 0, 0]})
    (notice,) = descriptions.notices_of(found, Status(), NOW)
    assert (notice.kind, notice.title) == (kind, title)
    assert facts_of(found, Status()).planned is planned
