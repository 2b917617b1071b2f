"""Throughput over the time between tokens: the curve of a sweep, in letters and as a chart."""

from __future__ import annotations

from collections.abc import Sequence

from headway_simulator.report.charts import Chart, hue, layout
from headway_tools.tuning.step import Step

_WIDTH, _HEIGHT, _MARGIN = 60, 14, 16


def text_curve(steps: Sequence[Step], knee: Step | None) -> str:
    """The points by their seats; the knee in brackets. Empty for fewer than two."""
    points = [
        (step.inter_token_mean_s, step.tokens_per_s, step) for step in steps if step.inter_token_mean_s is not None
    ]
    if len(points) < 2:
        return ""
    wide_s = max(x for x, _, _ in points)
    high = max(y for _, y, _ in points) or 1.0
    rows = [[" "] * (_WIDTH + _MARGIN) for _ in range(_HEIGHT + 1)]
    for x, y, step in sorted(points, key=lambda point: point[2] is not knee):
        label = f"[{step.seats}]" if step is knee else f"o{step.seats}"
        row = rows[_HEIGHT - round(y / high * _HEIGHT)]
        begin = _free(row, round(x / (wide_s or 1.0) * _WIDTH), len(label))
        row[begin : begin + len(label)] = label
    lines = [f"{high * (_HEIGHT - place) / _HEIGHT:8.0f} |{''.join(row).rstrip()}" for place, row in enumerate(rows)]
    scale = f"{'0':<{_WIDTH // 2}}{wide_s * 500:.1f}".ljust(_WIDTH) + f"{wide_s * 1000:.1f}"
    return "\n".join(
        ["tokens/s by seats; the knee is in brackets", *lines, " " * 9 + "+" + "-" * (_WIDTH + _MARGIN),
         " " * 10 + scale + " ms between tokens"]
    )  # fmt: skip


def _free(row: Sequence[str], begin: int, length: int) -> int:
    """The first free place from there on, so that no label covers another; the place itself where there is none."""
    places = range(begin, len(row) - length + 1)
    return next((place for place in places if not "".join(row[max(place - 1, 0) : place + length]).strip()), begin)


def curve_chart(steps: Sequence[Step], knee: Step | None) -> Chart:
    """The same for a page."""
    timed = [step for step in steps if step.inter_token_mean_s is not None]
    line = _trace("seats", timed, {"color": hue(0)}, "lines+markers+text")
    traces = [line] if knee is None else [line, _trace("knee", [knee], {"color": hue(1), "size": 14}, "markers")]
    caption = "Output tokens a second over the mean time between tokens, a point for each number of seats."
    if knee is not None:
        caption += f" The knee is at {knee.seats} seats."
    return Chart("Throughput and latency", caption, traces, layout("ms between tokens", "tokens/s"))


def _trace(name: str, steps: Sequence[Step], marker: dict[str, object], mode: str) -> dict[str, object]:
    return {
        "type": "scatter",
        "mode": mode,
        "name": name,
        "x": [(step.inter_token_mean_s or 0.0) * 1000 for step in steps],
        "y": [step.tokens_per_s for step in steps],
        "text": [str(step.seats) for step in steps],
        "textposition": "top left",
        "marker": marker,
        "hovertemplate": "%{text} seats: %{y:.0f} tokens/s, %{x:.1f} ms<extra></extra>",
    }
