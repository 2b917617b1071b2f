"""Recorded traffic, and the forecast of what presets would do with it."""

from __future__ import annotations

from pydantic import Field

from headway.api.schema.base import Answer, StepTime
from headway.api.schema.status import ForecastErrors


class Lengths(Answer):
    """Lengths in tokens of one sequence: of how many requests, mean, quantiles (nearest rank) and maximum."""

    count: int
    mean: float
    p50: int
    p95: int
    p99: int
    maximum: int


class ClassTraffic(Answer):
    """The recent arrivals of one class."""

    requests: int
    rate_per_s: float
    sequences: float = Field(default=1.0, description="Of a request, on the mean.")
    prompt_tokens: Lengths | None = None
    output_tokens: Lengths | None = Field(default=None, description="Of the completed requests; null: none completed.")


class Traffic(Answer):
    """The arrivals of the last half hour, the refused requests too, without the invalid ones."""

    span_s: float = Field(description="The time that these figures are of.")
    whole: bool = Field(default=True, description="false: there were so many that the oldest were dropped.")
    requests: int
    rate_per_s: float
    gap_cv: float | None = Field(
        default=None, description="Coefficient of variation of the times between arrivals; 1: a Poisson process."
    )
    peak_ratio: float | None = Field(default=None, description="The busiest ten seconds over ten seconds on the mean.")
    tenants: int = 0
    largest_tenant_ratio: float | None = Field(default=None, description="The busiest tenant's share of the requests.")
    classes: dict[str, ClassTraffic] = Field(default={})


class Interval(Answer):
    """A forecast figure: the median of several replays, the least and the largest."""

    value: float
    low: float
    high: float


class Quantiles(Answer):
    """p50, p95 and p99 in seconds; null where nothing was measured."""

    p50: Interval | None = None
    p95: Interval | None = None
    p99: Interval | None = None


class ClassForecast(Answer):
    """The forecast for the requests of one class; ratios are parts of the offered requests."""

    offered: int
    completed_ratio: Interval
    refused_ratio: Interval
    timed_out_ratio: Interval
    good_ratio: Interval | None = Field(
        default=None, description="Completed within all objectives of the preset; null where the preset states none."
    )
    ttft_s: Quantiles
    inter_token_s: Quantiles


class PresetForecast(Answer):
    """The forecast of one preset for the recent traffic."""

    name: str
    tokens_per_s: Interval
    mean_batch: Interval
    goodput_per_s: Interval | None = Field(
        default=None, description="Requests a second completed within the preset's own objectives."
    )
    all: ClassForecast
    classes: dict[str, ClassForecast]


class EngineEstimate(StepTime):
    """The model of the engine: its step time, and the tokens that its KV space holds."""

    kv_tokens: int


class Forecast(Answer):
    """The forecast of several presets, by replays of the last requests on the model of the engine."""

    current: str = Field(description="The preset in force.")
    span_s: float = Field(description="The time in which the requests arrived.")
    requests: int = Field(description="The sequences that were replayed: the newest ones.")
    seeds: int = Field(description="The least number of replays behind each figure.")
    engine: EngineEstimate
    earlier: ForecastErrors = Field(default=ForecastErrors(), description="The errors of earlier forecasts.")
    presets: list[PresetForecast]


class ForecastProgress(Answer):
    """Whether a forecast is being computed, and how far it is."""

    running: bool
    done_ratio: float = 0.0
