"""The table of several servers: figures by server, marks against the median, and those apart that are away."""

from __future__ import annotations

from dataclasses import replace

from readings import END_S, reading_of

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.reading import Health, Reading
from headway_dashboard.analysis.server import identity
from headway_dashboard.analysis.server.instances import by_instance
from headway_dashboard.analysis.server.server_rows import EXPRESSIONS, rule_words, server_rows

GONE = Health(END_S - 100, 9, "refused", "nothing answers at this address", END_S - 98)
PLAIN: dict[Expression, float] = {
    panels.ARRIVALS: 4.0, panels.BATCH: 12.0, panels.QUEUED: 2.0, panels.KV_USE: 0.3, panels.TTFT[0.95]: 0.4,
    panels.ERROR_SHARE: 0.0, panels.READY: 1.0, panels.IN_FLIGHT: 12.0,
}  # fmt: skip


def reading(
    figures: dict[str, dict[Expression, float]],
    *,
    presets: dict[str, tuple[str, str]] | None = None,
    versions: dict[str, str] | None = None,
    away: dict[str, Health] | None = None,
    engines: dict[str, str] | None = None,
) -> Reading:
    """A reading of these servers; a figure that is not given is ``PLAIN``'s."""
    names = list(figures)
    lines = {
        by_instance(one): {(name,): [figures[name].get(one, PLAIN[one])] for name in names} for one in PLAIN
    } | {
        by_instance(panels.PRESET): {
            (name, *(presets or {}).get(name, ("balanced", "1"))): [1.0] for name in names
        },
        by_instance(identity.BUILD): {(name, (versions or {}).get(name, "0.1.0"), "cpu"): [1.0] for name in names},
        by_instance(panels.ENGINE_STATE): {
            (name, state): [float(state == (engines or {}).get(name, "up"))]
            for name in names
            for state in ("up", "restarting")
        },
    }  # fmt: skip
    assert lines.keys() == set(EXPRESSIONS)
    healths = {name: Health(last_ok_s=END_S) for name in names} | (away or {})
    return replace(reading_of(lines), instances=healths)


def test_equal_servers_have_no_marks() -> None:
    """Each row is in words, with units."""
    found = server_rows(reading({"a": {}, "b": {}, "c": {}}), END_S)
    assert found.away == []
    assert found.current[0] == {
        "Server": "a", "State": "Live", "Requests": "4\u00a0/s", "Batch": "12", "Waiting": "2", "KV cache": "30\u00a0%",
        "TTFT p95": "400\u00a0ms", "Error share": "0\u00a0%", "Preset": "balanced · 1", "Version": "0.1.0",
    }  # fmt: skip


def test_what_stands_out_is_marked() -> None:
    """Far above the median, far below it where that is a fault, and another preset or version."""
    found = server_rows(
        reading(
            {"a": {panels.QUEUED: 40.0, panels.TTFT[0.95]: 3.0}, "b": {panels.ARRIVALS: 0.0}, "c": {}},
            presets={"a": ("latency", "3")},
            versions={"b": "0.2.0"},
        ),
        END_S,
    )
    rows = {row["Server"]: row for row in found.current}
    marked = {(name, title) for name, row in rows.items() for title, text in row.items() if text[0] in "▲▼≠"}
    assert marked == {
        ("a", "Waiting"), ("a", "TTFT p95"), ("a", "Preset"), ("b", "Requests"), ("b", "Version"),
    }  # fmt: skip
    assert rows["b"]["Requests"].startswith("▼")


def test_a_server_that_is_away_stands_apart_and_is_compared_with_none() -> None:
    """Its last figures would move the median; a zero for it would be a lie."""
    found = server_rows(reading({"a": {panels.QUEUED: 10.0}, "b": {panels.QUEUED: 12.0}}, away={"c": GONE}), END_S)
    assert [row["Server"] for row in found.current] == ["a", "b"]
    assert found.away == [{"Server": "c", "State": "Down", "Why": "nothing answers at this address"}]
    assert found.rule == rule_words(2)


def test_figures_of_an_engine_that_is_away_are_not_shown() -> None:
    """They are of its last step; the state says why."""
    found = server_rows(reading({"a": {}, "b": {}, "c": {}}, engines={"b": "restarting"}), END_S)
    row = found.current[1]
    assert (row["Batch"], row["KV cache"], row["Waiting"]) == ("—", "—", "2")
    assert row["State"] == "Live, engine down"


def test_the_rule_is_said_for_two_and_for_more() -> None:
    """With two servers a median says nothing, so another rule is named."""
    assert "three times the other server's" in rule_words(2)
    assert "above" in rule_words(3)
    assert "50\u00a0%" in rule_words(3)
    for servers in (2, 3):
        assert "waiting 5" in rule_words(servers)
