"""A forecast as a server answers it."""

from __future__ import annotations

from headway.api.schema import (
    ClassForecast,
    EngineEstimate,
    Forecast,
    Interval,
    PresetForecast,
    Quantiles,
)


def forecast(*names: str) -> Forecast:
    """These presets, each with one class that has requests and one that has none."""
    engine = EngineEstimate(base_s=0.002, sequence_s=0.0002, prompt_token_s=0.0, error_ratio=0.04, kv_tokens=8192)
    presets = [_preset(name) for name in names]
    return Forecast(current="balanced", span_s=600.0, requests=300, seeds=3, engine=engine, presets=presets)


def _preset(name: str) -> PresetForecast:
    own = _class(300, Quantiles(p50=_exactly(0.3), p95=Interval(value=0.8, low=0.6, high=1.1)))
    classes = {"normal": own, "realtime": _class(0, Quantiles())}
    return PresetForecast(name=name, tokens_per_s=_exactly(240), mean_batch=_exactly(8), all=own, classes=classes)


def _class(offered: int, ttft_s: Quantiles) -> ClassForecast:
    return ClassForecast(
        offered=offered,
        completed_ratio=_exactly(0.98),
        refused_ratio=_exactly(0.02),
        timed_out_ratio=_exactly(0.0),
        ttft_s=ttft_s,
        inter_token_s=Quantiles(p95=_exactly(0.05)),
    )


def _exactly(value: float) -> Interval:
    return Interval(value=value, low=value, high=value)
