"""Every figure against plotly's own validator, and the panels that follow the hardware."""

from __future__ import annotations

import plotly.graph_objects as go
import pytest

from headway_dashboard.analysis.catalogue import ALL_PANELS, panels
from headway_dashboard.analysis.catalogue.palette import LOSSES, ORANGE, RED, class_order, of_class
from headway_dashboard.analysis.catalogue.panels import Panel, for_classes
from headway_dashboard.analysis.charts.figure import figure
from headway_dashboard.analysis.queries.expressions import Buckets, Expression
from headway_dashboard.analysis.queries.model import Mark, Series
from headway_dashboard.analysis.server import newest_values
from headway_dashboard.sources import Health, SourceReading
from headway_policies.fallback import Degradation

PANELS = (*dict.fromkeys(panel for page in ALL_PANELS.values() for panel in page), panels.CPU_PANEL)
TIMES_S = (1000.0, 1002.0, 1004.0)


def test_class_filter_touches_only_metrics_that_know_classes() -> None:
    """Batch size has no class; a filter must not empty its chart."""
    assert for_classes(panels.BATCH, ("batch",)) == panels.BATCH
    assert 'class=~"batch"' in for_classes(panels.ARRIVALS, ("batch",)).promql("1m")
    assert for_classes(panels.ERROR_SHARE, ("batch",)).promql("1m").count('class=~"batch"') == 2
    assert for_classes(panels.ERRORS_BY_CAUSE, ("batch",)).promql("1m").count('class=~"batch"') == 1


def reading(series: dict[Expression, Series], health: Health | None = None) -> SourceReading:
    """A reading with these answers."""
    return SourceReading(series, health or Health(1004.0), 2.0, "test", range_s=4.0, end_s=1004.0)


def labels_of(expression: Expression) -> tuple[str, ...]:
    """Labels of one line; the last one of buckets is a bound."""
    if isinstance(expression, Buckets):
        return (*("normal" for _ in expression.of.by), "+Inf")
    return tuple("normal" for _ in expression.by)


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.title)
@pytest.mark.parametrize(
    "points", [(1.0, None, 3.0), (0.0, 0.0, 0.0), (None, None, None)], ids=["some", "zero", "none"]
)
def test_figures_are_valid_and_never_invent_a_zero(panel: Panel, points: tuple[float | None, ...]) -> None:
    """plotly accepts every figure, and a gap stays a gap."""
    answers = {expression: Series(TIMES_S, {labels_of(expression): list(points)}) for expression in panel.expressions}
    drawn = figure(panel, reading(answers), [Mark(1002.0, "latency")])
    go.Figure(data=[{"x": drawn.times_ms, **trace} for trace in drawn.traces], layout=drawn.layout)
    assert drawn.summary
    assert bool(drawn.empty) == (not drawn.traces)
    bounds = len(panel.bounds) if drawn.traces else 0
    for trace in drawn.traces[: len(drawn.traces) - bounds]:
        if "z" in trace:
            assert trace["z"] == [[point or None for point in points]]
        elif panel.across is None:
            assert (trace["y"][1] is None) == (points[1] is None)
        else:
            assert len(trace["y"]) == sum(point is not None for point in points)
    if points[1] is None and points[0] is None:
        assert not drawn.traces
        assert "in this time" in drawn.summary


@pytest.mark.parametrize(
    ("points", "health", "text"),
    [
        ((None, None), Health(1004.0), "no first tokens in this time"),
        ((None, None), Health(), "no data in this time"),
        ((None, None), Health(1000.0, 3, "refused", "-", 1001.0), "no data in this time"),
    ],
    ids=["idle", "never reached", "down"],
)
def test_an_empty_chart_says_why(points: tuple[None, None], health: Health, text: str) -> None:
    """No traffic and no data are different things."""
    answers = {expression: Series(TIMES_S[:2], {(): list(points)}) for expression in panels.TTFT_PANEL.expressions}
    assert text in figure(panels.TTFT_PANEL, reading(answers, health)).summary


