"""Comparisons and their presentation: arms, sweep, timeline, rows, charts, page."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from headway_policies import bundled_presets
from headway_simulator.engine_model.capacity import Slo
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.report.charts import charts
from headway_simulator.report.page import NoPlotlyError, page, plotly_js
from headway_simulator.report.report import Comparison, as_csv, as_json, flat_rows, text_rows, text_table
from headway_simulator.studies.comparison import compare
from headway_simulator.studies.picture import text_timeline, timeline_chart
from headway_simulator.studies.strategies import Arm, plain, strategy_arms
from headway_simulator.studies.timeline import LENGTHS, SEATS, timelines
from headway_simulator.studies.tuning import knee, most_within, sweep
from headway_simulator.traffic.traffic import of_workload
from headway_simulator.traffic.workload import WORKLOADS

MODEL, SLO = EngineModel(), Slo()


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """Two presets and the engine alone, half a minute of chat."""
    presets = bundled_presets()
    arms = [Arm(name, presets[name], MODEL) for name in ("latency", "balanced")]
    traffic = of_workload(WORKLOADS["W1"], 30.0, 1, model=MODEL, slo=SLO)
    return compare([*arms, Arm("engine alone", None, MODEL)], traffic, SLO, seed=1)


def test_all_arms_serve_the_same_requests(comparison: Comparison) -> None:
    """Else nothing is compared."""
    offered = {(run.summary.all.offered, run.summary.span_s) for run in comparison.runs}
    assert len(offered) == 1


def test_the_table_has_a_cell_for_each_run_and_a_part_for_each_class(comparison: Comparison) -> None:
    """Headings have no cells."""
    rows = text_rows(comparison)
    assert {len(cells) for _, cells in rows} == {0, 3}
    assert [label for label, cells in rows if not cells] == ["every class", "class realtime", "class normal"]
    lines = text_table(comparison).splitlines()
    assert lines[0].split("  ")[-1].strip() == "engine alone"
    assert len(lines) == len(rows) + 1


def test_csv_has_a_row_for_each_run_and_class_with_units_in_the_names(comparison: Comparison) -> None:
    """The figures are those of the summary."""
    rows = list(csv.DictReader(io.StringIO(as_csv(comparison))))
    assert [(row["preset"], row["class"]) for row in rows[:3]] == [
        ("latency", "all"),
        ("latency", "realtime"),
        ("latency", "normal"),
    ]
    assert len(rows) == 9
    assert float(rows[0]["goodput_per_s"]) == pytest.approx(comparison.runs[0].summary.all.goodput_per_s, rel=1e-4)
    spread = comparison.runs[0].summary.all.ttft
    assert float(rows[0]["ttft_p99_ms"]) == pytest.approx((spread.p99_s or 0) * 1000, rel=1e-4)
    assert set(rows[0]) == set(flat_rows(comparison)[0])


def test_json_can_be_read_back(comparison: Comparison) -> None:
    """Seed, engine and objectives are in it, so that the run can be repeated."""
    read = json.loads(json.dumps(as_json(comparison)))
    assert (read["seed"], read["model"]["base_s"], read["slo"]["ttft_s"]) == (1, 0.029, 1.0)
    assert [run["name"] for run in read["runs"]] == ["latency", "balanced", "engine alone"]


def test_each_chart_says_what_it_shows_and_has_something_to_show(comparison: Comparison) -> None:
    """Every run is in every chart, and everything is plain JSON."""
    for chart in charts(comparison):
        assert chart.caption.endswith(".")
        figure = json.dumps(chart.figure())
        assert all(run.name in figure for run in comparison.runs)
        assert all(len(trace["x"]) == len(trace["y"]) > 0 for trace in chart.traces)


def test_a_distribution_rises_to_one(comparison: Comparison) -> None:
    """In few points, whatever the number of requests."""
    chart = next(chart for chart in charts(comparison) if chart.title == "First token")
    for trace in chart.traces:
        assert trace["x"] == sorted(trace["x"])
        assert trace["y"] == sorted(trace["y"])
        assert trace["y"][-1] == 1.0
        assert len(trace["x"]) <= 160


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_the_page_needs_nothing_from_elsewhere(comparison: Comparison) -> None:
    """No script, style, font or image is loaded; as many places as charts; the table is there."""
    pytest.importorskip("plotly")
    pictures = charts(comparison)
    text = page("A & B", ["<fact>"], ["latency"], [("row", ["1"]), ("part", [])], pictures)
    reader = _Reader()
    reader.feed(text)
    assert not [attrs for _, attrs in reader.tags if "src" in attrs or "href" in attrs]
    assert sum(str(attrs.get("id", "")).startswith("chart-") for tag, attrs in reader.tags if tag == "div") == len(
        pictures
    )
    assert "A &amp; B" in text
    assert "&lt;fact&gt;" in text
    assert len(text) > 1_000_000  # plotly.js is inside
    figures = re.search(r"const figures = (\[.*?\]);\nconst dark", text, re.DOTALL)
    assert figures is not None
    assert len(json.loads(figures[1])) == len(pictures)


def test_without_plotly_the_page_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line; the command adds how to install it."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(NoPlotlyError, match="the page needs plotly"):
        plotly_js()


def test_the_timeline_shows_seven_sequences_on_four_seats() -> None:
    """All are served in full under each strategy, and no seat holds two at once."""
    for one in timelines():
        assert [bar.end - bar.begin for bar in sorted(one.bars, key=lambda bar: bar.sequence)] == list(LENGTHS)
        for seat in range(1, SEATS + 1):
            held = sorted((bar.begin, bar.end) for bar in one.bars if bar.seat == seat)
            assert all(end <= begin for (_, end), (begin, _) in pairwise(held))


def test_continuous_leaves_no_seat_empty_where_the_others_wait_for_the_longest() -> None:
    """The lengths are chosen so: 32 steps of seats in 8 steps of four. Dynamic waits for the longest, static longer."""
    static, dynamic, continuous = timelines()
    assert (continuous.steps, continuous.idle_ratio) == (8, 0.0)
    assert dynamic.steps == 8 + 5
    assert static.steps == 10 + 5


def test_the_timeline_is_drawn_in_letters_and_as_a_chart() -> None:
    """The same bars in both."""
    drawn = timelines()
    text = text_timeline(drawn)
    assert text.count("seat 1") == 3
    assert "  seat 3  S3━━━━S5━━━━━━━━" in text.splitlines()
    chart = timeline_chart(drawn)
    assert [trace["name"] for trace in chart.traces] == [f"S{place}" for place in range(1, 8)]
    assert all(len(trace["x"]) == 3 for trace in chart.traces)


def test_strategies_are_compared_without_anything_else() -> None:
    """No time-out, no bound, one class; serial has one seat and only the padded batch a padded engine."""
    arms = strategy_arms(16, MODEL)
    assert [arm.name for arm in arms] == ["serial", "padded-16", "static-16", "dynamic-16", "continuous-16"]
    assert [arm.model.padded for arm in arms] == [False, True, False, False, False]
    assert arms[0].preset == plain("continuous", 1)


def test_a_sweep_of_an_engine_that_serves_nothing_shows_that() -> None:
    """And no more seats than the engine has."""
    points = sweep(WORKLOADS["W4"], replace(MODEL, kv_tokens=16, max_num_seqs=4), SLO, seed=1)
    assert [(point.seats, point.tokens_per_s, point.speedup) for point in points] == [(1, 0, 0), (2, 0, 0), (4, 0, 0)]
    assert most_within(points, SLO) is None


def test_a_sweep_shows_more_throughput_and_slower_tokens_with_every_seat() -> None:
    """The preset is the last point within the objective; the knee does not know the objective."""
    points = sweep(WORKLOADS["W4"], MODEL, SLO, seed=1, seats=(1, 4, 16, 32))
    assert points[0].speedup == 1.0
    assert [point.speedup for point in points] == sorted(point.speedup for point in points)
    assert [point.inter_token_p50_s for point in points] == sorted(point.inter_token_p50_s for point in points)
    assert getattr(most_within(points, SLO), "seats", None) == 16
    assert most_within(points, Slo(inter_token_s=0.001)) is None
    bend = knee(points)
    assert bend is not None
    assert bend.seats in (4, 16)
    assert knee(points[:2]) is None
