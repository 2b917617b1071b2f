"""The last changes of a server: by its audit log, and by its metrics."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta, timezone

from readings import END_S, reading_of

from headway.api.schema import AuditEntry
from headway_dashboard.analysis.changes.last_changes import MOST, change_rows
from headway_dashboard.analysis.queries.model import Point
from headway_dashboard.analysis.server import switches
from headway_dashboard.analysis.server.status import Status

PAUSE = AuditEntry(
    time="1970-01-01T00:33:17Z", actor="ann", role="operator", address="-", action="pause", before="open",
    after="paused", revision=2, reason="disk swap", result="applied",
)  # fmt: skip
HISTORY = reading_of(
    {
        switches.PRESETS: {("a:1", "balanced", "1"): [1, 1, 0, 0], ("a:1", "latency", "2"): [0, 0, 1, 1]},
        switches.STATES: {("a:1", "up"): [1, 0, 0, 1], ("a:1", "restarting"): [0, 1, 1, 0]},
    }
)


def when_and_what(rows: list[dict[str, str]]) -> list[tuple[str, str]]:
    """The time of day and the change of each row."""
    return [(row["When (UTC)"][11:], row["Change"]) for row in rows]


def test_the_newest_change_comes_first() -> None:
    """Presets and the engine's state in one list, in UTC."""
    assert when_and_what(change_rows(HISTORY, Status())) == [
        ("00:33:20", "Engine up"),
        ("00:33:18", "Preset latency"),
        ("00:33:16", "Engine restarting"),
    ]


def test_times_are_on_the_clock_of_the_visitor() -> None:
    """The heading names the zone; without one it is UTC."""
    (row,) = change_rows(HISTORY, Status(), timezone(timedelta(hours=-2)))[:1]
    assert row["When (UTC-02:00)"] == "1969-12-31 22:33:20"


def test_commands_come_from_the_audit_log_with_their_author_and_reason() -> None:
    """A pause is no metric; what was refused changed nothing; what came after the time shown is not in it."""
    refused = PAUSE.model_copy(update={"result": "refused: stale"})
    later = PAUSE.model_copy(update={"time": "1970-01-01T01:00:00Z"})
    rows = change_rows(HISTORY, Status(changes=(later, refused, PAUSE)))
    assert when_and_what(rows) == [
        ("00:33:20", "Engine up"), ("00:33:17", "Pause: open → paused"), ("00:33:16", "Engine restarting")
    ]  # fmt: skip
    assert (rows[1]["By"], rows[1]["Reason"]) == ("ann", "disk swap")


def test_the_end_of_a_trial_says_why() -> None:
    """The server gives no reason of an author; its result has one."""
    end = {"action": "end_trial", "before": "serial", "after": "serial", "reason": "", "result": "reverted: too many"}
    row = change_rows(HISTORY, Status(changes=(PAUSE.model_copy(update=end),)))[1]
    assert (row["Change"], row["Reason"]) == ("End trial: serial", "reverted: too many")


def test_two_servers_are_no_server_that_switches_between_them() -> None:
    """Each has its own revisions, even where a scrape of one is missing."""
    found = reading_of(
        {switches.PRESETS: {("a:1", "balanced", "1"): [1, 1, 1, 1], ("b:1", "balanced", "4"): [1, None, 1, 1]}}
    )
    assert change_rows(found, Status()) == []
    (row,) = change_rows(found, Status(servers={"a:1": Status(changes=()), "b:1": Status(changes=(PAUSE,))}))
    assert (row["Server"], row["Change"]) == ("b:1", "Pause: open → paused")


def test_a_switch_has_the_time_that_the_server_tells() -> None:
    """A scrape sees it later; a time that belongs to an earlier switch is not taken."""
    found = {
        switches.PRESETS: {("a:1", "balanced", "1"): [1, 1, 0, 0], ("a:1", "latency", "2"): [0, 0, 1, 1]},
        switches.CHANGED: {("a:1",): [END_S - 900, END_S - 900, END_S - 55, END_S - 55]},
    }
    (mark,) = switches.switches(reading_of(found, step_s=30.0))
    assert mark.time_s == END_S - 55
    old = found | {switches.CHANGED: {("a:1",): [END_S - 900] * 4}}
    (mark,) = switches.switches(reading_of(old, step_s=30.0))
    assert mark.time_s == END_S - 30


def test_only_the_last_ones_are_listed() -> None:
    """A restless engine does not fill the page."""
    up: list[Point] = [1, 0] * 10
    down: list[Point] = [0, 1] * 10
    found = reading_of({switches.STATES: {("a:1", "up"): up, ("a:1", "silent"): down}})
    assert len(change_rows(found, Status())) == MOST


def test_where_nothing_is_known_nothing_changed() -> None:
    """No figures, no rows."""
    assert change_rows(replace(reading_of({}), end_s=0.0), Status()) == []
