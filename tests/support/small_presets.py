"""Small presets for tests."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import headway_policies.preset
from headway_policies import Preset, PriorityClass
from headway_policies.batching.strategy import Batching
from headway_policies.limits.limit import LimitSettings
from headway_policies.preset.extends import merged
from headway_policies.queueing.bounds import QueueSettings
from headway_policies.queueing.factory import OrderSettings

BUNDLED = Path(headway_policies.preset.__file__).parent / "bundled"


def balanced_without_fallback(text: str = "") -> Preset:
    """``balanced`` without a trigger or a permission for the fallback ladder, and with what this TOML sets."""
    table = tomllib.loads((BUNDLED / "balanced.toml").read_text(encoding="utf-8"))
    del table["fallback"]
    for one in table["classes"].values():
        for key in ("fallback_max_tokens", "sheddable", "may_divert"):
            one.pop(key, None)
    return Preset.model_validate(merged(table, tomllib.loads(text)))


#: Absolute objectives and a fixed limit for ``balanced``, which a test can count on.
ABSOLUTE = """
[batching]
seats = 32

[limit]
policy = "fixed"
memory_aware = false

[classes.realtime]
ttft_slo_s = 1
inter_token_slo_ms = 100

[classes.normal]
ttft_slo_s = 2
burst_s = 30
inter_token_slo_ms = 200
"""


def balanced_with_absolute_objectives() -> Preset:
    """``balanced`` on exactly 32 seats, with objectives of 1, 2 and 60 s."""
    table = tomllib.loads((BUNDLED / "balanced.toml").read_text(encoding="utf-8"))
    return Preset.model_validate(merged(table, tomllib.loads(ABSOLUTE)))


def terms(
    priority: int,
    *,
    places: int = 100,
    queue_s: float | None = 10.0,
    total_s: float | None = 60.0,
    tiers: tuple[str, ...] = (),
    **more: Any,
) -> PriorityClass:
    """The terms of one class; ``more`` are further keys of ``[classes.NAME]``."""
    return PriorityClass(
        priority=priority,
        max_waiting=places,
        queue_timeout_s=queue_s,
        total_timeout_s=total_s,
        service_tiers=tiers,
        **more,
    )


def small_preset(
    seats: int = 1,
    *,
    most_waiting: int = 100,
    name: str = "small",
    classes: dict[str, PriorityClass] | None = None,
    between: str = "strict",
    inside: str = "fifo",
    batching: Mapping[str, Any] | None = None,
    queue: Mapping[str, Any] | None = None,
    limit: LimitSettings | None = None,
) -> Preset:
    """Three classes with the usual names, 10 s in the queue and 60 s in all, unless ``classes`` says otherwise.

    The plainest policies: strict order, first come first served, no eviction, no prediction, no room made.
    ``batching`` and ``queue`` are further keys of those tables.
    """
    usual = {
        "realtime": terms(3, tiers=("priority",)),
        "normal": terms(2, tiers=("auto",)),
        "batch": terms(1, tiers=("flex",)),
    }
    plain = {"evict": False, "refuse_infeasible": False, "shed_unreachable": False, "make_room": False}
    return Preset(
        name=name,
        default_class="normal" if classes is None else next(iter(classes)),
        batching=Batching(**({"seats": seats, "window_ms": 10} | dict(batching or {}))),
        ordering=OrderSettings(between=between, inside=inside),
        limit=limit or LimitSettings(),
        queue=QueueSettings(**({"max_waiting": most_waiting} | plain | dict(queue or {}))),
        classes=usual if classes is None else classes,
    )
