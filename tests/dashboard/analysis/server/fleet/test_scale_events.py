"""The events of servers: what is one, what is none, and that no gap of the source is taken for one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from readings import END_S, reading_of

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.catalogue.fleet_panels import STARTED_S, UP
from headway_dashboard.analysis.queries.metric import by_instance
from headway_dashboard.analysis.queries.model import Mark, Point
from headway_dashboard.analysis.queries.reading import Health, SourceReading
from headway_dashboard.analysis.server.fleet.scale_events import EXPRESSIONS, event_rows, scale_events

STEP_S = 10.0
THERE = [1.0] * 6


def history(
    up: Mapping[str, Sequence[Point]],
    *,
    starts: Mapping[str, Sequence[Point]] | None = None,
    servers: Sequence[str] = ("a", "b"),
    step_s: float = STEP_S,
    interval_s: float = 2.0,
) -> SourceReading:
    """A reading of ``up`` by instance; what is no server has no metric of Headway."""
    ready = {(name,): [1.0] * len(line) for name, line in up.items() if name in servers}
    answers = {
        by_instance(UP): {(name,): line for name, line in up.items()},
        by_instance(STARTED_S): {(name,): line for name, line in (starts or {}).items()},
        by_instance(panels.READY): ready,
    }
    assert answers.keys() == set(EXPRESSIONS)
    known = {answer: lines for answer, lines in answers.items() if lines}
    instances = {name: Health(END_S) for name in servers}
    return replace(reading_of(known, step_s=step_s), instances=instances, interval_s=interval_s)


def told(reading: SourceReading, step_s: float = STEP_S) -> list[tuple[int, str, str]]:
    """The events by the place of their instant, the server and the word."""
    last = len(next(iter(reading.series.values())).times_s) - 1
    return [(last - round((END_S - one.time_s) / step_s), one.of, one.label) for one in scale_events(reading)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ([1, 1, 1, 1, 1, 1], []),
        ([1, 1, 0, 0, 0, 0], [(2, "a", "gone")]),
        ([1, 1, None, None, None, None], [(2, "a", "gone")]),
        ([1, 1, 0, 0, 1, 1], [(2, "a", "gone"), (4, "a", "appeared")]),
        ([0, 0, 0, 1, 1, 1], [(3, "a", "appeared")]),
        ([None, None, None, 1, 1, 1], [(3, "a", "appeared")]),
        ([0, 0, 0, 0, 0, 0], []),
        ([None, None, None, None, 0, 0], []),
        ([None, 1, 1, 1, 1, 1], []),
    ],
    ids=[
        "there all the time", "does not answer any more", "is scraped no more", "away for a while",
        "answers at last", "is scraped at last", "never answers", "is scraped and does not answer",
        "first scraped a little later",
    ],
)  # fmt: skip
def test_events_of_one_server(line: list[Point], expected: list[tuple[int, str, str]]) -> None:
    """Beside one that is there all the time."""
    assert told(history({"a": line, "b": THERE})) == expected


def test_a_server_that_is_there_from_the_first_instant_has_not_appeared() -> None:
    """Our knowledge begins with that instant; a coarse grid has no instant between the first scrapes of two servers."""
    assert told(history({"a": THERE, "b": THERE})) == []
    late: list[Point] = [None, *THERE[1:]]
    assert told(history({"a": late, "b": THERE}, step_s=600.0), 600.0) == [(1, "a", "appeared")]


def test_one_scrape_that_fails_is_no_event() -> None:
    """The figures of a server are current for three scrapes and two seconds more."""
    line: list[Point] = [1, 1, 0, 1, 1, 1]
    assert told(history({"a": line, "b": THERE}, interval_s=15.0)) == []
    assert told(history({"a": line, "b": THERE}, step_s=2.0), 2.0) == []
    assert told(history({"a": line, "b": THERE}, interval_s=1.0)) == [(2, "a", "gone"), (3, "a", "appeared")]


def test_another_start_of_the_process_is_a_restart() -> None:
    """With or without a failed scrape before it, and in place of its appearance."""
    starts: dict[str, Sequence[Point]] = {"a": [100, 100, 100, 900, 900, 900], "b": [100] * 6}
    assert told(history({"a": THERE, "b": THERE}, starts=starts)) == [(3, "a", "restarted")]
    away: dict[str, Sequence[Point]] = {"a": [100, None, None, 900, 900, 900], "b": [100] * 6}
    line: list[Point] = [1, 0, 0, 1, 1, 1]
    assert told(history({"a": line, "b": THERE}, starts=away)) == [(1, "a", "gone"), (3, "a", "restarted")]


def test_a_gap_of_the_source_is_no_event() -> None:
    """No server was known then: whatever scrapes them was away. A restart in it is one."""
    gap: list[Point] = [1, 1, None, None, 1, 1]
    assert told(history({"a": gap, "b": gap})) == []
    starts: dict[str, Sequence[Point]] = {"a": [100, 100, None, None, 900, 900]}
    assert told(history({"a": gap, "b": gap}, starts=starts)) == [(4, "a", "restarted")]


def test_all_servers_can_be_gone() -> None:
    """All servers are scraped and do not answer, which is another matter than a gap."""
    line: list[Point] = [1, 1, 0, 0, 0, 0]
    assert told(history({"a": line, "b": line})) == [(2, "a", "gone"), (2, "b", "gone")]


def test_what_else_prometheus_scrapes_is_no_server() -> None:
    """A node exporter has ``up`` as well; a server that is scraped no more still has its last figures."""
    line: list[Point] = [1, 1, 0, 0, 0, 0]
    assert told(history({"a": THERE, "node": line}, servers=("a",))) == []
    removed = replace(history({"a": THERE, "b": [1, 1, None, None, None, None]}), instances={"a": Health(END_S)})
    assert told(removed) == [(2, "b", "gone")]


def test_without_figures_there_are_no_events() -> None:
    """No ``up``, or nothing at all."""
    assert scale_events(reading_of({})) == []
    assert scale_events(history({}, servers=("a",))) == []


def test_the_rows_are_the_last_events_the_newest_first() -> None:
    """On the clock of the visitor."""
    events = [Mark(60.0 * at, "gone", "server", f"s{at}") for at in range(12)]
    rows = event_rows(events, timezone(timedelta(hours=2)), most=3)
    assert [row["Server"] for row in rows] == ["s11", "s10", "s9"]
    assert rows[0] == {"When": "1970-01-01 02:11:00", "Server": "s11", "Event": "gone"}
    assert event_rows([], UTC) == []
    assert event_rows(events[:1], UTC)[0]["When"] == str(datetime.fromtimestamp(0, UTC).replace(tzinfo=None))
