"""A forecast as one self-contained page: what each preset would do, as charts with the spread of the replays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headway.api.schema import ClassForecast, Forecast, Interval, PresetForecast
from headway_simulator.report.charts import Chart, Trace, class_hue, hue, layout
from headway_simulator.report.page import page

Pick = Callable[[ClassForecast], Interval | None]

_ENDS: tuple[tuple[str, str, Callable[[ClassForecast], Interval]], ...] = (
    ("completed", "#1fa187", lambda figures: figures.completed_ratio),
    ("refused", "#c7a41b", lambda figures: figures.refused_ratio),
    ("timed out", "#d1495b", lambda figures: figures.timed_out_ratio),
)


def forecast_page(found: Forecast, facts: Sequence[str]) -> str:
    """The page; ``facts`` are its first paragraphs. Raises NoPlotlyError."""
    check = found.earlier.in_force
    others = " (not confirmed)" if check is not None and check.differs else ""
    names = [f"{preset.name}{' (in force)' if preset.name == found.current else others}" for preset in found.presets]
    pictures = [
        _of_presets(
            "Tokens a second", "tokens a second, all classes", names, [preset.tokens_per_s for preset in found.presets]
        ),
        _by_class(
            found.presets, names, "First token", "seconds to the first token, p95", lambda figures: figures.ttft_s.p95
        ),
        _by_class(
            found.presets,
            names,
            "Between tokens",
            "seconds between two tokens, p95",
            lambda figures: figures.inter_token_s.p95,
        ),
        _ends(found.presets, names),
        _of_presets(
            "Running at once", "sequences in the engine, mean", names, [preset.mean_batch for preset in found.presets]
        ),
    ]
    return page(f"Headway: forecast of {', '.join(preset.name for preset in found.presets)}", facts, [], [], pictures)


def _of_presets(title: str, what: str, names: list[str], values: Sequence[Interval]) -> Chart:
    caption = f"{title} under each preset: the median of the replays, with the least and the largest of them."
    return Chart(title, caption, [{**_bars(what, names, values), "marker": {"color": hue(0)}}], layout("", what))


def _by_class(presets: Sequence[PresetForecast], names: list[str], title: str, what: str, pick: Pick) -> Chart:
    classes = dict.fromkeys(name for preset in presets for name in preset.classes)
    traces: list[Trace] = [
        {
            **_bars(
                name, names, [pick(preset.classes[name]) if name in preset.classes else None for preset in presets]
            ),
            "marker": {"color": class_hue(name, place)},
        }
        for place, name in enumerate(classes)
    ]
    caption = f"{what[0].upper()}{what[1:]}, by class, of the answered requests; a preset that refuses more may look "
    "faster."
    return Chart(title, caption, traces, layout("", what, barmode="group"))


def _ends(presets: Sequence[PresetForecast], names: list[str]) -> Chart:
    traces: list[Trace] = [
        {
            "type": "bar",
            "name": name,
            "x": names,
            "y": [pick(preset.all).value for preset in presets],
            "marker": {"color": colour},
        }
        for name, colour, pick in _ENDS
    ]
    caption = "How the requests would end, as parts of all arrivals."
    return Chart("Ends", caption, traces, layout("", "part of the requests", barmode="stack"))


def _bars(name: str, names: list[str], values: Sequence[Interval | None]) -> Trace:
    """Bars with the spread of the replays; a gap where there is no figure."""
    return {
        "type": "bar",
        "name": name,
        "x": names,
        "y": [None if value is None else value.value for value in values],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [0.0 if value is None else value.high - value.value for value in values],
            "arrayminus": [0.0 if value is None else value.value - value.low for value in values],
        },
    }
