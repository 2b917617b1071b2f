"""Troubles that are shorter than a step of the chart, in the ring and as Prometheus is asked for them."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.charts.marks import EXPRESSIONS, marks_of
from headway_dashboard.analysis.queries.expressions import Peak
from headway_dashboard.analysis.queries.model import Grid, Mark, grid
from headway_dashboard.analysis.queries.reading import Health, SourceReading
from headway_dashboard.analysis.server import switches
from headway_dashboard.sources.continued import Continued
from headway_dashboard.sources.exposition import SampleKey
from headway_dashboard.sources.ring import Ring

EVERY_S, STALE_S, RANGE_S, BEGAN_S = 2.0, 6.0, 1200.0, 10_000.0
STATES = ("up", "silent", "restarting", "lost")


def samples(state: str, revision: int = 1) -> Iterator[tuple[SampleKey, float]]:
    for one in STATES:
        yield ("headway_engine_state", (("state", one),)), float(one == state)
    preset = (("preset", f"p{revision}"), ("revision", str(revision)))
    yield ("headway_preset_info", preset), 1.0


def found_in(ring: Ring, on: Grid) -> list[Mark]:
    series = {expression: ring.evaluate(expression, on) for expression in EXPRESSIONS}
    return marks_of(SourceReading(series, Health(), EVERY_S, "test", range_s=on.end_s - on.start_s, end_s=on.end_s))


def on_from(at_s: float, step_s: float = 20.0) -> Grid:
    return Grid(at_s, at_s + 200.0, step_s, 30.0)


@given(st.floats(0.0, 20.0), st.integers(30, 60), st.integers(1, 30), st.sampled_from(STATES[1:]))
def test_a_trouble_that_was_sampled_is_one_mark(shift_s: float, first: int, count: int, state: str) -> None:
    """Wherever the steps of 20 s begin, for one sample or for several steps; it stands at the step's end."""
    ring = Ring(1800.0, STALE_S)
    for at in range(100):
        ring.add(BEGAN_S + at * EVERY_S, samples(state if first <= at < first + count else "up"))
    (mark,) = found_in(ring, on_from(BEGAN_S + shift_s))
    assert mark.kind == "engine"
    assert 0 <= mark.time_s - (BEGAN_S + first * EVERY_S) <= 20.0


def test_a_short_restart_stays_marked_while_the_chart_goes_on() -> None:
    """At each refresh of a live chart, from the moment of the first sample until it leaves the range."""
    ring = Ring(1800.0, STALE_S)
    continued = Continued(ring.evaluate)
    for at in range(200):
        now_s = BEGAN_S + at * EVERY_S
        ring.add(now_s, samples("restarting" if at in (101, 102) else "up"))
        on = grid(now_s, RANGE_S, EVERY_S)
        series = {expression: continued.evaluate(expression, on, now_s) for expression in EXPRESSIONS}
        marks = marks_of(SourceReading(series, Health(), EVERY_S, "test", range_s=RANGE_S, end_s=on.end_s))
        assert [mark.label for mark in marks] == ["engine restarting"] * (at >= 101)


def test_two_presets_of_one_step_are_one_change_to_the_newest() -> None:
    """The one in between, which no instant of the chart would show, is left out."""
    ring = Ring(1800.0, STALE_S)
    for at in range(100):
        ring.add(BEGAN_S + at * EVERY_S, samples("up", 1 + (at >= 41) + (at >= 43)))
    assert found_in(ring, on_from(BEGAN_S)) == [Mark(BEGAN_S + 100.0, "p3")]


def test_prometheus_gets_the_same_question() -> None:
    """The largest sample of the states of the chart's own panel."""
    assert panels.ENGINE_STATES_SEEN.promql("360s") == "max by (state) (max_over_time(headway_engine_state[360s]))"
    assert panels.PRESETS_SEEN.promql("9s") == "max by (preset, revision) (max_over_time(headway_preset_info[9s]))"
    assert {one for one in EXPRESSIONS if isinstance(one, Peak)} == {switches.STATES, switches.PRESETS}
