"""The changes by a switch of the preset: each setting now and after, the engine's ceiling, and when it applies.

A switch acts in one step and drops no request. Bounds, time-outs and the choice of a class are given on arrival, so
requests that are here keep theirs. Only seats above those that the engine was started with need a restart: until then
they are capped.
"""

from __future__ import annotations

from collections.abc import Mapping

from headway.api.schema import Setting
from headway_dashboard.analysis.units import MISSING
from headway_policies.preset import differences, effective, moves, seat_words, toml_text

NOW = "now"
NEW_REQUESTS = "new requests; requests on the server keep the old value"
NEXT_STEP = "next step of the engine"
AS_THEY_FINISH = "as requests finish"
_SORTED_AGAIN = "now; waiting requests are sorted again"
_UNKNOWN = "not known here"

#: When the settings of each table apply, but for those below and those of the classes.
BY_TABLE: Mapping[str, str] = {
    "default_class": NEW_REQUESTS,
    "batching": NOW,
    "ordering": _SORTED_AGAIN,
    "limit": NEXT_STEP,
    "queue": NEW_REQUESTS,
    "warmup": "next warm-up",
    "recovery": "now, for the next fault of the engine",
    "fallback": NOW,
    "memory": "next memory check",
    "step": NEXT_STEP,
}
BY_SETTING: Mapping[str, str] = {
    "queue.shed_unreachable": NOW,
    "warmup.keep_warm_after_s": NOW,
    "warmup.ramp_s": "next start of the engine",
    "memory.recycle_drain_s": "next recycle of the engine",
}
#: When the terms of a class apply.
BY_TERM: Mapping[str, str] = {
    "priority": _SORTED_AGAIN,
    "max_waiting": NEW_REQUESTS,
    "max_waiting_tokens": NEW_REQUESTS,
    "max_waiting_bytes": NEW_REQUESTS,
    "queue_timeout_s": NEW_REQUESTS,
    "first_token_timeout_s": NEW_REQUESTS,
    "stall_timeout_s": NEW_REQUESTS,
    "total_timeout_s": NEW_REQUESTS,
    "ttft_slo_s": NOW,
    "burst_s": NOW,
    "inter_token_slo_ms": NOW,
    "share": NOW,
    "reserved_seats": NOW,
    "service_tiers": NEW_REQUESTS,
    "fallback_max_tokens": NOW,
    "may_bypass": NOW,
    "sheddable": NOW,
    "may_divert": NOW,
}
_SEATS = ("batching.seats", "limit.max_seats", "limit.min_seats")


def change_rows(
    before: Mapping[str, Setting], after: Mapping[str, Setting], ceiling: int | None = None
) -> list[dict[str, str]]:
    """The settings with an effect that differ; ``ceiling`` is the most seats of this engine, None: not known."""
    rows = []
    for difference in differences(effective(before), effective(after)):
        applies = applies_when(difference.setting, difference.before, difference.after, ceiling)
        if difference.setting == "batching.seats" and moves(after):
            applies += "; the limit starts there"
        rows.append(
            {
                "Setting": difference.setting,
                "Now": setting_text(difference.before),
                "After": setting_text(difference.after),
                "Ceiling": str(ceiling) if ceiling is not None and difference.setting in _SEATS else "",
                "Applies": applies,
            }
        )
    return rows


def applies_when(setting: str, before: Setting | None, after: Setting | None, ceiling: int | None = None) -> str:
    """The time when a setting that goes from ``before`` to ``after`` takes effect."""
    if setting in _SEATS and isinstance(after, int):
        return _seats_apply(setting, before, after, ceiling)
    table, _, rest = setting.partition(".")
    if table == "classes":
        return BY_TERM.get(rest.rpartition(".")[2], _UNKNOWN)
    return BY_SETTING.get(setting) or BY_TABLE.get(table, _UNKNOWN)


def _seats_apply(setting: str, before: Setting | None, after: int, ceiling: int | None) -> str:
    if ceiling is not None and after > ceiling:
        return f"capped at {ceiling}; more needs a restart of the engine with more seats"
    if isinstance(before, int) and after < before and setting != "limit.min_seats":
        return AS_THEY_FINISH
    return NOW if setting == "batching.seats" else NEXT_STEP


def seat_change(before: Mapping[str, Setting], after: Mapping[str, Setting], ceiling: int | None = None) -> str:
    """The start and the reach of the limit, now and after; empty where they stay as they are."""
    now, then = seat_words(before, ceiling), seat_words(after, ceiling)
    return "" if now == then else f"Seats: {now} → {then}."


def card_words(settings: Mapping[str, Setting], ceiling: int | None = None) -> str:
    """A preset in one line: where its limit starts and how far it reaches, its strategy, and its window where the
    strategy has one.
    """
    strategy, window_ms = settings.get("batching.strategy"), effective(settings).get("batching.window_ms")
    window = "" if window_ms is None else f" · {setting_text(window_ms)} ms window"
    return f"seats: {seat_words(settings, ceiling)} · {strategy or MISSING} batching{window}"


def by_urgency(settings: Mapping[str, Setting]) -> list[str]:
    """The classes of a preset, the most urgent first."""
    found: dict[str, float] = {}
    for key, value in settings.items():
        table, _, rest = key.partition(".")
        name, _, term = rest.rpartition(".")
        if table == "classes" and term == "priority" and isinstance(value, int | float):
            found[name] = value
    return sorted(found, key=lambda name: -found[name])


def setting_text(value: Setting | None) -> str:
    """A setting as it would stand in the preset file: exact, so that two different values never look the same."""
    return MISSING if value is None else toml_text(value)
