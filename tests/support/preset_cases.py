"""For each setting of a preset a scene in which it matters: its value before and after, and what else is set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from preset_machine import Asked, Scene

from headway_policies import Preset

_QUEUE = {"max_waiting": 100, "evict": False, "refuse_infeasible": False, "shed_unreachable": False, "make_room": False}
_CLASSES = {"urgent": 3, "normal": 2, "batch": 1}
BASE: Mapping[str, Any] = {
    "default_class": "normal",
    "batching.seats": 1,
    "batching.window_ms": 0.0,
    "ordering.between": "strict",
    "ordering.inside": "fifo",
    **{f"queue.{key}": value for key, value in _QUEUE.items()},
    **{f"classes.{name}.priority": priority for name, priority in _CLASSES.items()},
    **{
        f"classes.{name}.{key}": value
        for name in _CLASSES
        for key, value in (("max_waiting", 100), ("total_timeout_s", 300.0))
    },
    "warmup.logprobs": False,
    "warmup.json_schema": False,
}


@dataclass(frozen=True)
class Case:
    """A setting, None left out, before and after; ``given`` are others."""

    scene: Scene
    before: Any
    after: Any
    given: Mapping[str, Any]


def preset(*settings: Mapping[str, Any]) -> Preset:
    """The base with these settings, by their dotted keys."""
    table: dict[str, Any] = {"name": "tried"}
    for key, value in {key: value for one in (BASE, *settings) for key, value in one.items()}.items():
        *tables, name = key.split(".")
        inner = table
        for one in tables:
            inner = inner.setdefault(one, {})
        if value is not None:
            inner[name] = value
    return Preset.model_validate(table)


def _each(
    gap_s: float, number: int, tokens: int = 3, class_name: str = "normal", start_s: float = 0.0, **options: Any
) -> tuple[Asked, ...]:
    return tuple(
        Asked(start_s + gap_s * at, f"{class_name[0]}{start_s:.0f}-{at}", class_name, tokens, **options)
        for at in range(number)
    )


_NAMES = ("batch", "batch", "normal", "urgent", "normal", "batch", "normal")
_MIXED = tuple(Asked(0.0, f"{name[0]}{at}", name, 2 + at, 8 + 4 * at) for at, name in enumerate(_NAMES))
MIXED = Scene(_MIXED)
ONE = Scene(_each(0, 1))
OVERLOAD = Scene(_each(1, 40))
ADAPTS = Scene(_each(0, 24, 30), step_s=0.05, seat_s=0.02)
SMALL_KV = Scene(_each(0, 20, 40), step_s=0.05, kv_tokens=200, kv_seat_ratio=0.24)
PACED = Scene(_each(0.2, 30, 20, prompt_tokens=300), step_s=0.02, seat_s=0.002, prefill_s=0.0005)
SHAPED = Scene(
    (Asked(0.0, "first", tokens=40), *_each(1, 2, 3, prompt_tokens=900, start_s=1.03)),
    step_s=0.05,
    prefill_s=0.001,
    warm=True,
)
_TENANTS = tuple(Asked(0.0, f"{tenant}{at}", tenant=tenant) for at, tenant in enumerate("hhhhhl"))
_PREFIXES = tuple(
    Asked(0.2 * at, f"p{at}", prefix=1 + at % 3, prompt_tokens=600, tenant="xy"[at % 2]) for at in range(24)
)
_UNNAMED = tuple(Asked(0.0, f"u{at}", None if at < 3 else "normal", tier="flex") for at in range(6))
SLOW_TOKENS = Scene(_each(0, 3, 5), step_s=10.0)
WARM = Scene(_MIXED, warm=True, step_s=0.05, cold=True)
LADDER = Scene(
    (Asked(0.0, "long", "urgent", 20), *(Asked(at_s, f"a{at_s}", tokens=8) for at_s in (0.5, 0.6, 0.7, 60.0)))
)
_HOLDER = Asked(0.0, "holder", "urgent", 100)
KV = Scene((_HOLDER, *_each(12, 6, 8, start_s=3)), events=((0.0, "kv_use", 0.9), (20.0, "kv_use", 0.4)))
_FAILS = ((0.0, "failing", True), (13.5, "failing", False))
ERRORS = Scene((*_each(1, 14), *_each(1, 5, start_s=15)), events=_FAILS)
DOWN = Scene((*_each(0, 1), *_each(1, 3, start_s=20)), events=((10.0, "die", None),))
DOWN_TWICE = Scene((*_each(0, 1), *_each(1, 3, start_s=13)), events=((10.0, "die", None), (12.0, "die", None)))
DOWN_LATER = Scene((*_each(0, 1), *_each(1, 3, start_s=60)), events=((10.0, "die", None), (50.0, "die", None)))
SUSPECTS = Scene((*_each(0, 2, 2, start_s=5), *_each(0, 1, 2, start_s=11)), events=((10.0, "die", None),), step_s=15.0)
HANG = Scene((*_each(0, 1, 10), *_each(0, 2, start_s=20)), events=((5.0, "stalled", True), (40.0, "stalled", False)))
SLOW = Scene((*_each(0, 1, 10), *_each(0, 2, start_s=20)), events=((5.0, "slow", True), (60.0, "slow", False)))
_MANY = _each(0, 60, 10)
SHORT_KV = Scene(_MANY, events=((0.0, "kv_use", 0.9), (30.0, "kv_use", 0.1)))
SHORT_GPU = Scene(_MANY, events=((0.0, "gpu_use", 0.1), (4.0, "gpu_use", 0.97), (40.0, "gpu_use", 0.1)))
GROWTH = Scene(_each(1, 3), events=((10.0, "server_bytes", 2**33),), rest_s=30)
JOBS = Scene((Asked(0.0, "holder", "batch", 15), *_each(5, 6)), rest_s=20)
OLD = Scene((Asked(45.0, "holder", "urgent", 40), *_each(10, 10)), rest_s=60)
GROWN = Scene(_each(10, 2), events=((40.0, "engine_bytes", 2**33),), rest_s=60)

_DYNAMIC = {"batching.strategy": "dynamic", "batching.seats": 4, "batching.window_ms": 20_000.0}
_STATIC = {"batching.strategy": "static", "batching.seats": 3, "classes.normal.queue_timeout_s": 50.0}
_AIMD = {"batching.seats": 8, "limit.policy": "aimd", "limit.inter_token_slo_ms": 100.0}
_CAP = {
    "fallback.queue_age_s": 5.0,
    "fallback.enter_s": 1.0,
    "fallback.leave_s": 2.0,
    "classes.normal.fallback_max_tokens": 2,
}
_CAP_BY_KV = {**_CAP, "batching.seats": 4, "fallback.queue_age_s": None, "fallback.kv_usage_ratio": 0.5}
_BESIDE = {
    **_CAP,
    **_DYNAMIC,
    "batching.window_ms": 0.0,
    "classes.normal.fallback_max_tokens": None,
    "classes.normal.may_bypass": True,
    "fallback.bypass_seats": 1,
}
_PAUSE = {
    "fallback.error_ratio": 0.3,
    "fallback.error_min_requests": 3,
    "fallback.pause_on_errors": True,
    "fallback.enter_s": 0.5,
    "fallback.leave_s": 5.0,
    "fallback.error_window_s": 10.0,
}
_DIVERT = {
    "fallback.engine_down": True,
    "classes.normal.may_divert": True,
    "fallback.enter_s": 0.5,
    "recovery.max_restarts": 0,
}
_LOW = {
    "batching.seats": 8,
    "memory.kv_usage_ratio": 0.5,
    "memory.lower_after_s": 0.0,
    "memory.raise_after_s": 5.0,
    "memory.check_interval_s": 1.0,
}
_CLEAR = {
    "batching.seats": 3,
    "memory.clear_every_requests": 2,
    "memory.clear_every_s": 1.0,
    "memory.check_interval_s": 1.0,
}
_MARGIN = {"memory.check_interval_s": 1.0}
_SHORT_WARM_UP = {"batching.seats": 2}

CASES: dict[str, Case] = {
    "default_class": Case(Scene(_UNNAMED), "normal", "batch", {}),
    "batching.seats": Case(MIXED, 1, 3, {}),
    "batching.strategy": Case(MIXED, "continuous", "dynamic", {"batching.seats": 3}),
    "batching.window_ms": Case(ONE, 0.0, 5000.0, _DYNAMIC),
    "batching.urgent_window_ms": Case(Scene(_each(0, 1, class_name="urgent")), 0.0, 5000.0, _DYNAMIC),
    "batching.window": Case(Scene(_each(25, 9)), "fixed", "adaptive", _DYNAMIC),
    "batching.bins": Case(
        Scene(tuple(Asked(0.0, f"l{at}", tokens=40 if at % 2 else 2) for at in range(32))),
        1,
        2,
        {**_DYNAMIC, "batching.window_ms": 100.0},
    ),
    "batching.preferred_batch_sizes": Case(Scene(_each(0, 2)), None, [2], _DYNAMIC),
    "batching.flush_after_s": Case(ONE, None, 5.0, _STATIC),
    "batching.max_total_tokens": Case(MIXED, None, 20, {"batching.seats": 4}),
    "queue.max_waiting": Case(MIXED, 100, 1, {}),
    "queue.evict": Case(
        Scene((*_each(0, 2, class_name="batch"), *_each(0, 1, class_name="urgent", start_s=1))),
        False,
        True,
        {"queue.max_waiting": 1},
    ),
    "queue.max_waiting_tokens": Case(MIXED, None, 20, {}),
    "queue.max_waiting_bytes": Case(MIXED, None, 120, {}),
    "queue.refuse_infeasible": Case(
        Scene((*_each(0, 20), *_each(0, 20, start_s=40))), False, True, {"classes.normal.queue_timeout_s": 25.0}
    ),
    "queue.shed_unreachable": Case(
        Scene((*_each(10, 6, 1), *_each(3, 10, 1, start_s=70)), step_s=5.0),
        False,
        True,
        {"classes.normal.first_token_timeout_s": 12.0, "classes.normal.queue_timeout_s": 11.0},
    ),
    "queue.make_room": Case(
        Scene((*_each(0, 1, 2, "batch"), *_each(0, 1, 2, "urgent", 1)), step_s=10.0), False, True, {}
    ),
    "limit.policy": Case(ADAPTS, "fixed", "aimd", {"batching.seats": 8, "limit.inter_token_slo_ms": 100.0}),
    "limit.pace_prompts": Case(
        PACED, False, True, {"batching.seats": 8, "limit.policy": "model", "limit.inter_token_slo_ms": 60.0}
    ),
    "limit.memory_aware": Case(SMALL_KV, False, True, {"batching.seats": 8}),
    "limit.inter_token_slo_ms": Case(ADAPTS, 1000.0, 100.0, _AIMD),
    "limit.set_point_ratio": Case(ADAPTS, 0.92, 0.3, {**_AIMD, "limit.inter_token_slo_ms": 200.0}),
    "limit.min_seats": Case(ADAPTS, 1, 6, {**_AIMD, "limit.inter_token_slo_ms": 20.0}),
    "limit.max_seats": Case(ADAPTS, 64, 3, {**_AIMD, "batching.seats": 2, "limit.inter_token_slo_ms": 1000.0}),
    "limit.kv_reserve_ratio": Case(SMALL_KV, 0.05, 0.6, {"batching.seats": 8, "limit.memory_aware": True}),
    "limit.stale_after_s": Case(ADAPTS, 10.0, 0.05, _AIMD),
    "limit.shadow": Case(ADAPTS, False, True, _AIMD),
    "step.prefill_share": Case(SHAPED, "off", 0.4, {"batching.seats": 8}),
    "ordering.between": Case(MIXED, "strict", "weighted", {"classes.batch.share": 0.6}),
    "ordering.inside": Case(Scene(_TENANTS), "fifo", "fair", {}),
    "ordering.ageing_step_s": Case(
        Scene((*_each(0, 3, class_name="batch"), *_each(1, 10, class_name="urgent"))),
        0.5,
        100.0,
        {"ordering.between": "ageing"},
    ),
    "ordering.prefix_quantum_tokens": Case(Scene(_PREFIXES), 0, 100_000, {"ordering.inside": "prefix"}),
    "ordering.prefix_max_overtakes": Case(Scene(_PREFIXES), 0, 100, {"ordering.inside": "prefix"}),
    "classes.*.priority": Case(MIXED, 1, 9, {}),
    "classes.*.max_waiting": Case(MIXED, 100, 1, {}),
    "classes.*.max_waiting_tokens": Case(MIXED, None, 20, {}),
    "classes.*.max_waiting_bytes": Case(MIXED, None, 120, {}),
    "classes.*.queue_timeout_s": Case(MIXED, None, 5.0, {}),
    "classes.*.first_token_timeout_s": Case(SLOW_TOKENS, None, 5.0, {}),
    "classes.*.stall_timeout_s": Case(SLOW_TOKENS, None, 5.0, {}),
    "classes.*.total_timeout_s": Case(MIXED, None, 10.0, {}),
    "classes.*.ttft_slo_s": Case(OVERLOAD, None, 4.0, {}),
    "classes.*.burst_s": Case(OVERLOAD, None, 60.0, {"classes.normal.ttft_slo_s": 4.0}),
    "classes.*.inter_token_slo_ms": Case(ADAPTS, 1000.0, 100.0, {**_AIMD, "limit.inter_token_slo_ms": None}),
    "classes.*.share": Case(MIXED, 0.1, 0.8, {"ordering.between": "weighted", "classes.urgent.share": 0.1}),
    "classes.*.reserved_seats": Case(Scene(_each(0, 6, class_name="batch")), None, 1, {"batching.seats": 3}),
    "classes.*.service_tiers": Case(Scene(_UNNAMED), [], ["flex"], {}),
    "classes.*.fallback_max_tokens": Case(LADDER, 2, 1, _CAP),
    "classes.*.may_bypass": Case(LADDER, False, True, _BESIDE),
    "classes.*.sheddable": Case(LADDER, False, True, _CAP),
    "classes.*.may_divert": Case(DOWN, False, True, _DIVERT),
    "warmup.prompt_tokens": Case(WARM, [64], [7], _SHORT_WARM_UP),
    "warmup.output_tokens": Case(WARM, 8, 3, _SHORT_WARM_UP),
    "warmup.logprobs": Case(WARM, False, True, _SHORT_WARM_UP),
    "warmup.json_schema": Case(WARM, False, True, _SHORT_WARM_UP),
    "warmup.tolerance_ratio": Case(WARM, 0.01, 0.9, _SHORT_WARM_UP),
    "warmup.max_rounds": Case(WARM, 6, 1, {**_SHORT_WARM_UP, "warmup.tolerance_ratio": 0.01}),
    "warmup.timeout_s": Case(WARM, 300.0, 0.1, _SHORT_WARM_UP),
    "warmup.keep_warm_after_s": Case(Scene(_each(0, 1), rest_s=60), None, 10.0, {}),
    "warmup.ramp_s": Case(WARM, 0.0, 40.0, {"batching.seats": 4}),
    "recovery.max_restarts": Case(DOWN, 3, 0, {}),
    "recovery.backoff_s": Case(DOWN_TWICE, 1.0, 20.0, {}),
    "recovery.healthy_after_s": Case(DOWN_LATER, 120.0, 20.0, {"recovery.max_restarts": 1}),
    "recovery.probation_s": Case(SUSPECTS, 1.0, 50.0, {"batching.seats": 4}),
    "recovery.hang_after_s": Case(HANG, 1000.0, 2.0, {"batching.seats": 2}),
    "recovery.slow_step_after_s": Case(SLOW, 1000.0, 4.0, {"batching.seats": 2, "recovery.hang_after_s": 2.0}),
    "recovery.restart_hung": Case(HANG, False, True, {"recovery.hang_after_s": 2.0}),
    "fallback.queue_age_s": Case(LADDER, None, 5.0, _CAP),
    "fallback.kv_usage_ratio": Case(KV, None, 0.5, _CAP_BY_KV),
    "fallback.error_ratio": Case(ERRORS, None, 0.3, _PAUSE),
    "fallback.error_window_s": Case(ERRORS, 10.0, 60.0, _PAUSE),
    "fallback.error_min_requests": Case(ERRORS, 3, 1000, _PAUSE),
    "fallback.engine_down": Case(DOWN, False, True, _DIVERT),
    "fallback.pause_on_errors": Case(ERRORS, False, True, _PAUSE),
    "fallback.bypass_seats": Case(LADDER, 0, 1, _BESIDE),
    "fallback.enter_s": Case(LADDER, 1.0, 100.0, _CAP),
    "fallback.leave_s": Case(LADDER, 1.0, 100.0, _CAP),
    "fallback.leave_ratio": Case(KV, 0.7, 0.95, _CAP_BY_KV),
    "memory.check_interval_s": Case(GROWTH, 5.0, 300.0, {}),
    "memory.kv_usage_ratio": Case(SHORT_KV, 1.0, 0.5, _LOW),
    "memory.gpu_usage_ratio": Case(SHORT_GPU, 1.0, 0.9, {**_LOW, "memory.kv_usage_ratio": 1.0}),
    "memory.leave_ratio": Case(SHORT_KV, 0.9, 0.1, _LOW),
    "memory.lower_after_s": Case(SHORT_KV, 0.0, 20.0, _LOW),
    "memory.raise_after_s": Case(SHORT_KV, 5.0, 200.0, _LOW),
    "memory.decrease_ratio": Case(SHORT_KV, 0.8, 0.3, {**_LOW, "memory.min_ratio": 0.1, "memory.lower_after_s": 8.0}),
    "memory.min_ratio": Case(SHORT_KV, 0.5, 0.9, _LOW),
    "memory.caches": Case(JOBS, ["worker"], ["prefix"], _CLEAR),
    "memory.clear_every_s": Case(JOBS, 1.0, 300.0, _CLEAR),
    "memory.large_job_tokens": Case(JOBS, 32_768, 10, {**_CLEAR, "memory.clear_every_requests": None}),
    "memory.clear_every_requests": Case(JOBS, None, 2, _CLEAR),
    "memory.clear_max_running": Case(JOBS, 0, 5, _CLEAR),
    "memory.server_growth_bytes": Case(GROWTH, 2**40, 2**21, _MARGIN),
    "memory.recycle_every_s": Case(OLD, None, 60.0, {**_MARGIN, "batching.seats": 3}),
    "memory.recycle_growth_bytes": Case(GROWN, None, 2**30, _MARGIN),
    "memory.recycle_drain_s": Case(OLD, 300.0, 1.0, {**_MARGIN, "batching.seats": 3, "memory.recycle_every_s": 60.0}),
}
#: The class whose setting is tried, where that is not ``normal``.
OF_CLASS = {
    "classes.*.priority": "batch",
    "classes.*.share": "batch",
    "classes.*.reserved_seats": "urgent",
    "classes.*.service_tiers": "batch",
}


def presets(key: str) -> tuple[Preset, Preset]:
    """Before and after."""
    case, name = CASES[key], key.replace("*", OF_CLASS.get(key, "normal"))
    return preset(case.given, {name: case.before}), preset(case.given, {name: case.after})
