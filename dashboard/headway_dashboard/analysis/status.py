"""What the server says beyond its metrics: engine, warm-up, fallback ladder and limit, from three answers.

Pure: answers of the admin API in, one value out. What an answer lacks is left at its default, so that a server of
another version leaves a page poorer but whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from headway.api import schema
from headway.api.schema import EngineStatus, FallbackState, OrderedLimit, PrefixStatus, Setting, WarmupStatus

#: The ladder of a server that does not tell it.
NO_LADDER = FallbackState(rung="")


@dataclass(frozen=True, slots=True)
class Status:
    """The whole. ``known`` is False where the server did not tell: then there is at most why it is not ready."""

    known: bool = False
    reasons: tuple[str, ...] = ()
    seats_taken: int = 0
    queued: int = 0
    limit_reason: str = ""
    ordered_limit: OrderedLimit | None = None
    prefix: PrefixStatus | None = None
    order_error: str = ""
    window_error: str = ""
    dispatching: bool = False
    recycling: bool = False
    longest_gc_pause_s: float | None = None
    engine: EngineStatus = field(default_factory=EngineStatus)
    warmup: WarmupStatus = field(default_factory=WarmupStatus)
    ladder: FallbackState = NO_LADDER
    first_token_timeout_s: Mapping[str, float] = field(default_factory=dict)


def status_of(
    answer: schema.Status, ladder: FallbackState = NO_LADDER, settings: Mapping[str, Setting] | None = None
) -> Status:
    """One value of the status, the ladder, and the settings of the preset in force (None: not known)."""
    stages = {stage: rounds_s for stage, rounds_s in answer.warmup.stages.items() if rounds_s}
    return Status(
        known=True,
        reasons=tuple(answer.reasons),
        seats_taken=answer.seats_taken,
        queued=answer.queued,
        limit_reason=answer.limit.reason,
        ordered_limit=answer.limit.ordered,
        prefix=answer.ordering.prefix,
        order_error=answer.ordering.error or "",
        window_error=answer.window_error or "",
        dispatching=answer.state == "open",
        recycling=answer.memory.recycling,
        longest_gc_pause_s=answer.memory.longest_gc_pause_s,
        engine=answer.engine,
        warmup=answer.warmup.model_copy(update={"stages": stages}),
        ladder=ladder,
        first_token_timeout_s=first_token_timeouts(settings or {}),
    )


def first_token_timeouts(settings: Mapping[str, Setting]) -> dict[str, float]:
    """The first-token time-out of each class, in seconds, from the settings of a preset.

    Infinite for a class that has none; a class whose time-out is no positive number is left out.
    """
    keys = [key.split(".") for key in settings]
    names = dict.fromkeys(parts[1] for parts in keys if len(parts) == 3 and parts[0] == "classes")
    found = {name: _seconds(settings.get(f"classes.{name}.first_token_timeout_s", math.inf)) for name in names}
    return {name: timeout_s for name, timeout_s in found.items() if timeout_s is not None and timeout_s > 0}


def _seconds(value: Setting) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
