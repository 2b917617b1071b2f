"""The charts of a comparison, each a plain plotly figure dictionary; nothing here needs plotly.

The hues are those of Okabe and Ito (2008), which stay apart for colour-blind readers. A preset keeps its colour in all
charts, where classes differ by dash; a class has the colour it has on the dashboard.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from headway_simulator.report.report import Comparison, Run
from headway_simulator.report.summary import ALL
from headway_simulator.run.visit import Visit

Trace = dict[str, Any]
_HUES = ("#3b8bd0", "#e08a1e", "#1fa187", "#b4699f", "#d1495b", "#c7a41b", "#62b6e7", "#9c6b4e")
_CLASS_HUES = {"realtime": "#e08a1e", "normal": "#3b8bd0", "batch": "#1fa187"}
_DASHES = ("solid", "dot", "dash", "dashdot", "longdash")
_LIMIT_COLOUR = "#8a93a3"
_POINTS = 160


@dataclass(frozen=True, slots=True)
class Chart:
    """A picture: its heading, what it shows in a sentence, and its figure."""

    title: str
    caption: str
    traces: Sequence[Trace]
    layout: dict[str, Any]

    def figure(self) -> dict[str, Any]:
        """The figure that plotly draws."""
        return {"data": list(self.traces), "layout": self.layout}


def charts(comparison: Comparison) -> list[Chart]:
    """All charts of a comparison."""
    return [
        _goodput(comparison),
        _attainment(comparison),
        _distribution(
            comparison, "First token", "seconds from arrival to the first token", _ttft_s, comparison.slo.ttft_s
        ),
        _distribution(
            comparison,
            "Between tokens",
            "seconds between two tokens, a request's mean",
            _inter_token_s,
            comparison.slo.inter_token_s,
        ),
        _course(comparison),
        _ends(comparison),
        _steps(comparison),
    ]


def _goodput(comparison: Comparison) -> Chart:
    names = [run.name for run in comparison.runs]
    traces: list[Trace] = [
        {
            "type": "bar",
            "name": class_name,
            "x": names,
            "y": [_class_of(run, class_name, "goodput_per_s") for run in comparison.runs],
            "marker": {"color": class_hue(class_name, place)},
        }
        for place, class_name in enumerate(_classes(comparison))
    ]
    shape = layout("", "requests/s within both objectives", barmode="stack")
    if comparison.ceiling_per_s is not None:
        shape["shapes"] = [_across(comparison.ceiling_per_s)]
    caption = "Requests a second completed within both objectives, by class."
    if comparison.ceiling_per_s is not None:
        caption += f" The dashed line is the fluid ceiling, {comparison.ceiling_per_s:.2f} requests/s."
    return Chart("Goodput", caption, traces, shape)


def _attainment(comparison: Comparison) -> Chart:
    names = _classes(comparison)
    traces: list[Trace] = [
        {
            "type": "bar",
            "name": run.name,
            "x": names,
            "y": [_class_of(run, name, "attained_ratio") for name in names],
            "marker": {"color": hue(place)},
        }
        for place, run in enumerate(comparison.runs)
    ]
    shape = layout("", "share of offered requests", barmode="group")
    shape["yaxis"] |= {"range": [0, 1], "tickformat": ".0%"}
    return Chart("Served in time", "The share of each class that completed within both objectives.", traces, shape)


def _distribution(comparison: Comparison, title: str, words: str, of: Any, slo_s: float) -> Chart:
    traces: list[Trace] = []
    for place, run in enumerate(comparison.runs):
        for number, class_name in enumerate(_classes(comparison)):
            values = [of(visit) for visit in run.result.visits if visit.request.class_name == class_name]
            x, y = _cdf(value for value in values if value is not None)
            if x:
                line = {"color": hue(place), "dash": _DASHES[number % len(_DASHES)], "shape": "hv"}
                traces.append(_line(f"{run.name}, {class_name}", x, y, line))
    shape = layout(words, "share of those measured", shapes=[_upright(slo_s)])
    shape["xaxis"] |= {"type": "log", "dtick": "D2"}
    shape["yaxis"] |= {"range": [0, 1], "tickformat": ".0%"}
    caption = f"Cumulative distribution of {words}; the upright line is the objective, {slo_s * 1000:.15g} ms."
    return Chart(title, caption, traces, shape)


def _course(comparison: Comparison) -> Chart:
    traces: list[Trace] = []
    for place, run in enumerate(comparison.runs):
        moments = run.result.moments
        x = [round(moment.at_s, 3) for moment in moments]
        colour = hue(place)
        traces += [
            _line(f"{run.name}: running", x, [moment.running for moment in moments], {"color": colour}),
            _line(f"{run.name}: waiting", x, [moment.waiting for moment in moments], {"color": colour, "dash": "dot"}),
        ]
        if run.limited:
            limits = [moment.limit for moment in moments]
            traces.append(_line(f"{run.name}: limit", x, limits, {"color": colour, "dash": "dash"}))
    for trace in traces:
        trace["line"]["width"] = 1.2
        trace["visible"] = "legendonly" if trace["name"].endswith("limit") else True
    caption = "Sequences in the engine, requests waiting at the desk, and the limit (click it in the legend)."
    return Chart("Over time", caption, traces, layout("seconds", "requests"))


def _ends(comparison: Comparison) -> Chart:
    counts: dict[str, list[int]] = {}
    for place, run in enumerate(comparison.runs):
        for visit in run.result.visits:
            words = str(visit.reason or visit.outcome or "unfinished")
            counts.setdefault(words, [0] * len(comparison.runs))[place] += 1
    names = [run.name for run in comparison.runs]
    traces: list[Trace] = [
        {"type": "bar", "name": words, "x": names, "y": numbers, "marker": {"color": hue(place)}}
        for place, (words, numbers) in enumerate(
            sorted(counts.items(), key=lambda counted: (counted[0] != "completed", counted[0]))
        )
    ]
    return Chart("How requests ended", "Each attempt has one end.", traces, layout("", "requests", barmode="stack"))


def _steps(comparison: Comparison) -> Chart:
    traces: list[Trace] = []
    for place, run in enumerate(comparison.runs):
        batches = sorted(run.result.batches.items())
        most = max((steps for _, (steps, _) in batches), default=1)
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": run.name,
                "x": [decoding for decoding, _ in batches],
                "y": [round(total_s / steps * 1000, 3) for _, (steps, total_s) in batches],
                "marker": {
                    "color": hue(place),
                    "size": [round(4 + 16 * math.sqrt(steps / most), 1) for _, (steps, _) in batches],
                },
            }
        )
    widest = max((decoding for run in comparison.runs for decoding in run.result.batches), default=1)
    ends = [0, widest]
    model_ms = [comparison.model.step_s(decoding) * 1000 for decoding in ends]
    traces.append(_line("without prompts", ends, model_ms, {"color": _LIMIT_COLOUR, "dash": "dash"}))
    shape = layout("decoding sequences in the step", "ms a step", shapes=[_across(comparison.slo.inter_token_s * 1000)])
    caption = (
        "The time between tokens by the size of the batch; a larger dot stands for more steps. Above the dashed line "
        "lie steps that computed prompts, too; the level line is the objective."
    )
    return Chart("Step time and batch", caption, traces, shape)


def _ttft_s(visit: Visit) -> float | None:
    return visit.ttft_s


def _inter_token_s(visit: Visit) -> float | None:
    return visit.inter_token_s


def _cdf(values: Iterable[float]) -> tuple[list[float], list[float]]:
    """The distribution in at most ``_POINTS`` points."""
    ordered = sorted(values)
    if not ordered:
        return [], []
    ranks = sorted({round(part * (len(ordered) - 1) / (_POINTS - 1)) for part in range(_POINTS)})
    return [float(f"{ordered[rank]:.5g}") for rank in ranks], [round((rank + 1) / len(ordered), 5) for rank in ranks]


def _classes(comparison: Comparison) -> list[str]:
    return [name for name in comparison.class_names() if name != ALL]


def _class_of(run: Run, class_name: str, figure: str) -> float:
    one = run.summary.classes.get(class_name)
    return 0.0 if one is None else round(getattr(one, figure), 4)


def class_hue(name: str, place: int) -> str:
    """The colour of the ``place``-th class in its chart."""
    return _CLASS_HUES.get(name) or hue(place + len(_CLASS_HUES))


def hue(place: int) -> str:
    """The colour of the first, second, ... thing in a chart."""
    return _HUES[place % len(_HUES)]


def _line(name: str, x: Sequence[float], y: Sequence[float], line: dict[str, Any]) -> Trace:
    return {"type": "scatter", "mode": "lines", "name": name, "x": list(x), "y": list(y), "line": line}


def _across(value: float) -> dict[str, Any]:
    return {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": value, "y1": value, "line": _rule()}


def _upright(value: float) -> dict[str, Any]:
    return {"type": "line", "yref": "paper", "y0": 0, "y1": 1, "x0": value, "x1": value, "line": _rule()}


def _rule() -> dict[str, Any]:
    return {"color": _LIMIT_COLOUR, "dash": "dash", "width": 1.5}


def layout(x_title: str, y_title: str, **more: Any) -> dict[str, Any]:
    """The layout that all charts share."""
    return {
        "height": 340,
        "margin": {"l": 60, "r": 20, "t": 10, "b": 50},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "xaxis": {"title": {"text": x_title}},
        "yaxis": {"title": {"text": y_title}, "rangemode": "tozero"},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "traceorder": "normal"},
        **more,
    }
