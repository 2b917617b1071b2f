"""The timeline of the strategies as a chart, and in letters for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from headway_simulator.report.charts import Chart, Trace, hue, layout
from headway_simulator.studies.timeline import SEATS, Bar, Timeline


def timeline_chart(timelines: Sequence[Timeline]) -> Chart:
    """The sequence in each seat at each step, strategy by strategy."""
    names = [bar.sequence for bar in timelines[0].bars]
    shape = layout("steps of the engine", "", barmode="overlay", height=460)
    shape["xaxis"] |= {"dtick": 1, "range": [0, max(timeline.steps for timeline in timelines)]}
    shape["yaxis"] |= {"autorange": "reversed"}
    notes = "; ".join(timeline.words for timeline in timelines)
    return Chart(
        "Four seats, seven sequences",
        f"Seven sequences on {SEATS} seats under each strategy. {notes}.",
        [_trace(name, place, timelines) for place, name in enumerate(names)],
        shape,
    )


def text_timeline(timelines: Sequence[Timeline]) -> str:
    """The same in letters: a line for each seat, two columns a step."""
    lines: list[str] = []
    for timeline in timelines:
        seats = (_seat(seat, timeline) for seat in range(1, SEATS + 1))
        lines += [timeline.words, *seats, ""]
    return "\n".join(lines[:-1])


def _trace(name: str, place: int, timelines: Sequence[Timeline]) -> Trace:
    bars = [(timeline.strategy, bar) for timeline in timelines for bar in timeline.bars if bar.sequence == name]
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": [[strategy for strategy, _ in bars], [f"seat {bar.seat}" for _, bar in bars]],
        "x": [bar.end - bar.begin for _, bar in bars],
        "base": [bar.begin for _, bar in bars],
        "text": [name] * len(bars),
        "textposition": "inside",
        "insidetextanchor": "middle",
        "marker": {"color": hue(place), "line": {"color": "white", "width": 2}},
        "hovertemplate": f"{name}: %{{x}} steps from step %{{base}}<extra></extra>",
    }


def _seat(seat: int, timeline: Timeline) -> str:
    cells = ["··"] * timeline.steps
    for bar in timeline.bars:
        if bar.seat == seat:
            cells[bar.begin : bar.end] = _cells(bar)
    return f"  seat {seat}  {''.join(cells)}"


def _cells(bar: Bar) -> list[str]:
    return [bar.sequence, *["━━"] * (bar.end - bar.begin - 1)]
