"""The table of several servers: figures by server, marks against the median, those that are away, and all together."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, timedelta, timezone

from readings import END_S, reading_of

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.metric import by_instance
from headway_dashboard.analysis.queries.model import Labels
from headway_dashboard.analysis.queries.reading import Health, SourceReading
from headway_dashboard.analysis.server.fleet import columns
from headway_dashboard.analysis.server.fleet.columns import EXPRESSIONS, HEADINGS, Cell
from headway_dashboard.analysis.server.fleet.rows import Rows, as_they_were, fleet_rows, rule_words

GONE = Health(END_S - 100, 9, "refused", "nothing answers at this address", END_S - 98)
PLAIN: dict[Expression, float] = {
    panels.ARRIVALS: 4.0, panels.SEATS: 12.0, panels.QUEUED: 2.0, panels.OLDEST: 0.5, panels.KV_USE: 0.3,
    panels.TTFT[0.95]: 0.4, panels.ERROR_SHARE: 0.0, panels.READY: 1.0, panels.IN_FLIGHT: 12.0, panels.LIMIT: 32.0,
}  # fmt: skip
#: Of all servers, as the source merges them: no sum and no mean of the rows would give these.
MERGED: dict[Expression, float] = {
    panels.ARRIVALS: 8.0, panels.SEATS: 24.0, panels.QUEUED: 4.0, panels.OLDEST: 0.5, panels.KV_USE: 0.3,
    panels.TTFT[0.95]: 0.7, panels.ERROR_SHARE: 0.25, panels.LIMIT: 64.0,
}  # fmt: skip


def reading(
    figures: dict[str, dict[Expression, float]],
    *,
    presets: dict[str, tuple[str, str]] | None = None,
    versions: dict[str, str] | None = None,
    away: dict[str, Health] | None = None,
    engines: dict[str, str] | None = None,
    starts_s: dict[str, float] | None = None,
) -> SourceReading:
    """A reading of these servers; a figure that is not given is ``PLAIN``'s."""
    names = list(figures)
    each: dict[Expression, dict[Labels, list[float]]] = {
        by_instance(one): {(name,): [figures[name].get(one, PLAIN[one])] for name in names} for one in PLAIN
    }
    each |= {one: {(): [value]} for one, value in MERGED.items()}
    each |= {
        columns.PRESET: {(name, *(presets or {}).get(name, ("balanced", "1"))): [1.0] for name in names},
        columns.BUILD: {(name, (versions or {}).get(name, "0.1.0"), "cpu"): [1.0] for name in names},
        columns.STARTED: {(name,): [start_s] for name, start_s in (starts_s or {"a": 60.0}).items()},
        columns.ENGINE: {
            (name, state): [float(state == (engines or {}).get(name, "up"))]
            for name in names
            for state in ("up", "restarting")
        },
    }
    assert each.keys() == set(EXPRESSIONS)
    healths = {name: Health(last_ok_s=END_S) for name in names} | (away or {})
    return replace(reading_of(each), instances=healths)


def titled(cells: tuple[Cell, ...]) -> dict[str, str]:
    """The texts of a row by the titles of the columns."""
    return {heading.title: cell.text for heading, cell in zip(HEADINGS, cells, strict=True)}


def rows_of(found: Rows) -> dict[str, dict[str, str]]:
    """The texts of all rows."""
    return {name: titled(cells) for name, cells in found.rows.items()}


def test_equal_servers_have_no_marks() -> None:
    """Each row is in words, with units."""
    found = fleet_rows(reading({"a": {}, "b": {}, "c": {}}), END_S, UTC)
    assert rows_of(found)["a"] == {
        "Server": "a", "State": "Live", "Ready": "yes", "Requests": "4\u00a0/s", "Seats": "12 / 32", "Waiting": "2",
        "Oldest wait": "500\u00a0ms", "KV cache": "30\u00a0%", "TTFT p95": "400\u00a0ms", "Error share": "0\u00a0%",
        "Preset": "balanced · 1", "Version": "0.1.0", "Since": "00:01:00",
    }  # fmt: skip


def test_what_stands_out_is_marked() -> None:
    """Far above the median, far below it where that is a fault, and another preset or version."""
    found = fleet_rows(
        reading(
            {"a": {panels.QUEUED: 40.0, panels.TTFT[0.95]: 3.0}, "b": {panels.ARRIVALS: 0.0}, "c": {}},
            presets={"a": ("latency", "3")},
            versions={"b": "0.2.0"},
        ),
        END_S,
        UTC,
    )
    rows = rows_of(found)
    marked = {(name, title) for name, row in rows.items() for title, text in row.items() if text[0] in "▲▼≠"}
    assert marked == {
        ("a", "Waiting"), ("a", "TTFT p95"), ("a", "Preset"), ("b", "Requests"), ("b", "Version"),
    }  # fmt: skip
    assert rows["b"]["Requests"].startswith("▼")


