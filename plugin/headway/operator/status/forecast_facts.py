"""Forecasts as facts of the diagnosis: by the objectives of the preset in force."""

from __future__ import annotations

from typing import Final

from headway.api.schema import ClassForecast, Interval, PresetForecast
from headway_policies import Desk, Preset
from headway_policies.diagnosis import Forecasted
from headway_policies.limits import Resolved

_NO_OBJECTIVES: Final = Resolved(None, None, relative=False)


def forecasted(preset: Preset, found: PresetForecast, desk: Desk) -> Forecasted:
    """A forecast, measured by the objectives of the preset in force."""
    whole = found.all
    return Forecasted(
        name=preset.name,
        seats=preset.batching.seats,
        completed_ratio=whole.completed_ratio.value,
        keeps_objectives=all(_keeps(figures, objectives_of(desk, name)) for name, figures in found.classes.items()),
        ttft_p95_s=_value(whole.ttft_s.p95),
        inter_token_p95_s=_value(whole.inter_token_s.p95),
    )


def _keeps(found: ClassForecast, objectives: Resolved) -> bool:
    """Whether first tokens and times between tokens of a class keep its objectives by their p95."""
    ttft_s, between_s = _value(found.ttft_s.p95), _value(found.inter_token_s.p95)
    late = objectives.ttft_s is not None and (ttft_s is None or ttft_s > objectives.ttft_s)
    slow = objectives.inter_token_s is not None and between_s is not None and between_s > objectives.inter_token_s
    return not late and not slow


def _value(interval: Interval | None) -> float | None:
    return None if interval is None else interval.value


def objectives_of(desk: Desk, name: str) -> Resolved:
    """The objectives of a class on this engine, for a prompt of the usual length; none where the preset lacks it."""
    return desk.objectives(name) if name in desk.preset.classes else _NO_OBJECTIVES
