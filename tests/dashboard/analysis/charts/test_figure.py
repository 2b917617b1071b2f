"""Figures: names, references, rows, and what is shown where nothing is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import plotly.graph_objects as go
import pytest
from readings import Lines, reading_of

from headway_dashboard.analysis.catalogue import palette, panels, slo_panels
from headway_dashboard.analysis.catalogue.latency_panels import (
    FIRST_TOKEN_PANEL,
    TOKEN_TIME,
    TOKEN_TIME_PANEL,
)
from headway_dashboard.analysis.catalogue.memory_panels import LENGTH_PANEL, REQUEST_TOKENS
from headway_dashboard.analysis.catalogue.panels import Bound, Panel
from headway_dashboard.analysis.catalogue.priority_panels import QUEUE_AGE_PANEL
from headway_dashboard.analysis.charts.figure import Figure, figure
from headway_dashboard.analysis.queries.expressions import Expression
from headway_dashboard.analysis.queries.model import Mark, Point

Answers = Mapping[Expression, Lines | Sequence[Point]]
OBJECTIVE = FIRST_TOKEN_PANEL.lines[-1].expression


def drawn(panel: Panel, answers: Answers, marks: tuple[Mark, ...] = ()) -> Figure:
    """A figure that plotly accepts."""
    found = figure(panel, reading_of(answers), marks)
    go.Figure(data=[{"x": found.times_ms, **trace} for trace in found.traces], layout=found.layout)
    return found


def plain(text: str) -> str:
    """Without the spaces that keep a number and its unit together."""
    return text.replace("\u00a0", " ")


def test_a_chart_of_one_series_names_it() -> None:
    """The legend says what the one line is; the title alone may be of more."""
    found = drawn(panels.KV_PANEL, {panels.KV_USE: [0.5, 0.6]})
    assert found.layout["showlegend"]
    assert [trace["name"] for trace in found.traces] == ["in use"]
    assert plain(found.summary) == "KV cache in use. Newest values: in use 60 %."


def test_a_long_name_is_cut_in_the_legend_alone() -> None:
    """Two lines of one class stay apart; the pointer and the summary have the whole name."""
    name = "a-class-with-a-name-of-40-characters-all"
    answers = {panels.TTFT_BY_CLASS[0.5]: {(name,): [0.2]}, panels.TTFT_BY_CLASS[0.95]: {(name,): [0.5]}}
    found = drawn(FIRST_TOKEN_PANEL, answers)
    assert [trace["name"] for trace in found.traces] == ["a-class-with-a-name… p95", "a-class-with-a-name… p50"]
    assert [trace["hovertemplate"].partition("<extra>")[2] for trace in found.traces] == [
        f"{name} p95</extra>",
        f"{name} p50</extra>",
    ]
    assert f"{name} p95 500 ms" in plain(found.summary)


def test_an_objective_is_a_line_with_its_value() -> None:
    """Dashed and in the colour of its class; one far above what was measured is named at the upper edge,
    which no line reaches.
    """
    found = drawn(
        FIRST_TOKEN_PANEL,
        {
            panels.TTFT_BY_CLASS[0.5]: {("realtime",): [0.2, 0.3]},
            panels.TTFT_BY_CLASS[0.95]: {("realtime",): [0.5, 0.8], ("batch",): [0.7, 0.7]},
            OBJECTIVE: {("realtime",): [1.0, 1.0], ("batch",): [60.0, 60.0]},
        },
    )
    names = [plain(trace["name"]) for trace in found.traces]
    assert names == ["realtime p95", "batch p95", "realtime p50", "objective of realtime (1 s)"]
    assert [trace["line"]["dash"] for trace in found.traces] == ["solid", "solid", "dot", "dash"]
    assert {trace["line"]["color"] for trace in found.traces if "realtime" in trace["name"]} == {
        palette.of_class("realtime")
    }
    assert found.layout["yaxis"]["range"] == [0, pytest.approx(1.0 * 1000 * 1.15)], "a minute would press them flat"
    (edge,) = found.layout["annotations"]
    assert (plain(edge["text"]), edge["y"], edge["yref"]) == ("\u2191 objective of batch (1 min)", 1.0, "paper")
    assert edge["font"]["color"] == palette.of_class("batch")
    assert "objective of batch (1 min) 1 min" in plain(found.summary)


def test_the_first_chart_mixes_no_classes() -> None:
    """Each class has its own p95 beside its own objective: all together would hide who waits."""
    assert all(expression.by == ("class",) for expression in panels.TTFT_PANEL.expressions)
    assert [line.reference for line in panels.TTFT_PANEL.lines] == [False, True]


def test_an_objective_alone_fills_no_chart() -> None:
    """Without first tokens there is nothing to compare: one line of text, no chart."""
    found = drawn(FIRST_TOKEN_PANEL, {OBJECTIVE: {("realtime",): [1.0, 1.0]}})
    assert found.traces == []
    assert found.empty == "no first tokens in this time"


def test_a_bound_is_drawn_with_the_lines() -> None:
    """The target of the objectives, as a dashed constant."""
    found = drawn(slo_panels.BOTH_PANEL, {slo_panels.attainment("both"): {("batch",): [0.98, 0.97]}})
    assert [plain(trace["name"]) for trace in found.traces] == ["batch", "target (99 %)"]
    assert found.traces[1]["y"] == [99.0, 99.0]


def test_the_axis_has_room_for_stacked_bars() -> None:
    """Bars stand on each other: the top is that of their sum."""
    panel = replace(panels.QUEUE_PANEL, bounds=(Bound("most", 10.0),))
    found = drawn(panel, {panels.QUEUED_BY_CLASS: {("batch",): [4.0, 6.0], ("normal",): [5.0, 5.0]}})
    assert found.layout["yaxis"]["range"] == [0, pytest.approx(11.0 * 1.05)]


def test_the_age_of_a_queue_stands_beside_the_bound_of_its_alert() -> None:
    """A class that never waited has no line, and without one there is no bound."""
    ages = {("realtime",): [0.6, 0.0], ("normal",): [0.0, 0.0]}
    found = drawn(QUEUE_AGE_PANEL, {panels.QUEUE_AGE_BY_CLASS: ages})
    assert [plain(trace["name"]) for trace in found.traces] == ["realtime", "alert (50 %)"]
    quiet = drawn(QUEUE_AGE_PANEL, {panels.QUEUE_AGE_BY_CLASS: {("batch",): [0.0, 0.0]}})
    assert quiet.empty == "no request waited in this time"


def test_dots_stand_where_both_were_measured() -> None:
    """Time per token over the batch: no dot without both, the newest the darkest, and no mark of a time."""
    answers: Answers = {TOKEN_TIME: [0.02, None, 0.03], panels.BATCH: [4.0, 5.0, 8.0]}
    found = drawn(TOKEN_TIME_PANEL, answers, (Mark(1998.0, "latency"),))
    (trace,) = found.traces
    assert trace["x"] == [4.0, 8.0]
    assert trace["y"] == [20.0, 30.0]
    assert trace["marker"]["opacity"] == sorted(trace["marker"]["opacity"])
    assert found.layout["xaxis"]["type"] == "linear"
    assert found.layout["shapes"] == []
    assert plain(found.summary) == (
        "Time per token against the batch, over mean batch. Newest values: mean time between tokens 30 ms at 8."
    )
    assert drawn(TOKEN_TIME_PANEL, {TOKEN_TIME: [0.02]}).empty == "no tokens in this time"


def test_long_sequences_are_seen_to_shrink_the_batch() -> None:
    """A dot for each instant: fewer sequences in a step where requests are longer."""
    answers: Answers = {panels.BATCH: [32.0, 16.0, 8.0], REQUEST_TOKENS: [500.0, 1000.0, 2000.0]}
    (trace,) = drawn(LENGTH_PANEL, answers).traces
    assert (trace["x"], trace["y"]) == ([500.0, 1000.0, 2000.0], [32.0, 16.0, 8.0])


@pytest.mark.parametrize(("time_s", "anchor"), [(1981.0, "left"), (1990.0, "center"), (1999.0, "right")])
def test_the_words_of_a_mark_are_not_cut_at_an_end(time_s: float, anchor: str) -> None:
    """Near an end of the chart they stand beside their line, towards the middle."""
    reading = reading_of({panels.KV_USE: [0.5] * 11})
    (note,) = figure(panels.KV_PANEL, reading, [Mark(time_s, "latency")]).layout["annotations"]
    assert note["xanchor"] == anchor


def test_all_charts_of_a_reading_have_one_time_axis() -> None:
    """Whatever was measured when: the same range on each, and the marks on each."""
    reading = reading_of({panels.KV_USE: [0.5] * 3, panels.QUEUED_BY_CLASS: {("batch",): [None, None, 3.0]}})
    marks = [Mark(1998.0, "latency")]
    layouts = [figure(panel, reading, marks).layout for panel in (panels.KV_PANEL, panels.QUEUE_PANEL)]
    assert layouts[0]["xaxis"] == layouts[1]["xaxis"]
    assert layouts[0]["xaxis"]["range"] == [1_996_000, 2_000_000]
    assert all(layout["annotations"][0]["text"] == "◆ latency" for layout in layouts)
