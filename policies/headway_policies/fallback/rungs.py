"""What gives way under trouble, in which order, and what is trouble?

    rung      climbed for                          what gives way there
    normal    -                                    nothing
    cap       queue age, KV pressure               the length of answers
    bypass    queue age                            the order: a few go beside the batch that runs
    shed      queue age, KV pressure               whole classes: they are refused
    divert    queue age, errors, engine down       the model: another one answers
    pause     errors                               everybody waits

Each trigger has a stair of its own through this table (``ladder``), so a rung that one of them skips is not in force on
its account: an engine that is down diverts, and cuts nobody's answers. What a rung takes away, it takes only from the
classes that allow it (``degrading``). An operator may stand on any rung, and then all up to it is in force.

A pause never follows from the age of the queue: nobody leaves the line then, and it would grow older for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from pydantic import BaseModel, ConfigDict, Field


class Rung(IntEnum):
    """How far down service has gone; the larger, the worse."""

    NORMAL = 0
    CAP = 1
    BYPASS = 2
    SHED = 3
    DIVERT = 4
    PAUSE = 5

    @property
    def word(self) -> str:
        """Its name in settings, metrics and answers."""
        return self.name.lower()


class Trigger(StrEnum):
    """What may send the ladder on its way."""

    QUEUE_AGE = "queue_age"
    KV_PRESSURE = "kv_pressure"
    ERRORS = "errors"
    ENGINE_DOWN = "engine_down"
    OPERATOR = "operator"


#: The table: which triggers climb to a rung by themselves. To an operator all of them are open.
CLIMBED_FOR: dict[Rung, tuple[Trigger, ...]] = {
    Rung.CAP: (Trigger.QUEUE_AGE, Trigger.KV_PRESSURE),
    Rung.BYPASS: (Trigger.QUEUE_AGE,),
    Rung.SHED: (Trigger.QUEUE_AGE, Trigger.KV_PRESSURE),
    Rung.DIVERT: (Trigger.QUEUE_AGE, Trigger.ERRORS, Trigger.ENGINE_DOWN),
    Rung.PAUSE: (Trigger.ERRORS,),
}


class Fallback(BaseModel):
    """``[fallback]`` of a preset. A trigger without a threshold does nothing, and by default none has one.

    A trigger climbs a rung when its threshold has been reached for ``enter_s``, and comes down one when it has been
    below ``leave_ratio`` of the threshold for ``leave_s``.
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
    """What the triggers look at. ``queue_age_s`` is the longest wait of those for whom the ladder is there."""

    queue_age_s: float = 0.0
    kv_usage_ratio: float = 0.0
    error_ratio: float = 0.0
    engine_up: bool = True


def strength(trigger: Trigger, signals: FallbackSignals, config: Fallback) -> float:
    """How near a trigger is to its threshold: 1 has reached it. One without a threshold has no strength."""
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
