"""The sources and the configuration of a server as table rows."""

from __future__ import annotations

from dataclasses import replace

from readings import reading_of

from headway.api.schema import LaunchStatus, LogWarning
from headway_dashboard.analysis.queries.reading import Health
from headway_dashboard.analysis.server.source_rows import launch_words, setting_rows, source_rows, warning_rows
from headway_dashboard.analysis.server.status import Status

NOW_S = 1000.0
AWAY = Health(
    last_ok_s=NOW_S - 100, failures=9, trouble="refused", detail="nothing answers", failing_since_s=NOW_S - 98
)


def rows(health: Health, status: Status, **given: object) -> list[tuple[str, ...]]:
    """The rows, with plain spaces."""
    reading = replace(reading_of({}), health=health, source="direct scrape", **given)  # type: ignore[arg-type]  # its fields
    return [tuple(text.replace("\xa0", " ") for text in row.values()) for row in source_rows(reading, status, NOW_S)]


def test_a_source_that_answers_and_one_that_does_not() -> None:
    """How old their figures are, and why."""
    assert rows(Health(last_ok_s=NOW_S - 1), Status(known=True)) == [
        ("direct scrape", "answers", "1 s old", ""),
        ("admin API", "answers", "—", ""),
    ]
    source, admin = rows(AWAY, Status())
    assert source == ("direct scrape", "down", "1 min 40 s old", "nothing answers")
    assert admin[:2] == ("admin API", "not read")
    assert "no token" in admin[-1]


def test_a_prometheus_that_is_away_is_said() -> None:
    """Beside what stands in for it."""
    found = rows(Health(last_ok_s=NOW_S), Status(known=True), note="refused: showing the direct scrape instead.")
    assert ("Prometheus", "away", "—", "refused: showing the direct scrape instead.") in found


def test_each_of_several_servers_has_its_rows() -> None:
    """Their metrics and their admin API."""
    several = {"a:1": Health(last_ok_s=NOW_S), "b:2": AWAY}
    told = Status(servers={"a:1": Status(known=True), "b:2": Status()})
    found = {name: state for name, state, *_ in rows(Health(last_ok_s=NOW_S), told, instances=several)}
    assert found["a:1"] == found["admin API of a:1"] == "answers"
    assert (found["b:2"], found["admin API of b:2"]) == ("down", "not read")


def test_lines_settings_and_the_start_are_shown_as_they_are() -> None:
    """And so that the start can be pasted into a shell."""
    line = LogWarning(time="2026-01-01T00:00:00Z", level="WARNING", logger="headway.x", message="disk", times=3)
    assert [list(row.values()) for row in warning_rows([line])] == [
        ["2026-01-01 00:00:00", "warning", "disk", "headway.x", "3"]
    ]
    assert [list(row.values()) for row in setting_rows({"b": 2, "a": True})] == [["a", "true"], ["b", "2"]]
    launch = LaunchStatus(arguments=["headway", "serve", "a model"], variables={"HEADWAY_PRESET": "latency"})
    assert launch_words(launch) == "HEADWAY_PRESET=latency\nheadway serve 'a model'"
    assert launch_words(LaunchStatus()) == ""
