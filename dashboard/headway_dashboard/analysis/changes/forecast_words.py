"""Forecasts of presets as text: presets against classes, a line for a card, a table by class, what they rest on, and
their recent error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headway.api.schema import ClassForecast, Forecast, ForecastErrors, Interval, PresetForecast
from headway_dashboard.analysis.catalogue import palette
from headway_dashboard.analysis.units import MISSING, compact, counted, duration, written

_ALL = "all"


class Figure(NamedTuple):
    """A cell of the matrix; ``best``: no preset has a better one, and some have a worse one."""

    text: str
    best: bool = False


def matrix(forecast: Forecast, urgency: Sequence[str]) -> dict[str, dict[str, Figure]]:
    """By preset: for each class, the most urgent first, the requests within the objectives of the preset and p95 of
    their first tokens; and the tokens/s of all.
    """
    presets = forecast.presets
    names = _ordered(dict.fromkeys(name for preset in presets for name in preset.classes), urgency)
    columns = {name: _class_column([preset.classes.get(name) for preset in presets]) for name in names}
    tokens = [preset.tokens_per_s.value for preset in presets]
    columns["Tokens/s"] = [Figure(compact(value), best) for value, best in zip(tokens, _best(tokens), strict=True)]
    return {
        preset.name: {title: cells[place] for title, cells in columns.items()} for place, preset in enumerate(presets)
    }


def _class_column(found: Sequence[ClassForecast | None]) -> list[Figure]:
    """The forecast of a class under each preset; nothing where a preset lacks the class or has no request."""
    offered = [own if own is not None and own.offered else None for own in found]
    good = [own.good_ratio.value if own is not None and own.good_ratio is not None else None for own in offered]
    return [
        Figure(MISSING if own is None else _median(own), best) for own, best in zip(offered, _best(good), strict=True)
    ]


def _median(own: ClassForecast) -> str:
    """The share within objectives, and p95 of first tokens, by the median of the replays alone."""
    good, first_s = (None if found is None else found.value for found in (own.good_ratio, own.ttft_s.p95))
    return f"{written(good, 'ratio')}, TTFT {written(first_s, 'seconds')}"


def _best(values: Sequence[float | None]) -> list[bool]:
    """Which of these are the largest, in two digits; none where all known ones are."""
    shown = [None if value is None else float(f"{value:.2g}") for value in values]
    known = {value for value in shown if value is not None}
    largest = max(known) if len(known) > 1 else None
    return [largest is not None and value == largest for value in shown]


def card_line(forecast: PresetForecast, urgency: Sequence[str]) -> str:
    """The forecast for a preset: first tokens of the most urgent class with requests, tokens, and refusals."""
    name, own = _first(forecast, urgency)
    p95 = own.ttft_s.p95
    first = f"{name}: TTFT p95 {_seconds(p95)}" if p95 is not None else f"{name}: no first token"
    tokens = f"{compact(forecast.tokens_per_s.value)} tokens/s"
    return f"{first}, {tokens}, {written(own.refused_ratio.value, 'ratio')} refused"


def _first(forecast: PresetForecast, urgency: Sequence[str]) -> tuple[str, ClassForecast]:
    for name in urgency:
        if name in forecast.classes and forecast.classes[name].offered:
            return name, forecast.classes[name]
    return _ALL, forecast.all


def class_rows(forecast: PresetForecast, urgency: Sequence[str]) -> list[dict[str, str]]:
    """A row for each class, the most urgent first, and one for all."""
    rows = [_row(name, forecast.classes[name]) for name in _ordered(forecast.classes, urgency)]
    return [*rows, _row(_ALL, forecast.all)]


def _ordered(names: Mapping[str, object], urgency: Sequence[str]) -> list[str]:
    """The names of classes: those of which the urgency is known, then the others."""
    return [*(name for name in urgency if name in names), *(name for name in names if name not in urgency)]


def _row(name: str, own: ClassForecast) -> dict[str, str]:
    return {
        "Class": name,
        "Requests": compact(own.offered),
        "TTFT p50": _seconds(own.ttft_s.p50),
        "TTFT p95": _seconds(own.ttft_s.p95),
        "Between tokens p95": _seconds(own.inter_token_s.p95),
        "Completed": _ratio(own.completed_ratio),
        "Refused": _ratio(own.refused_ratio),
        "Timed out": _ratio(own.timed_out_ratio),
        "Within objectives": _ratio(own.good_ratio),
    }


def _seconds(one: Interval | None) -> str:
    """The median of the replays, with the least and the largest where they differ."""
    return MISSING if one is None else _spread(duration(one.value), duration(one.low), duration(one.high))


def _ratio(one: Interval | None) -> str:
    if one is None:
        return MISSING
    return _spread(*(written(value, "ratio") for value in (one.value, one.low, one.high)))


def _spread(value: str, low: str, high: str) -> str:
    return value if low == value == high else f"{value} ({low} to {high})"


def basis_words(forecast: Forecast, age_s: float, earlier: ForecastErrors | None = None) -> str:
    """The basis of a forecast: what was replayed, on which model, how long ago; then earlier forecasts' errors.

    ``earlier`` are those of now, where they are known: the forecast itself has those of when it was made.
    """
    sequences = counted(forecast.requests, "sequence", "sequences")
    replays = counted(forecast.seeds, "replay", "replays")
    off = written(forecast.engine.error_ratio, "ratio")
    return (
        f"Forecast made {duration(age_s)} ago: {sequences} of {duration(forecast.span_s)} of recorded traffic, "
        f"{replays} of each preset. The model of the engine was off by {off} of its recent step times. "
        f"{earlier_words(earlier or forecast.earlier)}"
    )


def earlier_words(errors: ForecastErrors) -> str:
    """The errors of earlier forecasts after the last switches."""
    if not errors.comparisons or not errors.error_ratio:
        return "No earlier forecast has been compared with what came yet."
    say = palette.words_of(palette.FORECASTS)
    figures = ", ".join(f"{say(name)} {written(ratio, 'ratio')}" for name, ratio in errors.error_ratio.items())
    switches = "the last switch" if errors.comparisons == 1 else f"the last {errors.comparisons} switches"
    return f"After {switches} forecasts were off by (median): {figures}."