def test_a_mark_does_not_change_the_order() -> None:
    """The table is sorted by the value, and by a text without its mark."""
    found = fleet_rows(reading({"a": {panels.QUEUED: 40.0}, "b": {}}, presets={"a": ("latency", "3")}), END_S, UTC)
    values = {heading.title: cell.value for heading, cell in zip(HEADINGS, found.rows["a"], strict=True)}
    assert (values["Waiting"], values["Preset"], values["Seats"], values["Since"]) == (40.0, "latency · 3", 12.0, 60.0)


def test_a_server_that_is_away_has_no_figures_and_is_compared_with_none() -> None:
    """Its last figures would move the median; a zero for it would be a lie. Its row says since when, and why."""
    found = fleet_rows(reading({"a": {panels.QUEUED: 10.0}, "b": {}}, away={"c": GONE}), END_S, UTC)
    row = rows_of(found)["c"]
    assert {title for title, text in row.items() if text != "—"} == {"Server", "State", "Since"}
    assert (row["State"], row["Since"]) == ("Down", "00:31:42")
    assert found.rows["c"][1].note == "nothing answers at this address"
    assert [cell.value for cell in found.rows["c"][2:-1]] == [None] * (len(HEADINGS) - 3)
    assert found.rule == rule_words(2)


def test_figures_of_an_engine_that_is_away_are_not_shown() -> None:
    """Its figures are of its last step; the state says why."""
    found = fleet_rows(reading({"a": {}, "b": {panels.READY: 0.0}, "c": {}}, engines={"b": "restarting"}), END_S, UTC)
    row = rows_of(found)["b"]
    assert (row["KV cache"], row["Waiting"], row["Ready"]) == ("—", "2", "no")
    assert row["State"] == "Not ready, engine down"


def test_the_last_row_is_of_all_as_the_source_merges_them() -> None:
    """No mean of the quantiles and shares above it; who is away is counted as such."""
    found = fleet_rows(reading({"a": {}, "b": {panels.READY: 0.0}}, away={"c": GONE}), END_S, UTC)
    assert titled(found.all) == {
        "Server": "All servers", "State": "2 of 3 answer", "Ready": "1", "Requests": "8\u00a0/s", "Seats": "24 / 64",
        "Waiting": "4", "Oldest wait": "500\u00a0ms", "KV cache": "30\u00a0%", "TTFT p95": "700\u00a0ms",
        "Error share": "25\u00a0%", "Preset": "", "Version": "", "Since": "",
    }  # fmt: skip


def test_of_servers_that_are_all_away_nothing_is_known() -> None:
    """The source may still hold what they last said."""
    found = fleet_rows(reading({"a": {}, "b": {}}, away={"a": GONE, "b": GONE}), END_S, UTC)
    assert {titled(found.all)[column.title] for column in columns.COLUMNS} == {"—"}
    assert (titled(found.all)["State"], found.rule) == ("0 of 2 answer", "")


def test_at_a_fixed_time_the_servers_are_as_they_were_then() -> None:
    """One that is away now has its figures of that time, and one that was away then has none."""
    told = reading({"a": {}, "b": {}}, away={"b": GONE, "c": Health(last_ok_s=END_S + 900)})
    found = fleet_rows(as_they_were(told), told.end_s, UTC)
    rows = rows_of(found)
    assert [rows[name]["State"] for name in ("a", "b", "c")] == ["Live", "Live", "Down"]
    assert (rows["b"]["Waiting"], rows["c"]["Waiting"], rows["c"]["Since"]) == ("2", "—", "—")
    removed = replace(told, instances={"a": Health(END_S)})
    assert list(fleet_rows(as_they_were(removed), told.end_s, UTC).rows) == ["a", "b"]


def test_the_start_is_on_the_clock_of_the_visitor() -> None:
    """With its date where it was another day."""
    made = reading({"a": {}, "b": {}}, starts_s={"a": 60.0, "b": 60.0 - 86_400})
    here = rows_of(fleet_rows(made, END_S, timezone(timedelta(hours=2))))
    assert [here[name]["Since"] for name in ("a", "b")] == ["02:01:00", "1969-12-31 02:01"]


def test_the_rule_is_said_for_two_and_for_more() -> None:
    """With two servers a median says nothing, so another rule is named."""
    assert "three times the other server's" in rule_words(2)
    assert "above" in rule_words(3)
    assert "50\u00a0%" in rule_words(3)
    for servers in (2, 3):
        assert "Waiting 5" in rule_words(servers)
