"""The settings of a preset that do nothing there, because of another setting of it."""

from __future__ import annotations

from collections.abc import Mapping

from headway_policies.preset.model import Setting

#: For each setting of a batch that some strategies ignore: the strategies that use it.
USED_BY: Mapping[str, tuple[str, ...]] = {
    "bins": ("static", "dynamic"),
    "window_ms": ("dynamic",),
    "window": ("dynamic",),
    "urgent_window_ms": ("dynamic",),
    "preferred_batch_sizes": ("dynamic",),
    "flush_after_s": ("static",),
}

#: The settings of a limit that moves, but for its objective.
MOVING_LIMIT = ("set_point_ratio", "min_seats", "max_seats", "kv_reserve_ratio", "stale_after_s", "shadow")

#: The settings of a limit that keeps an objective.
KEEPING_LIMIT = ("inter_token_slo_ms", "set_point_ratio")

#: The settings of the order by cached prefixes.
BY_PREFIX = ("prefix_quantum_tokens", "prefix_max_overtakes")


def without_effect(settings: Mapping[str, Setting]) -> dict[str, str]:
    """The keys of ``Preset.settings()`` that have no effect, each with the choice that ignores it."""
    found = {}
    strategy = settings.get("batching.strategy")
    for key, strategies in USED_BY.items():
        if strategy not in strategies:
            found[f"batching.{key}"] = f"under {strategy}"
    if settings.get("limit.policy") == "fixed" and not settings.get("limit.memory_aware"):
        found |= dict.fromkeys((f"limit.{key}" for key in (*MOVING_LIMIT, "inter_token_slo_ms")), "under fixed")
    if settings.get("limit.policy") == "knee":
        found |= dict.fromkeys((f"limit.{key}" for key in KEEPING_LIMIT), "under knee")
    if (between := settings.get("ordering.between")) != "ageing":
        found["ordering.ageing_step_s"] = f"under {between}"
    if (inside := settings.get("ordering.inside")) != "prefix":
        found |= dict.fromkeys((f"ordering.{key}" for key in BY_PREFIX), f"under {inside}")
    return {key: why for key, why in found.items() if key in settings}


def effective(settings: Mapping[str, Setting]) -> dict[str, Setting]:
    """The settings that have an effect, in their order: what two presets are compared by."""
    ignored = without_effect(settings)
    return {key: value for key, value in settings.items() if key not in ignored}
