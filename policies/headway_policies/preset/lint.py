"""Warnings about settings of a valid preset that probably do not do what their author expects.

Each warning is one line: the key, what happens, what to do instead. Bounds of the window and of the seats: the usual
recommendations on batching (10 ms where latency counts, up to 200 online; beyond 64 the gain shrinks while memory and
the time between tokens grow). An objective that is relative to the engine is judged by its lower bound: what is so on
every engine. Multi-bin under continuous: it loses (arXiv 2412.04504 is about batches that end together).
"""

from __future__ import annotations

from collections.abc import Iterator

from headway_policies.batching import Batching
from headway_policies.fallback import RUNG_TRIGGERS, Rung, Trigger
from headway_policies.limits import LimitSettings
from headway_policies.memory import Cache
from headway_policies.preset.inert import BY_PREFIX, MOVING_LIMIT, USED_BY
from headway_policies.preset.model import Preset
from headway_policies.preset.rungs_used import usable_rungs
from headway_policies.preset.seat_bounds import SeatBounds
from headway_policies.preset.toml_text import toml_text
from headway_policies.queueing import OrderSettings
from headway_policies.request import least_of, shortest

_MIN_MS, _MAX_MS = 10, 200
_USUAL_KNEE_SEATS = 64
#: Fixed seats that are fewer than this part of what the engine would bear are far too few. A single one is meant.
_LEAST_PART = 0.5
_UNKNOWN = SeatBounds()

#: For each rung of the fallback ladder: the key that gives it an effect.
_ALLOWED_BY: dict[Rung, str] = {
    Rung.CAP: "fallback_max_tokens",
    Rung.BYPASS: "may_bypass",
    Rung.SHED: "sheddable",
    Rung.DIVERT: "may_divert",
    Rung.PAUSE: "fallback.pause_on_errors",
}


def lint(preset: Preset, bounds: SeatBounds = _UNKNOWN) -> list[str]:
    """The warnings for this preset on an engine with these bounds; empty without any."""
    return [
        *_batching(preset.batching),
        *_seats(preset, bounds),
        *_static(preset),
        *_order(preset),
        *_limit(preset),
        *_time_outs(preset),
        *_fallback(preset),
        *_recovery(preset),
    ]


def _batching(batching: Batching) -> Iterator[str]:
    window_ms = batching.window_ms
    if batching.strategy == "dynamic" and not _MIN_MS <= window_ms <= _MAX_MS:
        effect = "many small batches" if window_ms < _MIN_MS else "a wait that users notice"
        usual = f"{_MIN_MS} to {_MAX_MS}"
        yield f"batching.window_ms: {toml_text(window_ms)} is outside the usual {usual}: expect {effect}"
    for key, strategies in USED_BY.items():
        field = Batching.model_fields[key]
        if batching.strategy not in strategies and not field.is_required() and getattr(batching, key) != field.default:
            why = "; bins cost throughput where no batch ends as a whole" if key == "bins" else ""
            yield f"batching.{key}: no effect under {batching.strategy}, only under {' and '.join(strategies)}{why}"


def _seats(preset: Preset, bounds: SeatBounds) -> Iterator[str]:
    """Seats beyond what the engine has use for, or far below; a limit that follows the engine finds that by itself."""
    seats, kv_seats, knee_seats = preset.batching.seats, bounds.kv_seats, bounds.knee_seats
    if preset.limit.policy != "fixed":
        return
    if knee_seats is None and seats > _USUAL_KNEE_SEATS:
        yield (
            f"batching.seats: beyond {_USUAL_KNEE_SEATS} each seat usually adds less throughput, but costs as much "
            "memory and time between tokens; measure it on your machine"
        )
    if not preset.limit.memory_aware and kv_seats is not None and seats > kv_seats:
        length = f"{bounds.sequence_tokens:.0f} tokens, {'the recent mean' if bounds.recorded else 'a typical length'}"
        yield f"batching.seats: the KV space has room for {kv_seats} sequences of {length}, not for {seats}"
    if knee_seats is not None and seats > knee_seats:
        yield (
            f"batching.seats: beyond {knee_seats} seats 10 % more tokens a second cost this engine more than "
            "20 % more time between tokens"
        )
    best = bounds.best_seats
    if best is not None and 1 < seats < _LEAST_PART * best:
        yield (
            f"limit.policy: fixed at {seats} seats: this engine keeps the objective with about {best}; "
            'policy = "model" follows it'
        )


def _static(preset: Preset) -> Iterator[str]:
    flush_s = preset.batching.flush_after_s
    if preset.batching.strategy == "static":
        if flush_s is None:
            yield "batching.flush_after_s: not set: the last requests, too few for a batch, wait until they time out"
        for name, terms in preset.classes.items():
            if flush_s is not None and terms.queue_timeout_s is not None and terms.queue_timeout_s <= flush_s:
                key, flushed = f"classes.{name}.queue_timeout_s", f"dispatched ({toml_text(flush_s)} s)"
                yield f"{key}: ends before a batch that does not fill is {flushed}"
    if preset.batching.strategy != "continuous":
        for name, terms in preset.classes.items():
            if terms.reserved_seats:
                yield f"classes.{name}.reserved_seats: stay empty in each batch for which too few {name} requests wait"


def _order(preset: Preset) -> Iterator[str]:
    between, ranked = preset.ordering.between, preset.by_urgency()
    if between == "strict" and len(ranked) > 1:
        yield "ordering.between: strict: a constant stream of urgent requests starves the classes below it"
    if between in ("strict", "ageing") and any(terms.share is not None for terms in preset.classes.values()):
        yield f"classes: share has no effect under {between}, only under weighted"
    if between != "ageing" and preset.ordering.ageing_step_s != OrderSettings.model_fields["ageing_step_s"].default:
        yield f"ordering.ageing_step_s: no effect under {between}, only under ageing"
    yield from _prefix(preset)
    if preset.classes[ranked[-1]].reserved_seats:
        yield f"classes.{ranked[-1]}.reserved_seats: no effect: no class is less urgent"


