"""The last changes of a server, by its metrics."""

from __future__ import annotations

from readings import reading_of

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.queries.model import Point
from headway_dashboard.analysis.server.last_changes import MOST, change_rows


def test_the_newest_change_comes_first() -> None:
    """Presets and the engine's state in one list, in UTC."""
    found = reading_of(
        {
            panels.PRESETS_SEEN: {("balanced", "1"): [1, 1, 0, 0], ("latency", "2"): [0, 0, 1, 1]},
            panels.ENGINE_STATES_SEEN: {("up",): [1, 0, 0, 1], ("restarting",): [0, 1, 1, 0]},
        }
    )
    assert change_rows(found) == [
        {"When (UTC)": "1970-01-01 00:33:20", "Change": "Engine up"},
        {"When (UTC)": "1970-01-01 00:33:18", "Change": "Preset latency"},
        {"When (UTC)": "1970-01-01 00:33:16", "Change": "Engine restarting"},
    ]


def test_only_the_last_ones_are_listed() -> None:
    """A restless engine does not fill the page."""
    up: list[Point] = [1, 0] * 10
    down: list[Point] = [0, 1] * 10
    assert len(change_rows(reading_of({panels.ENGINE_STATES_SEEN: {("up",): up, ("silent",): down}}))) == MOST


def test_where_nothing_is_known_nothing_changed() -> None:
    """No figures, no rows."""
    assert change_rows(reading_of({})) == []
