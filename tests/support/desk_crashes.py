"""Presets and events for the tests of a desk whose engine dies."""

from __future__ import annotations

from typing import Any

from small_presets import small_preset, terms
from watched_desk import WatchedDesk, deeds

from headway_policies import (
    Abort,
    Effect,
    Expire,
    Preset,
    Reason,
    Recovery,
    Reject,
)
from headway_policies.engine.warmup import Warmup

ALONE_S = 10.0


def careful(preset: Preset, ramp_s: float = 0.0) -> Preset:
    """The same preset, with 10 s alone for each suspect, and a ramp."""
    return preset.model_copy(update={"recovery": Recovery(probation_s=ALONE_S), "warmup": Warmup(ramp_s=ramp_s)})


def patient(seats: int, ramp_s: float = 0.0, **more: Any) -> Preset:
    """Three classes without any time-out, so that only the engine has an effect."""
    never: dict[str, Any] = {"queue_s": None, "total_s": None}
    classes = {"normal": terms(2, **never), "realtime": terms(3, **never), "batch": terms(1, **never)}
    return careful(small_preset(seats, classes=classes, **more), ramp_s)


def crashes(it: WatchedDesk, *retryable: int) -> list[Effect]:
    """The engine dies; these have shown nothing."""
    return deeds(it.does("engine_restarting", set(retryable)))


def refused(effects: list[Effect]) -> list[tuple[int, Reason]]:
    """The refused tickets, and the reasons."""
    return [(one.ticket_id, one.reason) for one in effects if isinstance(one, Reject | Expire | Abort)]