def test_time_axes_change_their_unit_at_a_second() -> None:
    """Milliseconds below, seconds above."""
    for value, suffix in ((0.25, "ms"), (2.5, "s")):
        answers = {expression: Series(TIMES_S, {(): [value] * 3}) for expression in panels.TTFT_PANEL.expressions}
        assert figure(panels.TTFT_PANEL, reading(answers)).layout["yaxis"]["ticksuffix"].strip() == suffix


@pytest.mark.parametrize(
    ("panel", "lines"),
    [
        (panels.ERROR_PANEL, {("deadline_infeasible", ""): [1.0] * 3}),
        (panels.ERROR_PANEL, {("", "failed"): [1.0] * 3, ("shed", ""): [0.0] * 3}),
        (panels.QUEUE_PANEL, {("batch",): [1.0] * 3}),
        (panels.KV_PANEL, {(): [0.5] * 3}),
    ],
)
def test_a_single_line_is_named(panel: Panel, lines: dict[tuple[str, ...], list[float]]) -> None:
    """One line alone: the legend says what it is."""
    drawn = figure(panel, reading({panel.expressions[0]: Series(TIMES_S, lines)}))
    assert len(drawn.traces) == 1
    assert drawn.layout["showlegend"] is True
    assert drawn.traces[0]["name"] in drawn.summary


def test_a_chart_grows_with_its_legend() -> None:
    """Every cause at once: there is room for each name. A few change nothing, so that charts stay in line."""
    heights = []
    for number in (1, 4, 5, 19):
        lines = {(f"r{at}", ""): [1.0] * 3 for at in range(number)}
        heights.append(figure(panels.ERROR_PANEL, reading({panels.ERRORS_BY_CAUSE: Series(TIMES_S, lines)})).layout)
    found = [height["height"] for height in heights]
    assert found[0] == found[1] < found[2] < found[3]
    assert found[3] / 2 >= 19 / 2 * 19  # plotly gives a legend half of the height, and 19 px a row


def lone(expression: Expression, *labels: str, value: float = 1.0) -> tuple[Expression, Series]:
    """One constant line."""
    return expression, Series(TIMES_S, {labels: [value] * 3})


def test_memory_panel_follows_the_hardware() -> None:
    """A GPU chart only with a GPU; on a CPU the title says so; a GPU without figures is called that."""
    gpu = reading(dict([lone(panels.GPU_TOTAL), lone(panels.GPU_USED), lone(panels.BACKEND, "cuda")]))
    assert newest_values.memory_panel(gpu) is panels.GPU_PANEL
    assert newest_values.memory_tile(gpu).label == "GPU memory"
    simulated = reading(dict([lone(panels.BACKEND, "simulated"), lone(panels.RESIDENT)]))
    assert newest_values.memory_panel(simulated) is panels.CPU_PANEL
    cpu = reading(dict([lone(panels.BACKEND, "cpu"), lone(panels.RESIDENT)]))
    assert newest_values.memory_panel(cpu) is panels.CPU_PANEL
    assert "CPU backend, no GPU" in newest_values.memory_panel(cpu).title
    assert newest_values.memory_panel(reading(dict([lone(panels.BACKEND, "cuda")]))) is panels.GPU_UNKNOWN_PANEL


def test_classes_have_an_order_and_colours_of_their_own() -> None:
    """The usual three first, by urgency; a colour depends on the name alone."""
    assert class_order({"zeta", "batch", "realtime", "alpha", "normal"}) == [
        "realtime", "normal", "batch", "alpha", "zeta",
    ]  # fmt: skip
    assert len({of_class(name) for name in ("realtime", "normal", "batch")}) == 3
    assert of_class("zeta") == of_class("zeta")
    names = ("realtime", "normal", "batch", *map(str, range(99)))
    assert {of_class(name) for name in names} & {ORANGE, RED} == set()


def test_each_kind_of_degradation_has_words_and_a_colour_of_its_own() -> None:
    """Two kinds of one colour could not be told apart in the bars."""
    assert set(LOSSES) == set(Degradation)
    assert len(set(LOSSES.values())) == len({colour for _, colour in LOSSES.values()}) == len(LOSSES)
