"""The rungs of the fallback ladder, and the triggers that enter them.

    rung      triggers                             effect
    normal    -                                    none
    cap       queue age, KV pressure               shorter answers
    bypass    queue age                            a few requests run beside the running batch
    shed      queue age, KV pressure               requests of sheddable classes are refused
    divert    queue age, errors, engine down       another model answers
    pause     errors                               all requests wait

Each trigger moves through its own rungs of this table (``ladder``), so a rung that a trigger skips is not in force for
it: an engine that is down diverts requests, but shortens no answer. A rung degrades only requests of classes that allow
it (``degradation``). An operator may set any rung; then all rungs up to it are in force.

Queue age never triggers a pause: no request would leave the queue then, and its age would grow for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Rung(IntEnum):
    """The level of degradation; larger is worse."""

    NORMAL = 0
    CAP = 1
    BYPASS = 2
    SHED = 3
    DIVERT = 4
    PAUSE = 5

    @property
    def word(self) -> str:
        """The name in settings, metrics and API answers."""
        return self.name.lower()


class Trigger(StrEnum):
    """The conditions that move the ladder."""

    QUEUE_AGE = "queue_age"
    KV_PRESSURE = "kv_pressure"
    ERRORS = "errors"
    ENGINE_DOWN = "engine_down"
    OPERATOR = "operator"


#: The triggers that enter each rung. An operator may set any rung.
RUNG_TRIGGERS: dict[Rung, tuple[Trigger, ...]] = {
    Rung.CAP: (Trigger.QUEUE_AGE, Trigger.KV_PRESSURE),
    Rung.BYPASS: (Trigger.QUEUE_AGE,),
    Rung.SHED: (Trigger.QUEUE_AGE, Trigger.KV_PRESSURE),
    Rung.DIVERT: (Trigger.QUEUE_AGE, Trigger.ERRORS, Trigger.ENGINE_DOWN),
    Rung.PAUSE: (Trigger.ERRORS,),
}


class Fallback(BaseModel):
    """``[fallback]`` of a preset. A trigger without a threshold does nothing, and by default none has one.

    A trigger moves one rung up when its threshold has been reached for ``enter_s``, and one down when it has been below
    ``leave_ratio`` of the threshold for ``leave_s``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    queue_age_s: float | None = Field(default=None, gt=0, le=86_400)
    kv_usage_ratio: float | None = Field(default=None, gt=0, le=1)
    error_ratio: float | None = Field(default=None, gt=0, le=1)
    error_window_s: float = Field(default=30.0, ge=1, le=3600)
    error_min_requests: int = Field(default=10, ge=1, le=100_000)
    engine_down: bool = False
    pause_on_errors: bool = False
    bypass_seats: int = Field(default=0, ge=0, le=1024)
    enter_s: float = Field(default=2.0, ge=0, le=3600)
    leave_s: float = Field(default=10.0, ge=0, le=3600)
    leave_ratio: float = Field(default=0.7, gt=0, le=1)


@dataclass(frozen=True, slots=True)
class FallbackSignals:
    """The inputs of the triggers. ``queue_age_s`` is that of ``degradation.queue_age_s``."""

    queue_age_s: float = 0.0
    kv_usage_ratio: float = 0.0
    error_ratio: float = 0.0
    engine_up: bool = True


def strength(trigger: Trigger, signals: FallbackSignals, config: Fallback) -> float:
    """A trigger's value relative to its threshold: 1 reaches it; 0 without a threshold."""
    match trigger:
        case Trigger.QUEUE_AGE:
            return _part(signals.queue_age_s, config.queue_age_s)
        case Trigger.KV_PRESSURE:
            return _part(signals.kv_usage_ratio, config.kv_usage_ratio)
        case Trigger.ERRORS:
            return _part(signals.error_ratio, config.error_ratio)
        case Trigger.ENGINE_DOWN:
            return float(config.engine_down and not signals.engine_up)
        case Trigger.OPERATOR:
            return 0.0


def _part(value: float, threshold: float | None) -> float:
    return 0.0 if threshold is None else value / threshold
