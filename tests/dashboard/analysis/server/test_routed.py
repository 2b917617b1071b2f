"""The rows of the instances behind a router, from its metrics."""

from __future__ import annotations

from typing import Any

from headway_dashboard.analysis.queries.model import Series
from headway_dashboard.analysis.queries.reading import Health, SourceReading
from headway_dashboard.analysis.server import routed
from headway_dashboard.analysis.units import MISSING, written


def reading(**lines: dict[tuple[str, ...], Any]) -> SourceReading:
    """A reading with the newest points of some of the expressions."""
    named = {
        "up": routed.UP,
        "seats": routed.SEATS,
        "running": routed.RUNNING,
        "kv": routed.KV_USE,
        "first_token": routed.FIRST_TOKEN,
        "inter_token": routed.INTER_TOKEN,
        "ended": routed.EXCHANGES,
    }
    series = {named[name]: Series((0.0,), {key: (value,) for key, value in one.items()}) for name, one in lines.items()}
    return SourceReading(series, Health(), 1.0, "a test")


def test_each_instance_has_a_row_with_its_load_and_its_endings() -> None:
    """Sorted by name; the sequences of other clients are named where there are some; what is unknown is no number."""
    rows = routed.instance_rows(
        reading(
            up={("b:2",): 0.0, ("a:1",): 1.0, ("gone:3",): None},
            seats={("a:1",): 8.0, ("b:2",): 4.0},
            running={("a:1", "router"): 3.0, ("a:1", "others"): 2.0, ("b:2", "router"): 0.0, ("b:2", "others"): 0.0},
            kv={("a:1",): 0.5},
            first_token={("a:1",): 0.25, ("b:2",): None},
            inter_token={("a:1",): 0.04},
            ended={("a:1", "answered"): 2.0, ("a:1", "lost"): 0.0},
        )
    )
    assert [row["Instance"] for row in rows] == ["a:1", "b:2"]
    assert [row["State"] for row in rows] == ["healthy", "away"]
    assert [row["Running"] for row in rows] == ["3 + 2 of others / 8", "0 / 4"]
    assert (rows[0]["KV cache"], rows[1]["KV cache"]) == (written(0.5, "ratio"), MISSING)
    assert [rows[0][name] for name in ("First token", "Pace")] == [written(0.25, "seconds"), written(0.04, "seconds")]
    assert [rows[1][name] for name in ("First token", "Pace")] == [MISSING] * 2
    assert rows[0]["Answered"].startswith("2")
    assert rows[1]["Lost"] == MISSING


def test_a_server_that_routes_nothing_has_no_rows() -> None:
    """Its metrics have no instances."""
    assert routed.instance_rows(reading()) == []
