"""The comparison with the time before the last change: dotted lines over those of now."""

from __future__ import annotations

from dataclasses import replace

import plotly.graph_objects as go
from readings import END_S, reading_of

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.charts.comparison import comparison_words
from headway_dashboard.analysis.charts.figure import figure
from headway_dashboard.analysis.queries.reading import SourceReading

NOW = reading_of({panels.TTFT_P95_BY_CLASS: {("realtime",): [2.0, 3.0, 4.0], ("batch",): [5.0, 6.0, 7.0]}})
BEFORE = replace(reading_of({panels.TTFT_P95_BY_CLASS: {("realtime",): [1.0, None, 2.0]}}), end_s=END_S)


def moved(by_s: float) -> SourceReading:
    """The earlier reading, some time ago."""
    series = {
        one: replace(found, times_s=tuple(time_s - by_s for time_s in found.times_s))
        for one, found in BEFORE.series.items()
    }
    return replace(BEFORE, series=series, end_s=END_S - by_s)


def test_both_times_end_at_the_same_place() -> None:
    """The earlier points are moved onto the axis of now; gaps stay gaps, and the colour is that of the same line."""
    found = figure(panels.TTFT_PANEL, NOW, (), moved(600.0))
    go.Figure(data=[{"x": found.times_ms, **trace} for trace in found.traces], layout=found.layout)
    earlier, *now = found.traces
    assert earlier["name"] == "realtime p95, before"
    assert earlier["x"] == found.times_ms
    assert earlier["y"] == [1.0, None, 2.0]
    assert earlier["line"]["dash"] == "dot"
    assert earlier["line"]["color"] == now[0]["line"]["color"]
    assert [trace["name"] for trace in now] == ["realtime p95", "batch p95"]
    assert found.summary.count("before") == 0, "the newest values are those of now"


def test_bars_are_not_compared() -> None:
    """Two stacks of bars would cover each other."""
    reading = reading_of({panels.QUEUED_BY_CLASS: {("batch",): [1.0, 2.0]}})
    assert len(figure(panels.QUEUE_PANEL, reading, (), reading).traces) == 1


def test_an_empty_chart_stays_empty() -> None:
    """Figures of before fill no chart of now."""
    found = figure(panels.TTFT_PANEL, reading_of({}), (), BEFORE)
    assert found.traces == []
    assert found.empty


def test_it_is_said_what_the_dots_are() -> None:
    """Or that there is nothing to compare with."""
    assert "no change of the preset is known" in comparison_words(None)
    assert "nothing is recorded from before" in comparison_words(reading_of({}))
    assert comparison_words(BEFORE).replace("\u00a0", " ").startswith("Dotted: the 4 s before the last change")


def test_the_axis_reaches_what_was_worse_before() -> None:
    """The earlier line is why one compares; with and without an objective that is far above."""
    panel, line = panels.TTFT_PANEL, panels.TTFT_P95_BY_CLASS
    before = replace(reading_of({line: {("normal",): [5.0, 5.0, 5.0]}}), end_s=END_S)
    for objective in (1.0, 60.0):
        shown = {one.expression for one in panel.lines if one.reference}
        now = reading_of({line: {("normal",): [0.5, 0.5, 0.5]}, **{one: {("normal",): [objective]} for one in shown}})
        found = figure(panel, now, (), before)
        earlier = next(trace for trace in found.traces if trace["name"].endswith("before"))
        assert found.layout["yaxis"]["range"][1] > max(earlier["y"])
