"""What does the status say? Everything operators ask for, in one answer whose keys do not change."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headway.release import version
from headway.supervision import engine_recycle
from headway_policies import Desk

if TYPE_CHECKING:
    from headway.operator.control import Control


def status_of(control: Control) -> dict[str, Any]:
    """The whole of one server."""
    desk, now_s = control.gateway.gate.desk, control.gateway.gate.now_s()
    reasons = control.not_ready()
    return {
        "version": version(),
        "model": control.model,
        "ready": not reasons,
        "reasons": reasons,
        "state": desk.state.value,
        "started_at": _iso(control.started_s),
        "uptime_s": round(control.wall_s() - control.started_s, 1),
        "preset": {"name": control.preset.name, "revision": control.revision},
        "limit": {
            "live": desk.limit,
            "proposed": desk.proposed_limit(now_s),
            "ceiling": control.ceiling,
            "reason": desk.limit_reason,
        },
        "ordering": {**desk.preset.ordering.model_dump(include={"between", "inside"}), "error": desk.order_failed},
        "window_s": round(desk.window_s(now_s), 6),
        "seats_taken": control.seats_taken,
        "queued": desk.ledger.queued,
        "queued_tokens": desk.waiting_tokens(),
        "queued_bytes": desk.waiting_bytes(),
        "in_flight": desk.ledger.in_flight,
        "classes": _classes(desk, now_s),
        "prediction": {
            of: {"samples": one.samples, "error_ratio": round(one.error_ratio, 4)}
            for of, one in desk.accuracy().items()
        },
        "fallback": {
            "rung": control.fallback_controller.ladder.rung.word,
            "trigger": control.fallback_controller.ladder.why,
        },
        "warmup": control.warmup.show(),
        "memory": {**control.memory_report.show(), "recycling": engine_recycle.TASK in control.tasks},
        "engine": _engine(control, desk),
    }


def _classes(desk: Desk, now_s: float) -> list[dict[str, Any]]:
    oldest_s, terms = desk.oldest_wait_s(now_s), desk.preset.classes
    return [
        {
            "name": name,
            "priority": terms[name].priority if name in terms else None,
            "queued": counts.queued,
            "oldest_wait_s": round(oldest_s[name], 3),
            "in_flight": counts.in_flight,
            "arrived": counts.arrived,
            "outcomes": {str(outcome): number for outcome, number in counts.outcomes.items()},
        }
        for name, counts in desk.ledger.classes.items()
    ]


def _engine(control: Control, desk: Desk) -> dict[str, Any]:
    load = control.load
    return {
        "backend": control.backend,
        "healthy": desk.engine_up,
        **({} if control.supervisor is None else control.supervisor.status()),
        "core_limit": control.gateway.core_limit,
        "running": load.running,
        "waiting": load.waiting,
        "kv_cache_usage_ratio": round(load.kv_usage_ratio, 4),
    }


def _iso(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
