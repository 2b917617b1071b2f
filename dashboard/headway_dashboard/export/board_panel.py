"""Panels of the Grafana board, without their places and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headway_dashboard.analysis.catalogue import palette
from headway_dashboard.analysis.catalogue.panels import Panel, Tile
from headway_dashboard.analysis.catalogue.thresholds import Bound
from headway_dashboard.analysis.charts.figure import FAR
from headway_dashboard.analysis.units import Unit
from headway_dashboard.export.board_query import DATASOURCE, query
from headway_dashboard.export.chart import Curve, bounds_of, curves_of

#: Grafana's names of the units.
_UNITS: dict[Unit, str] = {
    "count": "short",
    "per_s": "suffix: /s",
    "seconds": "s",
    "bytes": "bytes",
    "ratio": "percentunit",
}
_COLOURS = {"warning": palette.ORANGE, "critical": palette.RED}
_DASHES = {"dash": [10, 10], "dot": [2, 6]}


def chart_panel(panel: Panel) -> dict[str, Any]:
    """A panel as a heat map, a state timeline or a time series, by the kind of its lines."""
    kinds = {line.kind for line in panel.lines}
    if "heat" in kinds:
        return _heat_map(panel)
    return _state_timeline(panel) if "state" in kinds else _time_series(panel)


def _time_series(panel: Panel) -> dict[str, Any]:
    limits = {"min": 0} | ({} if panel.ceiling is None else {"max": panel.ceiling})
    defaults = _defaults(panel) | limits | {"mappings": _step_words(panel.steps), "custom": _custom(panel)}
    options = {
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    found = _panel("timeseries", panel, defaults, options)
    return found | {"fieldConfig": {"defaults": defaults, "overrides": _overrides(curves_of(panel))}}


def _state_timeline(panel: Panel) -> dict[str, Any]:
    defaults = _defaults(panel) | {"mappings": _state_words(), "custom": {"fillOpacity": 80}}
    return _panel("state-timeline", panel, defaults, {"showValue": "never"})


def _heat_map(panel: Panel) -> dict[str, Any]:
    """Prometheus' buckets hold all observations at or below their bound: Grafana takes the differences itself."""
    options = {
        "calculate": False,
        "yAxis": {"unit": _UNITS[panel.unit], "axisPlacement": "left"},
        "color": {"mode": "scheme", "scheme": "Blues", "steps": 64},
        "tooltip": {"mode": "single"},
    }
    found = _panel("heatmap", panel, _defaults(panel), options)
    return found | {"targets": [target | {"format": "heatmap"} for target in found["targets"]]}


def _panel(kind: str, panel: Panel, defaults: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": kind,
        "title": panel.title,
        "description": f"{panel.help}\n\n{panel.caption}".strip(),
        "datasource": DATASOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": options,
        "targets": _targets(curves_of(panel)),
    }


def _targets(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    """The queries; a reference with labels, such as an objective, only while it is near what is measured: one far above
    would press the lines flat."""
    found = [query(curve.expression, curve.legend, at) for at, curve in enumerate(curves)]
    measured = next((target["expr"] for target, curve in zip(found, curves, strict=True) if not curve.reference), "")
    for target, curve in zip(found, curves, strict=True):
        if measured and curve.reference and curve.expression.by:
            target["expr"] = f"({target['expr']}) <= on () group_left () ({FAR:g} * max({measured}))"
    return found


def _defaults(panel: Panel) -> dict[str, Any]:
    return {
        "unit": _UNITS[panel.unit],
        "noValue": panel.idle or "no data",
        "color": {"mode": "palette-classic"},
        "thresholds": {
            "mode": "absolute",
            "steps": threshold_steps(bounds_of(panel), [bound.value for bound in panel.bounds]),
        },
    }


def tile_panel(tile: Tile) -> dict[str, Any]:
    """A key figure with its course behind it."""
    return {
        "type": "stat",
        "title": tile.label,
        "description": tile.help,
        "datasource": DATASOURCE,
        "fieldConfig": {
            "defaults": {
                "unit": _UNITS[tile.unit],
                "noValue": "no data",
                "color": {"mode": "fixed", "fixedColor": palette.BLUE},
                "mappings": [],
                "thresholds": {"mode": "absolute", "steps": threshold_steps(())},
            },
            "overrides": [],
        },
        "options": {
            "colorMode": "value",
            "graphMode": "area",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        },
        "targets": [query(tile.expression, tile.label, 0)],
    }


def threshold_steps(bounds: Sequence[Bound], marks: Sequence[float] = ()) -> list[dict[str, Any]]:
    """Grafana's steps: each begins at its value. A bound from below colours what lies under it."""
    below = sorted((bound.value, _COLOURS[bound.severity]) for bound in bounds if not bound.above)
    above = [(bound.value, _COLOURS[bound.severity]) for bound in bounds if bound.above]
    known = {bound.value for bound in bounds}
    above += [(value, palette.GREY) for value in marks if value not in known]
    above.sort()
    colours = [*(colour for _, colour in below), palette.GREEN, *(colour for _, colour in above)]
    values = [None, *(value for value, _ in below), *(value for value, _ in above)]
    return [{"color": colour, "value": value} for colour, value in zip(colours, values, strict=True)]


def _custom(panel: Panel) -> dict[str, Any]:
    bars = all(curve.kind == "bar" for curve in curves_of(panel))
    return {
        "drawStyle": "bars" if bars else "line",
        "fillOpacity": 80 if bars else 0,
        "lineWidth": 1 if bars else 2,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if bars else "none", "group": "A"},
        "thresholdsStyle": {"mode": "dashed" if bounds_of(panel) or panel.bounds else "off"},
    }


def _overrides(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    found = [(at, _properties(curve)) for at, curve in enumerate(curves)]
    return [
        {"matcher": {"id": "byFrameRefID", "options": chr(ord("A") + at)}, "properties": properties}
        for at, properties in found
        if properties
    ]


def _properties(curve: Curve) -> list[dict[str, Any]]:
    properties: list[dict[str, Any]] = []
    if curve.colour:
        properties.append({"id": "color", "value": {"mode": "fixed", "fixedColor": curve.colour}})
    if curve.dash in _DASHES:
        properties.append({"id": "custom.lineStyle", "value": {"fill": "dash", "dash": _DASHES[curve.dash]}})
    if curve.kind == "step":
        properties.append({"id": "custom.lineInterpolation", "value": "stepAfter"})
    if curve.kind == "bar":
        properties += [
            {"id": "custom.drawStyle", "value": "bars"},
            {"id": "custom.stacking", "value": {"mode": "normal", "group": "A"}},
            {"id": "custom.fillOpacity", "value": 80},
        ]
    if curve.kind == "dots":
        properties.append({"id": "custom.drawStyle", "value": "points"})
    if curve.right:
        properties += [{"id": "custom.axisPlacement", "value": "right"}, {"id": "unit", "value": "short"}]
    return properties


def _step_words(steps: Sequence[str]) -> list[dict[str, Any]]:
    if not steps:
        return []
    options = {str(at): {"index": at, "text": word} for at, word in enumerate(steps)}
    return [{"type": "value", "options": options}]


def _state_words() -> list[dict[str, Any]]:
    options = {"0": {"index": 0, "text": "no", "color": "transparent"},
               "1": {"index": 1, "text": "yes", "color": palette.GREEN}}  # fmt: skip
    return [{"type": "value", "options": options}]
