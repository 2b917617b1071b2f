"""The series of a page as CSV."""

from __future__ import annotations

import csv
import io

from readings import reading_of

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.catalogue.latency_panels import FIRST_TOKEN_HEAT, TOKEN_TIME, TOKEN_TIME_PANEL
from headway_dashboard.analysis.charts.series_csv import series_csv


def rows(text: str) -> list[list[str]]:
    """The cells."""
    return list(csv.reader(io.StringIO(text)))


def test_every_line_has_a_column_in_base_units() -> None:
    """Times in UTC, a column for each line with its unit, and an empty cell where nothing was measured."""
    answers = {
        panels.TTFT_P95_BY_CLASS: {("batch",): [0.25, None]},
        panels.QUEUED_BY_CLASS: {("normal",): [3.0, 4.0], ("batch",): [None, 12.0]},
    }
    found = rows(series_csv((panels.TTFT_PANEL, panels.QUEUE_PANEL), reading_of(answers)))
    assert found == [
        ["time (UTC)", "Time to first token: batch p95 [s]", "Waiting by class: normal", "Waiting by class: batch"],
        ["1970-01-01T00:33:18Z", "0.25", "3", ""],
        ["1970-01-01T00:33:20Z", "", "4", "12"],
    ]


def test_buckets_and_axes_are_columns_too() -> None:
    """Of a heat map the cumulative counts by bound, of a scatter chart both quantities."""
    answers = {
        FIRST_TOKEN_HEAT.expressions[0]: {("+Inf",): [6.0], ("10.0",): [5.0], ("2.5",): [1.0]},
        TOKEN_TIME: [0.02],
        panels.BATCH: [8.0],
    }
    head, values = rows(series_csv((FIRST_TOKEN_HEAT, TOKEN_TIME_PANEL), reading_of(answers)))
    assert dict(zip(head, values, strict=True)) == {
        "time (UTC)": "1970-01-01T00:33:20Z",
        "First tokens by bucket: at most 2.5": "1",
        "First tokens by bucket: at most 10.0": "5",
        "First tokens by bucket: at most +Inf": "6",
        "Time per token against the batch: mean time between tokens [s]": "0.02",
        "Time per token against the batch: mean batch": "8",
    }


def test_a_hostile_class_name_is_text() -> None:
    """Commas and quotes stay in their cell, and no heading begins with a sign of a formula."""
    answers = {panels.QUEUED_BY_CLASS: {('=1+1,"x"',): [1.0]}}
    head, values = rows(series_csv((panels.QUEUE_PANEL,), reading_of(answers)))
    assert head[1] == 'Waiting by class: =1+1,"x"'
    assert len(values) == 2


def test_without_data_there_is_the_heading_alone() -> None:
    """A file that says what it would hold."""
    assert rows(series_csv((panels.QUEUE_PANEL,), reading_of({}))) == [["time (UTC)"]]
