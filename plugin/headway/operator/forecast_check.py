"""The check of a forecast: that of the preset in force against what is measured now, and where they differ.

A forecast is of the traffic and the engine as they were. Where the preset in force does something else than its
forecast says, those of the other presets are no more to be relied on. Two figures differ where the measured one is
beyond the spread of the replays by more than a bound: a tenth of the requests for shares, twice or half the time to the
first token, a quarter fewer tokens a second while requests are turned away. With less to do fewer tokens are no error.
The bounds are wider than the errors that were measured under steady traffic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from headway.api.schema import ForecastCheck, ForecastDifference, Interval, PresetForecast
from headway_policies.trial import ALL, Served
from headway_policies.units import compact, duration, percent

#: With fewer requests that ended nothing is said of a class.
MIN_ENDED = 30
SHARE_BOUND, TTFT_FACTOR, TTFT_LEAST_S, TOKENS_BOUND = 0.1, 2.0, 0.2, 0.25
#: The share of requests without an answer from which on the engine makes all the tokens it can.
_FULL = 0.05
_SHARES: Final = {"refused_ratio": "refused", "timed_out_ratio": "timed out"}
#: So many differences stand in the sentence.
_SAID = 3


def checked(
    forecast: PresetForecast, served: Mapping[str, Served], ended: Mapping[str, int], measured_s: float
) -> ForecastCheck | None:
    """The check by what was served in so many seconds, by class, and how many requests ended; None: too few."""
    if sum(ended.values()) < MIN_ENDED:
        return None
    known = [name for name in forecast.classes if ended.get(name, 0) >= MIN_ENDED and name in served]
    found = [difference for name in known or [ALL] for difference in _of_class(forecast, name, served[name])]
    found = [*sorted(found, key=lambda one: one.figure not in _SHARES), *_tokens(forecast, served[ALL])]
    sentence = _sentence(forecast.name, found, measured_s) if found else ""
    return ForecastCheck(preset=forecast.name, measured_s=round(measured_s, 1), differs=found, sentence=sentence)


def _of_class(forecast: PresetForecast, name: str, served: Served) -> Iterator[ForecastDifference]:
    own = forecast.all if name == ALL else forecast.classes[name]
    for figure in _SHARES:
        interval: Interval = getattr(own, figure)
        measured: float | None = getattr(served, figure)
        if measured is not None and abs(measured - _nearest(interval, measured)) > SHARE_BOUND:
            yield _difference(name, figure, interval, measured)
    first, ttft_s = own.ttft_s.p95, served.ttft_p95_s
    if first is None or ttft_s is None:
        return
    near_s = _nearest(first, ttft_s)
    if abs(ttft_s - near_s) > TTFT_LEAST_S and not near_s / TTFT_FACTOR <= ttft_s <= near_s * TTFT_FACTOR:
        yield _difference(name, "ttft_p95_s", first, ttft_s)


def _tokens(forecast: PresetForecast, served: Served) -> Iterator[ForecastDifference]:
    said, measured = forecast.tokens_per_s, served.tokens_per_s
    unanswered = (served.refused_ratio or 0.0) + (served.timed_out_ratio or 0.0)
    if measured is not None and unanswered > _FULL and measured < said.low * (1 - TOKENS_BOUND):
        yield _difference(ALL, "tokens_per_s", said, measured)


def _nearest(interval: Interval, value: float) -> float:
    """The point of the replays' spread that is nearest to a value."""
    return min(max(value, interval.low), interval.high)


def _difference(name: str, figure: str, said: Interval, measured: float) -> ForecastDifference:
    return ForecastDifference(class_name=name, figure=figure, forecast=said.value, measured=measured)


def _sentence(preset: str, found: list[ForecastDifference], measured_s: float) -> str:
    more = f"; and {len(found) - _SAID} more" if len(found) > _SAID else ""
    said = "; ".join(_words(difference) for difference in found[:_SAID])
    return (
        f"The forecast of {preset}, the preset in force, differs from the measurements of the last "
        f"{round(measured_s)} s: {said}{more}. Forecasts of other presets are equally unreliable."
    )


def _words(difference: ForecastDifference) -> str:
    of = f"{difference.class_name} " if difference.class_name else ""
    said, measured = difference.forecast, difference.measured
    if difference.figure in _SHARES:
        return f"{of}{percent(round(said, 3))} {_SHARES[difference.figure]}, measured {percent(round(measured, 3))}"
    if difference.figure == "tokens_per_s":
        return f"{compact(said)} tokens/s, measured {compact(measured)}"
    return f"{of}TTFT p95 {duration(said)}, measured {duration(measured)}"
