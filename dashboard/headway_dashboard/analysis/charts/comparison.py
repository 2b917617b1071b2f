"""The comparison with another time: its lines, moved so that both times end at the same place of a chart."""

from __future__ import annotations

from typing import Any

from headway_dashboard.analysis.catalogue.panels import Panel
from headway_dashboard.analysis.charts.chart_frame import milliseconds
from headway_dashboard.analysis.charts.drawn_lines import drawn_lines
from headway_dashboard.analysis.queries.reading import SourceReading
from headway_dashboard.analysis.units import Scale, duration

#: The shape of each kind of line that can be compared; bars and bands of two times would cover each other.
_SHAPES = {"line": "linear", "step": "hv"}


def compared(panel: Panel, reading: SourceReading, before: SourceReading, chosen: Scale) -> list[dict[str, Any]]:
    """The traces of the other time: thin, dotted and faint, in the colours of those they are compared with."""
    lines, times_s = drawn_lines(panel, before)
    moved_ms = milliseconds([time_s + reading.end_s - before.end_s for time_s in times_s])
    return [
        {
            "name": f"{line.name or panel.title}, before",
            "x": moved_ms,
            "y": [None if point is None else float(f"{point * chosen.factor:.4g}") for point in line.points],
            "hovertemplate": f"%{{y:,.4~r}}{chosen.suffix}",
            "type": "scatter",
            "mode": "lines",
            "connectgaps": False,
            "opacity": 0.65,
            "showlegend": False,
            "line": {"color": line.colour, "width": 1.5, "dash": "dot", "shape": _SHAPES[line.line.kind]},
        }
        for line in lines
        if line.line.kind in _SHAPES and not line.line.reference and line.measured
    ]


def comparison_words(before: SourceReading | None) -> str:
    """The meaning of the dotted lines, or the reason why they are missing."""
    if before is None:
        return "Compare: no change of the preset is known."
    if all(series.empty for series in before.series.values()):
        return "Compare: nothing is recorded from before the last change of the preset."
    time = duration(before.range_s)
    return f"Dotted: the {time} before the last change of the preset. Bars, bands and heat maps are not compared."
