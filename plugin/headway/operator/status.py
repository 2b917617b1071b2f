"""Rendering of a snapshot as JSON: the status, whose keys do not change."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from headway.operator.snapshot import (
    ClassReading,
    EngineReading,
    LimitReading,
    MemoryReading,
    PrefixReading,
    PresetReading,
    Snapshot,
)
from headway.release import version, vllm_version
from headway.supervision import WarmupReport
from headway_policies.diagnosis import Diagnosis
from headway_policies.limits import ObjectivesNow


def status_of(shot: Snapshot) -> dict[str, Any]:
    """The whole of one server."""
    limit, queue, fallback = shot.limit, shot.queue, shot.fallback
    return {
        "version": version(),
        "model": shot.identity.model,
        "diagnosis": _diagnosis(shot.diagnosis),
        "ready": not shot.not_ready,
        "reasons": list(shot.not_ready),
        "state": shot.admission.value,
        "started_at": _iso(shot.started_s),
        "uptime_s": round(shot.wall_s - shot.started_s, 1),
        "preset": _preset(shot.preset),
        "limit": _limit(limit),
        "ordering": {
            "between": queue.between,
            "inside": queue.inside,
            "error": queue.order_failed,
            "prefix": None if queue.prefix is None else _prefix(queue.prefix),
        },
        "scale_ratio": round(limit.scale_ratio, 4),
        "desired_instances": round(limit.desired_instances, 4),
        "window_s": round(queue.window_s, 6),
        "window_error": queue.window_failed,
        "seats_taken": shot.seats_taken,
        "queued": queue.tickets,
        "queued_tokens": queue.tokens,
        "queued_bytes": queue.size_bytes,
        "in_flight": shot.in_flight,
        "classes": [_class(name, one, shot.preset.name) for name, one in shot.classes.items()],
        "prediction": {
            of: {"samples": one.samples, "error_ratio": round(one.error_ratio, 4)} for of, one in shot.accuracy.items()
        },
        "forecast": {
            "comparisons": shot.forecast.comparisons,
            "error_ratio": {name: round(ratio, 4) for name, ratio in shot.forecast.error_ratios.items()},
        },
        "fallback": {"rung": fallback.rung.word, "trigger": fallback.trigger},
        "warmup": _warmup(shot.warmup),
        "memory": _memory(shot.memory),
        "engine": _engine(shot.identity.backend, shot.engine),
        "instances": [asdict(instance) for instance in shot.instances],
    }


def _diagnosis(found: Diagnosis) -> dict[str, Any]:
    return {
        "severity": found.severity.word,
        "bottleneck": found.bottleneck.value,
        "statement": found.statement,
        "symptoms": list(found.symptoms),
        "evidence": [
            {"figure": one.figure, "value": round(one.value, 6), "bound": one.bound} for one in found.evidence
        ],
        "remedies": [asdict(one) for one in found.remedies],
    }


def _preset(reading: PresetReading) -> dict[str, Any]:
    trial, left_s = None, reading.trial_left_s
    if reading.back_to is not None and left_s is not None:
        trial = {"back_to": reading.back_to, "left_s": round(left_s, 1)}
    return {"name": reading.name, "revision": reading.revision, "trial": trial}


def _prefix(reading: PrefixReading) -> dict[str, Any]:
    return {
        "expected_ratio": None if reading.expected_ratio is None else round(reading.expected_ratio, 4),
        "hit_ratio": None if reading.hit_ratio is None else round(reading.hit_ratio, 4),
        "room_ratio": round(reading.room_ratio, 4),
    }


def _limit(limit: LimitReading) -> dict[str, Any]:
    ordered, left_s = limit.ordered, limit.ordered_left_s
    return {
        "live": limit.live,
        "proposed": limit.proposed,
        "ceiling": limit.ceiling,
        "reason": limit.why,
        "kv_seats": limit.bounds.kv_seats,
        "kv_seats_tokens": round(limit.bounds.sequence_tokens, 1),
        "kv_seats_recorded": limit.bounds.recorded,
        "knee_seats": limit.bounds.knee_seats,
        "ordered": None
        if ordered is None
        else {
            "seats": ordered.seats,
            "window_ms": ordered.window_ms,
            "left_s": None if left_s is None else round(left_s, 3),
            "actor": ordered.actor,
            "reason": ordered.reason,
        },
    }


def _class(name: str, reading: ClassReading, preset: str) -> dict[str, Any]:
    counts = reading.counts
    return {
        "name": name,
        "priority": reading.priority,
        "queued": counts.queued,
        "oldest_wait_s": round(reading.oldest_wait_s, 3),
        "overloaded": reading.overloaded,
        "held_seats": reading.held_seats,
        "in_flight": counts.in_flight,
        "arrived": counts.arrived,
        "outcomes": {str(outcome): number for outcome, number in counts.outcomes.items()},
        "objectives": None if reading.objectives is None else objectives_answer(name, reading.objectives, preset),
    }


def objectives_answer(name: str, now: ObjectivesNow, preset: str) -> dict[str, Any]:
    """The objectives of a class of this preset, as in ``ClassObjectives`` of the contract."""
    found = now.found
    return {
        "ttft_s": _rounded(found.ttft_s),
        "inter_token_s": None if found.inter_token_s is None else round(found.inter_token_s, 6),
        "prompt_tokens": round(now.prompt_tokens, 1),
        "ttft_stated": now.ttft,
        "inter_token_stated": now.inter_token,
        "follows_engine": found.relative,
        "kept_alone": found.kept_alone,
        "words": now.words,
        "missed_alone": now.missed_alone(preset, name),
    }


def _warmup(report: WarmupReport) -> dict[str, Any]:
    return {
        "state": report.state,
        "reason": report.reason,
        "attempt": report.attempt,
        "single_s": _rounded(report.single_s),
        "batch_s": _rounded(report.batch_s),
        "batch_size": report.batch_size,
        "stages": {stage: [_rounded(took_s) for took_s in rounds_s] for stage, rounds_s in report.stages.items()},
        "refused": list(report.refused),
        "settled": report.settled,
    }


def _memory(memory: MemoryReading) -> dict[str, Any]:
    return {
        "cap_ratio": memory.cap_ratio,
        "cleared": {cache.value: number for cache, number in memory.cleared.items()},
        "recycled": dict(memory.recycled),
        "longest_gc_pause_s": round(max(one.largest for one in memory.gc_pauses), 6),
        "recycling": memory.recycling,
        "recycle_form": memory.recycle_form,
    }


def _engine(backend: str, engine: EngineReading) -> dict[str, Any]:
    load = engine.load
    return {
        "backend": backend,
        "version": vllm_version(),
        "healthy": engine.up,
        **_supervision(engine),
        "core_limit": engine.core_limit,
        "running": load.running,
        "waiting": load.waiting,
        "kv_cache_usage_ratio": round(load.kv_usage_ratio, 4),
        "kv_cache_tokens": load.kv_capacity_tokens,
        "step_time": _step_time(engine),
        "unloaded": _unloaded(engine),
        "dtype": engine.settings.dtype,
        "quantization": engine.settings.quantization,
        "kv_cache_dtype": engine.settings.kv_cache_dtype,
        "max_model_len": engine.settings.max_model_len,
        "step_tokens": engine.settings.step_tokens,
    }


def _step_time(engine: EngineReading) -> dict[str, float] | None:
    if engine.error_ratio is None:
        return None
    costs = engine.costs
    return {
        "base_s": round(costs.base_s, 6),
        "sequence_s": round(costs.sequence_s, 6),
        "prompt_token_s": round(costs.prefill_token_s, 6),
        "error_ratio": round(engine.error_ratio, 4),
    }


def _unloaded(engine: EngineReading) -> dict[str, Any] | None:
    if (alone := engine.unloaded) is None:
        return None
    times = {"token_s": round(alone.token_s, 6), "prefill_token_s": round(alone.prefill_token_s, 9)}
    return {**times, "source": engine.unloaded_from}


def _supervision(engine: EngineReading) -> dict[str, Any]:
    """The supervisor's part; absent where none runs."""
    if (supervisor := engine.supervisor) is None:
        return {}
    return {
        "state": engine.state.value,
        "restart_step": supervisor.trying,
        "restart_attempts": supervisor.tries,
        "max_restart_attempts": supervisor.most_tries,
        "deaths": {cause.value: number for cause, number in supervisor.deaths.items()},
        "hangs": supervisor.hangs,
        "crash_suspects": supervisor.suspects,
    }


def _rounded(took_s: float | None) -> float | None:
    return None if took_s is None else round(took_s, 4)


def _iso(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
