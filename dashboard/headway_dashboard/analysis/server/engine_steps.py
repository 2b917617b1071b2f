"""Figures of the engine's steps, cleared while there is no engine that makes any.

The metrics keep the figures of the last step. While the engine is restarting, lost or unresponsive they are of the
past: a point of that time is a gap, as if it had not been measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.queries.expressions import Either, Expression
from headway_dashboard.analysis.queries.model import Point, Series
from headway_dashboard.analysis.queries.reading import SourceReading

#: Metrics that are of an engine step.
OF_STEPS = frozenset(
    {
        "headway_batch_size",
        "headway_engine_kv_cache_usage_ratio",
        "headway_engine_running",
        "headway_engine_waiting",
        "vllm:kv_cache_usage_perc",
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
    }
)
_UP = "up"
#: The words of a tile in place of a figure, by the engine's state.
WORDS = {"restarting": "engine down", "lost": "engine down", "silent": "no response"}


def without_dead_steps(reading: SourceReading) -> SourceReading:
    """The reading without figures of steps that no engine made; it must hold the engine's state to know."""
    away = _away(reading[panels.ENGINE_STATE])
    if not any(away.values()):
        return reading
    series = {
        expression: _cleared(found, away) if _is_of_steps(expression) else found
        for expression, found in reading.series.items()
    }
    return replace(reading, series=series)


def engine_away(reading: SourceReading) -> str:
    """The reason why the engine's steps have no figures now, in two words; empty while it works or is unknown.

    Of several servers' engines one that works is enough.
    """
    lines = reading[panels.ENGINE_STATE].lines
    if reading[panels.ENGINE_STATE].latest(_UP) == 1:
        return ""
    return next((WORDS[state] for (state,), line in lines.items() if state in WORDS and line and line[-1] == 1), "")


def _is_of_steps(expression: Expression) -> bool:
    if isinstance(expression, Either):
        return _is_of_steps(expression.first) or _is_of_steps(expression.second)
    return expression.metric.name in OF_STEPS


def _away(states: Series) -> dict[float, bool]:
    """Whether the engine was away at each instant; of several servers, whether none of their engines worked."""
    lines = [line for labels, line in states.lines.items() if labels[0] in WORDS]
    up = states.line(_UP) or [None] * len(states.times_s)
    return {time_s: up[at] != 1 and any(line[at] == 1 for line in lines) for at, time_s in enumerate(states.times_s)}


def _cleared(series: Series, away: Mapping[float, bool]) -> Series:
    def kept(line: Sequence[Point]) -> list[Point]:
        return [None if away.get(time_s) else point for time_s, point in zip(series.times_s, line, strict=True)]

    return Series(series.times_s, {labels: kept(line) for labels, line in series.lines.items()})
