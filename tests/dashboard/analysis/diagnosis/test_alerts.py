"""The alerts of a page: the conditions of the rules, evaluated from samples as Prometheus evaluates them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import yaml
from running_server import ROOT

from headway.api.schema import Silence
from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.catalogue.alerts import RULES
from headway_dashboard.analysis.diagnosis.alerts import EXPRESSIONS, Alert, alert_marks, alerts_of
from headway_dashboard.analysis.queries.model import Grid
from headway_dashboard.analysis.queries.reading import Health, SourceReading
from headway_dashboard.analysis.server.condition import Condition, State
from headway_dashboard.sources.exposition import SampleKey
from headway_dashboard.sources.ring import Ring

NOW = Condition(State.LIVE, "")
STEP_S = 15.0
SCENARIOS = yaml.safe_load((ROOT / "deploy" / "prometheus" / "rules_test.yml").read_text(encoding="utf-8"))["tests"]
#: A group of samples of promtool: the first value, by how much each grows, and how many follow it.
GROUP = re.compile(r"([\d.]+)(?:\+([\d.]+))?(?:x(\d+))?")
SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0}


def seconds(text: str) -> float:
    """A duration of Prometheus."""
    return sum(float(number) * SECONDS[unit] for number, unit in re.findall(r"(\d+)([hms])", text))


def samples(values: str) -> list[float | None]:
    """The values of a series of promtool, a sample each; ``_`` is a missing one."""
    found: list[float | None] = []
    for group in values.split():
        count, one = re.fullmatch(r"_x(\d+)", group), GROUP.fullmatch(group)
        if count:
            found += [None] * int(count[1])
        else:
            assert one, group
            found += [float(one[1]) + at * float(one[2] or 0) for at in range(int(one[3] or 0) + 1)]
    return found


def ring_of(series: Mapping[str, str], interval_s: float = STEP_S) -> Ring:
    """A ring that has scraped these series of promtool."""
    ring = Ring(10 * 3600.0, interval_s + 1, max_values=10_000_000)
    columns: dict[SampleKey, Sequence[float | None]] = {
        (text.split("{")[0], tuple(re.findall(r'(\w+)="([^"]*)"', text))): samples(values)
        for text, values in series.items()
    }
    for at in range(max(map(len, columns.values()))):
        row = ((key, line[at] if at < len(line) else None) for key, line in columns.items())
        ring.add(at * interval_s, [(key, value) for key, value in row if value is not None])
    return ring


def reading_of(ring: Ring, end_s: float, range_s: float = 300.0, instances: Iterable[str] = ("a",)) -> SourceReading:
    """What a page knows at a time."""
    on = Grid(end_s - range_s, end_s, STEP_S, 30.0)
    series = {expression: ring.evaluate(expression, on) for expression in EXPRESSIONS}
    healths = {name: Health(end_s) for name in instances}
    return SourceReading(series, Health(end_s), STEP_S, "test", range_s=range_s, end_s=end_s, instances=healths)


def names(ring: Ring, end_s: float) -> list[str]:
    """The names of the alerts that a page shows at a time."""
    return [one.name for one in alerts_of(reading_of(ring, end_s), NOW)]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario["name"] for scenario in SCENARIOS])
def test_the_page_and_prometheus_agree_on_every_rule(scenario: Mapping[str, Any]) -> None:
    """A rule holds on the page as long as promtool is shown to fire it, for the same server and labels."""
    ring = ring_of({one["series"]: one["values"] for one in scenario["input_series"]}, seconds(scenario["interval"]))
    rules = {rule.name: rule for rule in RULES if rule.asked in EXPRESSIONS}
    for test in scenario["alert_rule_test"]:
        if (rule := rules.get(test["alertname"])) is None:
            continue
        end_s = seconds(test["eval_time"])
        lines = ring.evaluate(rule.asked, Grid(end_s - seconds(rule.lasting), end_s, STEP_S, 30.0)).lines
        fires = [dict(zip(rule.asked.by, key, strict=True)) for key, line in lines.items() if None not in line]
        expected = sorted(sorted(one["exp_labels"].items()) for one in test["exp_alerts"])
        assert sorted(sorted({**fire, "severity": rule.severity}.items()) for fire in fires) == expected, rule.name


def test_an_alert_names_its_server_and_its_labels() -> None:
    """The line with the largest value, and how many more there are; with one server its name says nothing."""
    oldest = 'headway_queue_oldest_wait_seconds{{job="",instance="{}",class="{}"}}'
    waits = {("a", "realtime"): "3x40", ("b", "normal"): "24x40", ("b", "batch"): "9x40"}
    timeouts = {("a", "realtime"): "5x40", ("b", "normal"): "30x40", ("b", "batch"): "300x40"}
    ring = ring_of(
        {oldest.format(*key): values for key, values in waits.items()}
        | {oldest.replace("oldest_wait", "timeout").format(*key): values for key, values in timeouts.items()}
    )
    (alert,) = alerts_of(reading_of(ring, 600.0, instances="ab"), NOW)
    assert alert == Alert(
        "HeadwayQueueOld",
        "warning",
        "b: a request of class normal has waited 80\xa0% of its longest time in the queue (and 1 more)",
        since_s=alert.since_s,
        of="normal",
        value="80\xa0%",
        fires_at="> 50 %",
        action="At 100 % requests of the class expire. Switch to `throughput`, or add a server.",
    )
    (alone,) = alerts_of(reading_of(ring, 600.0), NOW)
    assert alone.text == "a request of class normal has waited 80\xa0% of its longest time in the queue (and 1 more)"


def test_the_worst_come_first_and_old_figures_raise_nothing() -> None:
    """Only that the server is away is known of a server that is away."""
    labels = '{job="",instance="a"}'
    reading = reading_of(ring_of({f"headway_severity{labels}": "2x40", f"headway_ready{labels}": "0x40"}), 600.0)
    assert [one.name for one in alerts_of(reading, NOW)] == ["HeadwayNotReady", "HeadwayDegraded"]
    assert alerts_of(reading, replace(NOW, state=State.STALE)) == ()
    assert alerts_of(reading, replace(NOW, state=State.DOWN)) == (
        Alert(
            "HeadwayDown",
            "critical",
            "the server does not answer",
            fires_at="no answer to a scrape, after one within the last day",
            action="Look at the server's log; its unit or container should have restarted it.",
        ),
    )


def test_silenced_alerts_come_last() -> None:
    """However bad they are; a silence of an alert that does not hold is not shown."""
    labels = '{job="",instance="a"}'
    reading = reading_of(ring_of({f"headway_severity{labels}": "2x40", f"headway_ready{labels}": "0x40"}), 600.0)
    silence = Silence(alert="HeadwayNotReady", since="2026-01-01T00:00:00Z", ends="2026-01-01T01:00:00Z", actor="ann")
    found = alerts_of(reading, NOW, silences=[silence, silence.model_copy(update={"alert": "HeadwayQueueOld"})])
    assert [(one.name, one.silence) for one in found] == [("HeadwayDegraded", None), ("HeadwayNotReady", silence)]


def test_an_alert_knows_since_when_it_holds() -> None:
    """By the longer of the two readings; where it held from the first instant on, at least since then."""
    oldest = 'headway_queue_oldest_wait_seconds{job="",instance="a",class="normal"}'
    ring = ring_of({oldest: "3x19 25x40", oldest.replace("oldest_wait", "timeout"): "30x60"})
    (seen,) = alerts_of(reading_of(ring, 510.0), NOW)
    assert (seen.since_s, seen.seen) == (300.0, True)
    (long,) = alerts_of(reading_of(ring, 800.0, 200.0), NOW)
    assert (long.since_s, long.seen) == (600.0, False)
    (both,) = alerts_of(reading_of(ring, 800.0, 200.0), NOW, reading_of(ring, 800.0, 590.0))
    assert (both.since_s, both.seen) == (300.0, True)


def test_a_time_of_which_nothing_is_known_is_no_beginning() -> None:
    """The dashboard was started because of the trouble: it is older than what is known of it."""
    labels = '{job="",instance="a"}'
    ring = ring_of({f"headway_ready{labels}": "_x20 0x40"})
    reading = reading_of(ring, 600.0, 570.0)
    series = {**reading.series, panels.READY: ring.evaluate(panels.READY, Grid(30.0, 600.0, STEP_S, 30.0))}
    (alert,) = alerts_of(replace(reading, series=series), NOW)
    assert (alert.name, alert.seen) == ("HeadwayNotReady", False)
    assert alert_marks(replace(reading, series=series)) == []


def test_what_a_counter_gains_from_the_first_sample_on_is_no_beginning() -> None:
    """The refusals had gone on before the dashboard was started; those that come after a quiet minute begin then."""
    labels = '{job="",instance="a"}'
    refusals = 'headway_refusals_total{job="",instance="a",class="realtime",reason="queue_full"}'
    for values, seen, marks in (("_x20 900+5x40", False, 0), ("_x20 900x10 900+5x30", True, 1)):
        ring = ring_of({f"headway_ready{labels}": "_x20 1x40", refusals: values})
        reading = reading_of(ring, 600.0, 570.0)
        series = {**reading.series, panels.READY: ring.evaluate(panels.READY, Grid(30.0, 600.0, STEP_S, 30.0))}
        reading = replace(reading, series=series)
        assert {one.seen for one in alerts_of(reading, NOW)} == {seen}
        assert [one.label for one in alert_marks(reading)].count("RealtimeRefused") == marks


def test_of_several_servers_the_one_that_answers_no_more_is_an_alert() -> None:
    """By name, since it failed. A server that has not answered yet is none, nor is one whose figures are a bit old."""
    labels = '{job="",instance="a"}'
    reading = reading_of(ring_of({f"headway_ready{labels}": "1x40"}), 600.0)
    healths = {
        "a": Health(600.0),
        "b": Health(500.0, 9, "refused", "gone", 515.0),
        "c": Health(None, 9, "refused", "gone", 515.0),
        "d": Health(560.0, 1, "silent", "", 575.0),
    }
    (alert,) = alerts_of(replace(reading, instances=healths), NOW)
    assert (alert.name, alert.severity, alert.text) == ("HeadwayDown", "critical", "b: the server does not answer")
    assert (alert.since_s, alert.seen) == (515.0, True)
    assert alerts_of(replace(reading, instances={"b": healths["b"]}), NOW) == ()


def test_every_rule_says_when_it_fires() -> None:
    """In the words of the documentation."""
    assert all(rule.fires_at for rule in RULES)
    rules = {rule.name: rule for rule in RULES}
    assert rules["HeadwayKvCacheFull"].fires_at == "> 98 %"
    assert rules["HeadwayQueueOld"].fires_at == "> 50 %"


def test_a_short_memory_starves_nobody() -> None:
    """Ten minutes have to be known before a class counts as starved."""
    labels = '{job="",instance="a",class="batch"}'
    ring = ring_of({f"headway_queue_depth{labels}": "3x60", f"headway_queue_wait_seconds_count{labels}": "7x60"})
    assert names(ring, 300.0) == []
    assert names(ring, 900.0) == ["HeadwayClassStarves"]


def test_a_switch_of_a_single_server_is_no_difference_between_servers() -> None:
    """Its old preset is still held for some seconds; of two servers another preset is one."""
    info = 'headway_preset_info{{job="",instance="{}",preset="{}",revision="1"}}'
    switched = ring_of({info.format("a", "balanced"): "1x59 _x1", info.format("a", "latency"): "_x60 1x0"})
    assert names(switched, 60 * STEP_S) == []
    assert alert_marks(reading_of(switched, 60 * STEP_S)) == []
    ring = ring_of({info.format("a", "balanced"): "1x60", info.format("b", "latency"): "1x60"})
    (found,) = alerts_of(reading_of(ring, 60 * STEP_S, instances="ab"), NOW)
    assert (found.name, found.text) == ("HeadwayPresetsDiffer", "the servers run 2 different presets")


def test_a_server_that_begins_again_or_comes_back_raises_nothing() -> None:
    """Growth is counted on each server: neither a fall of the sum nor its jump is a burst of failures."""
    ends = 'headway_outcomes_total{{job="",instance="{}",outcome="{}"}}'
    deaths = 'headway_engine_deaths_total{{job="",instance="{}",cause="crash"}}'
    restarted, returned, steady = "900x20 0x40", "700x10 _x20 700x30", "0+1x61"
    counters = {
        ends.format("a", "failed"): restarted,
        ends.format("b", "failed"): returned,
        ends.format("a", "completed"): steady,
        ends.format("b", "completed"): steady,
        deaths.format("a"): restarted,
        deaths.format("b"): returned,
    }
    ring = ring_of(counters)
    assert [found for at in range(62) if (found := names(ring, at * STEP_S))] == []
    assert names(ring_of({deaths.format("b"): f"{returned} 701"}), 62 * STEP_S) == ["HeadwayEngineReplaced"]


def test_an_alert_that_begins_to_hold_is_one_mark() -> None:
    """However long it holds; what held all the time, and what ends, is none."""
    labels = 'job="",instance="a"'
    ring = ring_of(
        {f"headway_ready{{{labels}}}": "1x59 0x20 1x20", f'headway_engine_state{{{labels},state="silent"}}': "1x100"}
    )
    marks = alert_marks(reading_of(ring, 100 * STEP_S, 90 * STEP_S))
    assert [(mark.time_s, mark.label, mark.kind) for mark in marks] == [(60 * STEP_S, "NotReady", "alert")]
