"""Heat maps: the rows of a histogram over time."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import plotly.graph_objects as go
import pytest
from hypothesis import given
from hypothesis import strategies as st
from readings import Lines, reading_of

from headway_dashboard.analysis.catalogue import palette
from headway_dashboard.analysis.catalogue.latency_panels import FIRST_TOKEN_HEAT
from headway_dashboard.analysis.catalogue.memory_panels import BATCH_HEAT
from headway_dashboard.analysis.catalogue.panels import Panel
from headway_dashboard.analysis.charts.figure import figure
from headway_dashboard.analysis.charts.heat_map import bucket_rows
from headway_dashboard.analysis.queries.model import Mark, Series

TIMES = {
    ("0.1",): [0.0, 2.0, None],
    ("0.5",): [0.0, 5.0, None],
    ("1.0",): [0.0, 5.0, None],
    ("+Inf",): [0.0, 6.0, None],
}
SIZES = {("1.0",): [0.0, 0.0], ("2.0",): [3.0, 4.0], ("4.0",): [3.0, 9.0], ("8.0",): [3.0, 9.0], ("+Inf",): [3.0, 9.0]}


def drawn(panel: Panel, lines: Lines) -> dict[str, Any]:
    """The trace of a heat map, checked by plotly."""
    found = figure(panel, reading_of({panel.expressions[0]: lines}), [Mark(1998.0, "latency")])
    go.Figure(data=found.traces, layout=found.layout)
    (trace,) = found.traces
    return trace


def test_a_row_is_one_bucket_and_zero_is_blank() -> None:
    """The lines are cumulative, the rows are not; nothing counted and nothing measured are both blank."""
    trace = drawn(FIRST_TOKEN_HEAT, TIMES)
    assert [str(name).replace("\u00a0", " ") for name in trace["y"]] == ["≤ 100 ms", "≤ 500 ms", "≤ 1 s", "> 1 s"]
    assert trace["z"] == [[None, 2.0, None], [None, 3.0, None], [None, None, None], [None, 1.0, None]]
    assert trace["x"] == [1_996_000, 1_998_000, 2_000_000]


def test_rows_beyond_all_observations_are_left_out() -> None:
    """A histogram has bounds up to the largest server: only those between the smallest and the largest are drawn."""
    trace = drawn(BATCH_HEAT, SIZES)
    assert trace["y"] == ["2", "3-4"]
    assert trace["z"] == [[3.0, 4.0], [None, 5.0]]


@pytest.mark.parametrize("lines", [{}, {("1.0",): [0.0, 0.0], ("+Inf",): [0.0, 0.0]}], ids=["nothing", "zero"])
def test_an_empty_heat_map_says_so(lines: Lines) -> None:
    """No rows, and a line of text."""
    answers = {FIRST_TOKEN_HEAT.expressions[0]: lines} if lines else {}
    found = figure(FIRST_TOKEN_HEAT, reading_of(answers))
    assert not found.traces
    assert found.empty == "no first tokens in this time"
    assert found.summary == "First tokens by bucket: no first tokens in this time."


def test_the_accessible_name_has_the_newest_column() -> None:
    """A screen reader says what a chart of colours cannot."""
    lines = {labels: line[:2] for labels, line in TIMES.items()}
    summary = figure(FIRST_TOKEN_HEAT, reading_of({FIRST_TOKEN_HEAT.expressions[0]: lines})).summary
    assert summary.replace("\u00a0", " ") == (
        "First tokens by bucket. In the last 30 s: 6, most of them in the bucket ≤ 500 ms."
    )


def test_columns_are_few_and_the_newest_is_among_them() -> None:
    """At most sixty, whatever the range; the last one is of now."""
    count = 151
    lines = {("1.0",): [float(at) for at in range(count)], ("+Inf",): [float(at) for at in range(count)]}
    trace = drawn(FIRST_TOKEN_HEAT, lines)
    x, z = trace["x"], trace["z"]
    assert len(x) <= 60
    assert x[-1] == 2_000_000
    assert z[0][-1] == count - 1


counts = st.lists(st.lists(st.integers(0, 50), min_size=4, max_size=4), min_size=1, max_size=6)


@given(counts)
def test_rows_add_up_to_all_observations(columns: list[list[int]]) -> None:
    """However a histogram is filled, no observation is drawn twice or lost."""
    bounds = ("0.5", "2.0", "10.0", "+Inf")
    lines = {(bound,): [float(sum(column[: at + 1])) for column in columns] for at, bound in enumerate(bounds)}
    rows = bucket_rows(Series(tuple(map(float, range(len(columns)))), lines))
    assert list(rows) == [0.5, 2.0, 10.0, math.inf]
    for at, column in enumerate(columns):
        assert [row[at] for row in rows.values()] == column


def test_a_torn_scrape_has_no_negative_cell() -> None:
    """Buckets that were read while they grew may be out of order."""
    rows = bucket_rows(Series((0.0,), {("1.0",): [5.0], ("2.0",): [4.0], ("+Inf",): [6.0]}))
    assert [row[0] for row in rows.values()] == [5.0, 0.0, 1.0]


def test_servers_with_other_bounds_are_counted_once() -> None:
    """300 steps of 30 sequences on a server with a bound at 64, and 300 of 10 on one with a bound at 16."""
    found = bucket_rows(
        Series((0.0,), {("16.0",): [300.0], ("32.0",): [600.0], ("48.0",): [300.0], ("+Inf",): [600.0]})
    )
    assert [row[0] for row in found.values()] == [300.0, 300.0, 0.0, 0.0]
    anew = bucket_rows(Series((0.0, 1.0), {("0.8",): [None, 5.0], ("1.0",): [7.0, 5.0], ("+Inf",): [7.0, 6.0]}))
    assert [*anew.values()] == [[None, 5.0], [7.0, 0.0], [0.0, 1.0]]


def test_the_colours_keep_their_order_in_grey() -> None:
    """Few to many is dark to light for everybody, whatever colours they see."""

    def luminance(colour: str) -> float:
        red, green, blue = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    shades = [luminance(colour) for _, colour in palette.HEAT]
    assert shades == sorted(shades)
    assert min(after - before for before, after in pairwise(shades)) > 0.15
    assert [at for at, _ in palette.HEAT] == [0.0, 0.5, 1.0]
