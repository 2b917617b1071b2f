"""Forecasts of presets as text: a line for a card, a table by class, what they rest on, and their recent error."""

from __future__ import annotations

from collections.abc import Sequence

from headway.api.schema import ClassForecast, Forecast, ForecastErrors, Interval, PresetForecast, Quantiles
from headway_dashboard.analysis.catalogue import palette
from headway_dashboard.analysis.units import MISSING, compact, counted, duration, written

_ALL = "all"


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
    known = [name for name in urgency if name in forecast.classes]
    names = [*known, *(name for name in forecast.classes if name not in known)]
    return [_row(name, forecast.classes[name]) for name in names] + [_row(_ALL, forecast.all)]


def _row(name: str, own: ClassForecast) -> dict[str, str]:
    return {
        "Class": name,
        "Requests": compact(own.offered),
        "TTFT p50": _seconds(own.ttft_s.p50),
        "TTFT p95": _seconds(own.ttft_s.p95),
        "Between tokens p95": _p95(own.inter_token_s),
        "Completed": _ratio(own.completed_ratio),
        "Refused": _ratio(own.refused_ratio),
        "Timed out": _ratio(own.timed_out_ratio),
        "Within objectives": _ratio(own.good_ratio),
    }


def _p95(quantiles: Quantiles) -> str:
    return _seconds(quantiles.p95)


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
