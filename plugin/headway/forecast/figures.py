"""The figures of a forecast: each the median of several replays, with the least and the largest of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Interval:
    """The median of several replays, the least and the largest."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Quantiles:
    """p50, p95 and p99 in seconds; None where nothing was measured."""

    p50: Interval | None
    p95: Interval | None
    p99: Interval | None


@dataclass(frozen=True, slots=True)
class ClassForecast:
    """One class, or all of them. Ratios are of the requests that were offered.

    ``good_ratio``: served within all objectives that the preset states for the class; None where it states none.
    """

    offered: int
    completed_ratio: Interval
    refused_ratio: Interval
    timed_out_ratio: Interval
    good_ratio: Interval | None
    ttft_s: Quantiles
    inter_token_s: Quantiles


@dataclass(frozen=True, slots=True)
class PresetForecast:
    """What one preset would do. ``classes`` has the requests by the class that they were sent in."""

    name: str
    tokens_per_s: Interval
    mean_batch: Interval
    goodput_per_s: Interval | None
    all: ClassForecast
    classes: Mapping[str, ClassForecast]


@dataclass(frozen=True, slots=True)
class ClassFigures:
    """One class in one replay."""

    offered: int
    completed: int
    refused: int
    timed_out: int
    good: int | None
    ttft_s: tuple[float | None, ...]
    inter_token_s: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """One replay."""

    tokens_per_s: float
    mean_batch: float
    goodput_per_s: float | None
    all: ClassFigures
    classes: Mapping[str, ClassFigures]


def merged(name: str, replays: Sequence[Figures]) -> PresetForecast:
    """The figures of several replays of the same requests, at least one."""
    goodput = [one.goodput_per_s for one in replays]
    tokens, batch = _interval([one.tokens_per_s for one in replays]), _interval([one.mean_batch for one in replays])
    assert tokens is not None
    assert batch is not None
    classes = replays[0].classes
    return PresetForecast(
        name,
        tokens,
        batch,
        _interval(goodput),
        _merged_class([one.all for one in replays]),
        {name: _merged_class([one.classes[name] for one in replays]) for name in classes},
    )


def _merged_class(replays: Sequence[ClassFigures]) -> ClassForecast:
    offered = replays[0].offered

    def ratio(counts: Sequence[int]) -> Interval:
        found = _interval([count / max(1, offered) for count in counts])
        assert found is not None
        return found

    good = [one.good for one in replays]
    return ClassForecast(
        offered,
        ratio([one.completed for one in replays]),
        ratio([one.refused for one in replays]),
        ratio([one.timed_out for one in replays]),
        None if None in good else ratio([one or 0 for one in good]),
        _quantiles([one.ttft_s for one in replays]),
        _quantiles([one.inter_token_s for one in replays]),
    )


def _quantiles(replays: Sequence[tuple[float | None, ...]]) -> Quantiles:
    return Quantiles(*(_interval(values) for values in zip(*replays, strict=True)))


def _interval(values: Sequence[float | None]) -> Interval | None:
    """None where a replay has no such figure."""
    known = [one for one in values if one is not None]
    return Interval(median(known), min(known), max(known)) if known and len(known) == len(values) else None