def _prefix(preset: Preset) -> Iterator[str]:
    ordering = preset.ordering
    if ordering.by_prefix:
        if Cache.PREFIX in preset.memory.caches:
            yield 'memory.caches: "prefix" empties the cache on which ordering.inside = "prefix" relies'
        return
    for key in BY_PREFIX:
        if getattr(ordering, key) != OrderSettings.model_fields[key].default:
            yield f"ordering.{key}: no effect under {ordering.inside}, only under prefix"


def _limit(preset: Preset) -> Iterator[str]:
    if not preset.limit.moves:
        yield from _fixed_limit(preset)
    if preset.limit.policy == "knee":
        yield from _knee_limit(preset)
    if preset.limit.policy in ("fixed", "knee"):
        return
    slo_ms = least_of(preset.limit.inter_token_slo_ms)
    for name, terms in preset.classes.items():
        if slo_ms is not None and terms.stall_timeout_s is not None and terms.stall_timeout_s * 1000 <= slo_ms:
            slo = f"limit.inter_token_slo_ms ({toml_text(slo_ms)})"
            yield f"classes.{name}.stall_timeout_s: ends answers that still meet {slo}"


def _fixed_limit(preset: Preset) -> Iterator[str]:
    """Settings of a limit that never moves. An objective that follows the classes is none that its author stated."""
    for key in MOVING_LIMIT:
        if getattr(preset.limit, key) != LimitSettings.model_fields[key].default:
            yield f"limit.{key}: no effect under fixed, only under another policy or with memory_aware"
    yield from _stated_objective(preset)


def _knee_limit(preset: Preset) -> Iterator[str]:
    if preset.limit.set_point_ratio != LimitSettings.model_fields["set_point_ratio"].default:
        yield "limit.set_point_ratio: no effect under knee, which keeps no time between tokens"
    yield from _stated_objective(preset)


def _stated_objective(preset: Preset) -> Iterator[str]:
    """An objective of a limit that keeps none, where it is not that of the classes."""
    policy, of_limit_ms = preset.limit.policy, preset.limit.inter_token_slo_ms
    of_classes_ms = shortest([terms.inter_token_slo_ms for terms in preset.classes.values()])
    if of_limit_ms != (of_classes_ms or LimitSettings().inter_token_slo_ms):
        yield f'limit.inter_token_slo_ms: no limit keeps it under {policy}; set limit.policy, for example "model"'


def _time_outs(preset: Preset) -> Iterator[str]:
    for name, terms in preset.classes.items():
        first_s, total_s = terms.first_token_timeout_s, terms.total_timeout_s
        for key, own_s in (("queue_timeout_s", terms.queue_timeout_s), ("first_token_timeout_s", first_s)):
            if own_s is not None and total_s is not None and own_s > total_s:
                yield f"classes.{name}.{key}: no effect: total_timeout_s is shorter"
        for key, due_s in (("first_token_timeout_s", first_s), ("total_timeout_s", total_s)):
            slo_s = least_of(terms.ttft_slo_s)
            if slo_s is not None and due_s is not None and slo_s > due_s:
                yield f"classes.{name}.ttft_slo_s: longer than {key}, which ends the request before"
        if terms.burst_s is not None and terms.ttft_slo_s is None:
            yield f"classes.{name}.burst_s: no effect without ttft_slo_s"
        if terms.queue_timeout_s is not None and first_s is not None and terms.queue_timeout_s > first_s:
            yield f"classes.{name}.queue_timeout_s: no effect: first_token_timeout_s is shorter"


def _fallback(preset: Preset) -> Iterator[str]:
    config, usable = preset.fallback, usable_rungs(preset, fallback_model=True)
    if config.bypass_seats and Rung.BYPASS not in usable:
        continuous = preset.batching.strategy == "continuous"
        why = "under continuous no request waits for a batch" if continuous else "no class has may_bypass"
        yield f"fallback.bypass_seats: no effect: {why}"
    if config.pause_on_errors and config.error_ratio is None:
        yield "fallback.pause_on_errors: no effect: fallback.error_ratio is not set"
    thresholds = {
        Trigger.QUEUE_AGE: ("queue_age_s", config.queue_age_s),
        Trigger.KV_PRESSURE: ("kv_usage_ratio", config.kv_usage_ratio),
        Trigger.ERRORS: ("error_ratio", config.error_ratio),
        Trigger.ENGINE_DOWN: ("engine_down", config.engine_down or None),
    }
    for trigger, (key, threshold) in thresholds.items():
        if threshold is not None and not any(trigger in RUNG_TRIGGERS[rung] for rung in usable):
            allowing = ", ".join(_ALLOWED_BY[rung] for rung, triggers in RUNG_TRIGGERS.items() if trigger in triggers)
            yield f"fallback.{key}: no effect: no rung is allowed for it; set one of {allowing}"


def _recovery(preset: Preset) -> Iterator[str]:
    recovery, memory = preset.recovery, preset.memory
    if recovery.restart_hung and not recovery.max_restarts:
        yield "recovery.restart_hung: no effect: recovery.max_restarts is 0"
    if memory.recycle_every_s is None and memory.recycle_growth_bytes is None:
        return
    for name, terms in preset.classes.items():
        if terms.total_timeout_s is None or terms.total_timeout_s > memory.recycle_drain_s:
            yield f"memory.recycle_drain_s: shorter than an answer of {name} may take: a recycle may be abandoned"
