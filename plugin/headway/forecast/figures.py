"""The figures of a forecast: each the median of several replays, with the least and the largest of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from headway.api.schema import ClassForecast, Interval, PresetForecast, Quantiles


@dataclass(frozen=True, slots=True)
class ClassFigures:
    """The figures of one class in one replay."""

    offered: int
    completed: int
    refused: int
    timed_out: int
    good: int | None
    ttft_s: tuple[float | None, ...]
    inter_token_s: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of one replay."""

    tokens_per_s: float
    mean_batch: float
    goodput_per_s: float | None
    all: ClassFigures
    classes: Mapping[str, ClassFigures]


def merged(name: str, replays: Sequence[Figures]) -> PresetForecast:
    """The figures of several replays of the same requests, at least one."""
    goodput = [replay.goodput_per_s for replay in replays]
    tokens = _interval([replay.tokens_per_s for replay in replays])
    batch = _interval([replay.mean_batch for replay in replays])
    assert tokens is not None
    assert batch is not None
    classes = replays[0].classes
    return PresetForecast(
        name=name,
        tokens_per_s=tokens,
        mean_batch=batch,
        goodput_per_s=_interval(goodput),
        all=_merged_class([replay.all for replay in replays]),
        classes={name: _merged_class([replay.classes[name] for replay in replays]) for name in classes},
    )


def _merged_class(replays: Sequence[ClassFigures]) -> ClassForecast:
    offered = replays[0].offered

    def ratio(counts: Sequence[int]) -> Interval:
        found = _interval([count / max(1, offered) for count in counts])
        assert found is not None
        return found

    good = [replay.good for replay in replays]
    return ClassForecast(
        offered=offered,
        completed_ratio=ratio([replay.completed for replay in replays]),
        refused_ratio=ratio([replay.refused for replay in replays]),
        timed_out_ratio=ratio([replay.timed_out for replay in replays]),
        good_ratio=None if None in good else ratio([count or 0 for count in good]),
        ttft_s=_quantiles([replay.ttft_s for replay in replays]),
        inter_token_s=_quantiles([replay.inter_token_s for replay in replays]),
    )


def _quantiles(replays: Sequence[tuple[float | None, ...]]) -> Quantiles:
    p50, p95, p99 = (_interval(values) for values in zip(*replays, strict=True))
    return Quantiles(p50=p50, p95=p95, p99=p99)


def _interval(values: Sequence[float | None]) -> Interval | None:
    """The interval of the replays; None where one of them has no such figure."""
    known = [value for value in values if value is not None]
    whole = known and len(known) == len(values)
    return Interval(value=median(known), low=min(known), high=max(known)) if whole else None
