"""How a panel of the catalogue becomes a chart of another program."""

from __future__ import annotations

import pytest

from headway_dashboard.analysis.catalogue import engine_panels, latency_panels, panels, priority_panels
from headway_dashboard.analysis.catalogue.panels import Panel
from headway_dashboard.analysis.catalogue.thresholds import Bound
from headway_dashboard.export.board_panel import chart_panel, threshold_steps
from headway_dashboard.export.chart import curves_of


@pytest.mark.parametrize(
    ("panel", "legends"),
    [
        (panels.TTFT_PANEL, ["{{class}} p95", "objective of {{class}}"]),
        (panels.QUEUE_PANEL, ["{{class}}"]),
        (panels.ERROR_PANEL, ["{{reason}} {{outcome}}"]),
        (panels.GPU_PANEL, ["total, GPU {{gpu}}", "used, GPU {{gpu}}"]),
        (priority_panels.FINISHES_PANEL, ["{{finish_reason}}"]),
        (priority_panels.REFUSALS_PANEL, ["{{reason}}"]),
        (latency_panels.FIRST_TOKEN_HEAT, ["{{le}}"]),
    ],
    ids=lambda value: value.id if isinstance(value, Panel) else "",
)
def test_lines_are_named_by_their_labels(panel: Panel, legends: list[str]) -> None:
    """Words around a value stay; words in its place are left to the page, since Grafana has the value only."""
    assert [curve.legend for curve in curves_of(panel)] == legends


@pytest.mark.parametrize(
    ("panel", "kind"),
    [
        (panels.QUEUE_PANEL, "timeseries"),
        (engine_panels.ENGINE_STATE_PANEL, "state-timeline"),
        (priority_panels.QUEUE_AGE_PANEL, "timeseries"),
        (latency_panels.FIRST_TOKEN_HEAT, "heatmap"),
        (latency_panels.TOKEN_TIME_PANEL, "timeseries"),
    ],
    ids=lambda value: value.id if isinstance(value, Panel) else value,
)
def test_each_kind_of_panel_has_its_kind_in_grafana(panel: Panel, kind: str) -> None:
    """States are bands, buckets a heat map, all else lines or bars."""
    assert chart_panel(panel)["type"] == kind


def test_what_stands_across_is_drawn_beside() -> None:
    """Over time, with a scale of its own on the right."""
    first, second = curves_of(latency_panels.TOKEN_TIME_PANEL)
    assert (first.right, second.right) == (False, True)
    overrides = chart_panel(latency_panels.TOKEN_TIME_PANEL)["fieldConfig"]["overrides"]
    assert {"id": "custom.axisPlacement", "value": "right"} in overrides[1]["properties"]


def test_steps_colour_both_sides_of_a_bound() -> None:
    """Below a lower bound and above an upper one; a constant without an alert is grey."""
    bounds = (Bound(0.9, "a"), Bound(0.2, "b", "critical", above=False))
    steps = [(one["value"], one["color"]) for one in threshold_steps(bounds, (0.5, 0.9))]
    assert [value for value, _ in steps] == [None, 0.2, 0.5, 0.9]
    assert len({colour for _, colour in steps}) == 4


def test_the_rungs_have_their_words() -> None:
    """A number that stands for a rung is shown as its word."""
    (words,) = chart_panel(engine_panels.RUNG_PANEL)["fieldConfig"]["defaults"]["mappings"]
    assert words["options"]["0"]["text"] == engine_panels.RUNG_PANEL.steps[0]


def test_an_objective_far_above_presses_no_line_flat() -> None:
    """Grafana draws it while it is at most three times the largest measurement."""
    p95, objective = (target["expr"] for target in chart_panel(panels.TTFT_PANEL)["targets"])
    assert objective.endswith(f"<= on () group_left () (3 * max({p95}))")
