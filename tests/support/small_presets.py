"""Presets small enough to reason about in a test."""

from __future__ import annotations

from headway_policies import Preset, PriorityClass
from headway_policies.batching import Batching
from headway_policies.preset import Queue


def terms(
    priority: int, *, places: int = 100, queue_s: float = 10.0, total_s: float = 60.0, tiers: tuple[str, ...] = ()
) -> PriorityClass:
    """The terms of one class."""
    return PriorityClass(
        priority=priority, max_waiting=places, queue_timeout_s=queue_s, total_timeout_s=total_s, service_tiers=tiers
    )


def small_preset(
    seats: int = 1, *, most_waiting: int = 100, name: str = "small", classes: dict[str, PriorityClass] | None = None
) -> Preset:
    """Three classes with the usual names, 10 s in the queue and 60 s in all, unless ``classes`` says otherwise."""
    usual = {
        "realtime": terms(3, tiers=("priority",)),
        "normal": terms(2, tiers=("auto",)),
        "batch": terms(1, tiers=("flex",)),
    }
    return Preset(
        name=name,
        default_class="normal" if classes is None else next(iter(classes)),
        batching=Batching(seats=seats, window_ms=10),
        queue=Queue(max_waiting=most_waiting),
        classes=usual if classes is None else classes,
    )
