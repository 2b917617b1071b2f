"""Throughput over latency: the curve of a sweep or of a ramp, in letters and as a chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway_simulator.report.charts import Chart, hue, layout
from headway_tools.tuning.step import Step

_WIDTH, _HEIGHT, _MARGIN = 60, 14, 16


@dataclass(frozen=True, slots=True)
class Point:
    """A point of a curve: its latency, its throughput, and its label; at most one is the knee."""

    latency_ms: float
    tokens_per_s: float
    label: str
    knee: bool = False


@dataclass(frozen=True, slots=True)
class Curve:
    """The points, ``what`` their labels are, and ``over`` which latency they stand."""

    points: Sequence[Point]
    what: str
    over: str

    @property
    def bend(self) -> Point | None:
        """The knee."""
        return next((point for point in self.points if point.knee), None)


def curve_of(steps: Sequence[Step], knee: Step | None) -> Curve:
    """The curve of a sweep: tokens a second over the mean time between tokens, by seats."""
    timed = [(1000 * step.inter_token_mean_s, step) for step in steps if step.inter_token_mean_s is not None]
    points = [Point(latency_ms, step.tokens_per_s, str(step.seats), step is knee) for latency_ms, step in timed]
    return Curve(points, "seats", "ms between tokens")


def text_curve(curve: Curve) -> str:
    """The points by their labels; the knee in brackets. Empty for fewer than two."""
    if len(curve.points) < 2:
        return ""
    wide_ms = max(point.latency_ms for point in curve.points)
    high = max(point.tokens_per_s for point in curve.points) or 1.0
    rows = [[" "] * (_WIDTH + _MARGIN) for _ in range(_HEIGHT + 1)]
    for point in sorted(curve.points, key=lambda point: not point.knee):
        label = f"[{point.label}]" if point.knee else f"o{point.label}"
        row = rows[_HEIGHT - round(point.tokens_per_s / high * _HEIGHT)]
        begin = _free(row, round(point.latency_ms / (wide_ms or 1.0) * _WIDTH), len(label))
        row[begin : begin + len(label)] = label
    lines = [f"{high * (_HEIGHT - place) / _HEIGHT:8.0f} |{''.join(row).rstrip()}" for place, row in enumerate(rows)]
    scale = f"{'0':<{_WIDTH // 2}}{wide_ms / 2:.1f}".ljust(_WIDTH) + f"{wide_ms:.1f}"
    return "\n".join(
        [f"tokens/s by {curve.what}; the knee is in brackets", *lines, " " * 9 + "+" + "-" * (_WIDTH + _MARGIN),
         " " * 10 + scale + f" {curve.over}"]
    )  # fmt: skip


def _free(row: Sequence[str], begin: int, length: int) -> int:
    """The first free place from there on, so that no label covers another; the place itself where there is none."""
    places = range(begin, len(row) - length + 1)
    return next((place for place in places if not "".join(row[max(place - 1, 0) : place + length]).strip()), begin)


def curve_chart(curve: Curve) -> Chart:
    """The same for a page."""
    traces = [_trace(curve.what, curve, curve.points, {"color": hue(0)}, "lines+markers+text")]
    caption = f"Output tokens a second over {curve.over}, a point for each number ({curve.what})."
    if curve.bend is not None:
        traces.append(_trace("knee", curve, [curve.bend], {"color": hue(1), "size": 14}, "markers"))
        caption += f" The knee is at {curve.bend.label} {curve.what}."
    return Chart("Throughput and latency", caption, traces, layout(curve.over, "tokens/s"))


def _trace(name: str, curve: Curve, points: Sequence[Point], marker: dict[str, object], mode: str) -> dict[str, object]:
    return {
        "type": "scatter",
        "mode": mode,
        "name": name,
        "x": [point.latency_ms for point in points],
        "y": [point.tokens_per_s for point in points],
        "text": [point.label for point in points],
        "textposition": "top left",
        "marker": marker,
        "hovertemplate": f"%{{text}} {curve.what}: %{{y:.0f}} tokens/s, %{{x:.1f}} {curve.over}<extra></extra>",
    }
