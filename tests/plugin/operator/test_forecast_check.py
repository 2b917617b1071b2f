"""The forecast of the preset in force against what is measured: its bounds, and its sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.api.schema import ClassForecast, ForecastCheck, Interval, PresetForecast, Quantiles
from headway.operator.forecast_check import MIN_ENDED, checked
from headway_policies.trial import ALL, Served

AS_FORECAST = Served(refused_ratio=0.02, timed_out_ratio=0.0, ttft_p95_s=0.8, tokens_per_s=50.0)
ENDED = {"realtime": 200, "normal": 200}


def interval(value: float, low: float | None = None, high: float | None = None) -> Interval:
    return Interval(value=value, low=value if low is None else low, high=value if high is None else high)


def of_class(refused: Interval, ttft_s: Interval) -> ClassForecast:
    return ClassForecast(
        offered=300, completed_ratio=interval(0.98), refused_ratio=refused, timed_out_ratio=interval(0.0),
        ttft_s=Quantiles(p95=ttft_s), inter_token_s=Quantiles(),
    )  # fmt: skip


def check(measured: dict[str, Served], ended: dict[str, int] | None = None, **own: Interval) -> ForecastCheck | None:
    """The check of a forecast of 2 % refused, 0.8 s and 50 tokens a second for both classes, but for ``own``."""
    one = of_class(own.get("refused", interval(0.02)), own.get("ttft_s", interval(0.8)))
    forecast = PresetForecast(
        name="interactive", tokens_per_s=interval(50.0), mean_batch=interval(4.0), all=one,
        classes={"realtime": one, "normal": one},
    )  # fmt: skip
    served = {ALL: AS_FORECAST, "realtime": AS_FORECAST, "normal": AS_FORECAST} | measured
    return checked(forecast, served, ENDED if ended is None else ended, 60.0)


def test_a_forecast_that_comes_true_is_said_to() -> None:
    """Nothing differs, and there is no sentence."""
    found = check({})
    assert found is not None
    assert (found.differs, found.sentence) == ([], "")


def test_a_class_that_is_refused_against_its_forecast_is_named_with_both_figures() -> None:
    """Who, what was forecast, and what is measured; the other presets are no more to be relied on."""
    refused = replace(AS_FORECAST, refused_ratio=0.64)
    found = check({"realtime": refused, ALL: replace(refused, tokens_per_s=29.0)})
    assert found is not None
    assert [(one.class_name, one.figure, one.measured) for one in found.differs] == [
        ("realtime", "refused_ratio", 0.64),
        ("", "tokens_per_s", 29.0),
    ]
    assert found.sentence == (
        "The forecast of interactive, the preset in force, differs from the measurements of the last 60 s: realtime "
        "2 % refused, measured 64 %; 50 tokens/s, measured 29. Forecasts of other presets are equally unreliable."
    )


@pytest.mark.parametrize(
    ("measured", "differs"),
    [
        ({"ttft_p95_s": 1.5}, False),
        ({"ttft_p95_s": 1.7}, True),
        ({"ttft_p95_s": 0.3}, True),
        ({"refused_ratio": 0.11}, False),
        ({"refused_ratio": 0.13}, True),
        ({"timed_out_ratio": 0.2}, True),
        ({"ttft_p95_s": None, "refused_ratio": None}, False),
    ],
)
def test_the_bounds(measured: dict[str, float | None], differs: bool) -> None:
    """Twice or half the time, a tenth of the requests; what was not measured is no difference."""
    found = check({"normal": replace(AS_FORECAST, **measured)})
    assert found is not None
    assert bool(found.differs) is differs


def test_what_the_replays_have_too_is_no_difference() -> None:
    """The spread of the replays counts as forecast."""
    late = {"normal": replace(AS_FORECAST, ttft_p95_s=4.0, refused_ratio=0.3)}
    found = check(late, ttft_s=interval(0.8, 0.6, 3.0), refused=interval(0.02, 0.0, 0.25))
    assert found is not None
    assert found.differs == []


def test_few_tokens_of_few_requests_are_no_error_of_a_forecast() -> None:
    """Only a server that turns requests away makes all the tokens it can."""
    found = check({ALL: replace(AS_FORECAST, tokens_per_s=5.0)})
    assert found is not None
    assert found.differs == []


def test_a_few_requests_say_nothing() -> None:
    """Neither of a class nor of all; many of small classes say something of all together."""
    bad = replace(AS_FORECAST, refused_ratio=0.9)
    assert check({"normal": bad, ALL: bad}, {"normal": MIN_ENDED - 1}) is None
    found = check({"normal": bad, ALL: bad}, {"normal": MIN_ENDED - 1, "realtime": MIN_ENDED - 1})
    assert found is not None
    assert [(one.class_name, one.measured) for one in found.differs] == [("", 0.9)]
