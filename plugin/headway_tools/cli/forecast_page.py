"""A forecast as one self-contained page: what each preset would do, as charts with the spread of the replays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headway.api.schema import ClassForecast, Forecast, Interval, PresetForecast
from headway_simulator.report.charts import Chart, Trace, class_hue, hue, layout
from headway_simulator.report.page import page

Pick = Callable[[ClassForecast], Interval | None]

_ENDS: tuple[tuple[str, str, Callable[[ClassForecast], Interval]], ...] = (
    ("completed", "#1fa187", lambda one: one.completed_ratio),
    ("refused", "#c7a41b", lambda one: one.refused_ratio),
    ("timed out", "#d1495b", lambda one: one.timed_out_ratio),
)


def forecast_page(found: Forecast, facts: Sequence[str]) -> str:
    """The page; ``facts`` are its first paragraphs. Raises NoPlotlyError."""
    names = [f"{one.name} (in force)" if one.name == found.current else one.name for one in found.presets]
    pictures = [
        _of_presets(
            "Tokens a second", "tokens a second, all classes", names, [one.tokens_per_s for one in found.presets]
        ),
        _by_class(found.presets, names, "First token", "seconds to the first token, p95", lambda one: one.ttft_s.p95),
        _by_class(
            found.presets, names, "Between tokens", "seconds between two tokens, p95", lambda one: one.inter_token_s.p95
        ),
        _ends(found.presets, names),
        _of_presets(
            "Running at once", "sequences in the engine, mean", names, [one.mean_batch for one in found.presets]
        ),
    ]
    return page(f"Headway: forecast of {', '.join(one.name for one in found.presets)}", facts, [], [], pictures)


def _of_presets(title: str, what: str, names: list[str], values: Sequence[Interval]) -> Chart:
    caption = f"{title} under each preset: the median of the replays, with the least and the largest of them."
    return Chart(title, caption, [{**_bars(what, names, values), "marker": {"color": hue(0)}}], layout("", what))


def _by_class(presets: Sequence[PresetForecast], names: list[str], title: str, what: str, pick: Pick) -> Chart:
    traces: list[Trace] = [
        {
            **_bars(name, names, [pick(one.classes[name]) if name in one.classes else None for one in presets]),
            "marker": {"color": class_hue(name, place)},
        }
        for place, name in enumerate(_class_names(presets))
    ]
    caption = f"{what[0].upper()}{what[1:]}, by class: of what is answered; a preset that refuses more may look faster."
    return Chart(title, caption, traces, layout("", what, barmode="group"))


def _ends(presets: Sequence[PresetForecast], names: list[str]) -> Chart:
    traces: list[Trace] = [
        {
            "type": "bar",
            "name": name,
            "x": names,
            "y": [pick(one.all).value for one in presets],
            "marker": {"color": colour},
        }
        for name, colour, pick in _ENDS
    ]
    caption = "How the requests would end, as parts of those that arrive."
    return Chart("Ends", caption, traces, layout("", "part of the requests", barmode="stack"))


def _bars(name: str, names: list[str], values: Sequence[Interval | None]) -> Trace:
    """Bars with the spread of the replays; a gap where there is no figure."""
    return {
        "type": "bar",
        "name": name,
        "x": names,
        "y": [None if one is None else one.value for one in values],
        "error_y": {
            "type": "data",
            "symmetric": False,
            "array": [0.0 if one is None else one.high - one.value for one in values],
            "arrayminus": [0.0 if one is None else one.value - one.low for one in values],
        },
    }


def _class_names(presets: Sequence[PresetForecast]) -> list[str]:
    return list(dict.fromkeys(name for one in presets for name in one.classes))
