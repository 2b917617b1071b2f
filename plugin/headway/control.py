"""The control room: what operators may ask and change while the server runs.

A switch is one synchronous step in the desk, then one call into the engine; everything that could refuse it is asked
before the first of them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from headway.audit import Audit, Who
from headway.catalogue import Catalogue
from headway.engine import Ended
from headway.errors import HeadwayError, StaleRevisionError
from headway.guard import Guard
from headway_policies import Change, ClassLedger, Load, Preset, State, changes
from headway_policies.prediction import Accuracy


def version() -> str:
    """The installed version of Headway."""
    try:
        return metadata.version("vllm-headway")
    except metadata.PackageNotFoundError:
        return "0+unknown"


@dataclass(slots=True)
class WarmupReport:
    """How the warm-up went: pending, running, done, skipped or failed; seconds for each stage."""

    state: str = "pending"
    single_s: float | None = None
    batch_s: float | None = None
    batch_size: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Switched:
    """What a switch did."""

    previous: str
    preset: Preset
    revision: int
    changes: list[Change]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything the metrics show, taken in one instant."""

    classes: dict[str, ClassLedger]
    oldest_wait_s: dict[str, float]
    seats_taken: int
    limit: int
    proposed_limit: int
    ceiling: int
    queue_tokens: int
    queue_bytes: int
    window_s: float
    accuracy: dict[str, Accuracy]
    preset: str
    revision: int
    preset_changes: dict[str, int]
    last_change_s: float
    ready: bool
    load: Load
    warmup: WarmupReport


@dataclass(slots=True)
class Control:
    """One server's control room. Call it on the event loop's thread only."""

    guard: Guard
    catalogue: Catalogue
    model: str = ""
    backend: str = ""
    audit: Audit = field(default_factory=Audit)
    warmup: WarmupReport = field(default_factory=WarmupReport)
    load: Load = field(default_factory=lambda: Load(0, 0, 0.0))
    batch_meter: Callable[[int], None] | None = None
    wall_s: Callable[[], float] = time.time
    started_s: float = 0.0
    last_change_s: float = 0.0
    preset_changes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.started_s = self.last_change_s = self.wall_s()
        self.guard.gate.desk.ledger.admit_classes(self.catalogue.class_names())

    @property
    def preset(self) -> Preset:
        """The preset in force."""
        return self.guard.gate.desk.preset

    @property
    def revision(self) -> int:
        """The number of the preset in force; every switch raises it by one."""
        return self.guard.gate.desk.revision

    def step(self, load: Load | None, sequences: int, ended: Sequence[Ended]) -> None:
        """The engine made a step: free the seats of the sequences that ended, and keep its figures."""
        self.guard.engine_stepped(ended)
        if sequences and self.batch_meter is not None:
            self.batch_meter(sequences)
        if load is not None:
            self.load = load
            if self.warmup.state != "running":  # its steps are slow for reasons that do not come back
                self.guard.gate.observe(load)

    async def switch(self, name: str, *, expected_revision: int | None, who: Who, reason: str = "") -> Switched:
        """Put a preset in force. Raises UnknownPresetError or StaleRevisionError; then nothing has changed."""
        before = self.preset
        try:
            if expected_revision is not None and expected_revision != self.revision:
                raise StaleRevisionError(self.revision)
            after = self.catalogue.get(name)
        except HeadwayError as error:
            self._note(who, before.name, name[:60], reason, f"refused: {error}")
            raise
        revision = self.guard.gate.switch(after)
        self.last_change_s = self.wall_s()
        self.preset_changes[after.name] += 1
        self._note(who, before.name, after.name, reason, "applied")
        await self.guard.limit_engine()
        return Switched(before.name, after, revision, changes(before, after))

    def refused(self, who: Who, action: str, why: str) -> None:
        """Write down an attempt that got no further than the door."""
        name = self.preset.name
        self.audit.record(
            who, action, before=name, after=name, revision=self.revision, reason="", result=f"refused: {why}"
        )

    def not_ready(self) -> list[str]:
        """Why the server should get no traffic; empty when it is ready."""
        self.guard.check_engine()
        desk = self.guard.gate.desk
        reasons = []
        if not desk.engine_up:
            reasons.append("the engine is not running")
        if self.warmup.state not in ("done", "skipped"):
            detail = f": {self.warmup.reason}" if self.warmup.reason else ""
            reasons.append(f"warm-up {self.warmup.state}{detail}")
        if desk.state is State.DRAINING:
            reasons.append("draining")
        return reasons

    def status(self) -> dict[str, Any]:
        """The whole in one answer, for the CLI and the dashboard."""
        desk = self.guard.gate.desk
        now_s = self.guard.gate.now_s()
        reasons = self.not_ready()
        oldest_s = desk.oldest_wait_s(now_s)
        terms = self.preset.classes
        return {
            "version": version(),
            "model": self.model,
            "ready": not reasons,
            "reasons": reasons,
            "state": desk.state.value,
            "started_at": _iso(self.started_s),
            "uptime_s": round(self.wall_s() - self.started_s, 1),
            "preset": {"name": self.preset.name, "revision": self.revision},
            "limit": {
                "live": desk.limit,
                "proposed": desk.proposed_limit(now_s),
                "ceiling": self.ceiling,
                "why": desk.limit_reason,
            },
            "window_s": round(desk.window_s(now_s), 6),
            "seats_taken": desk.seats_taken,
            "queued": desk.ledger.queued,
            "queued_tokens": desk.waiting_tokens(),
            "queued_bytes": desk.waiting_bytes(),
            "in_flight": desk.ledger.in_flight,
            "classes": [
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
            ],
            "prediction": {
                of: {"samples": one.samples, "error_ratio": round(one.error_ratio, 4)}
                for of, one in desk.accuracy().items()
            },
            "warmup": {
                "state": self.warmup.state,
                "single_s": self.warmup.single_s,
                "batch_s": self.warmup.batch_s,
                "batch_size": self.warmup.batch_size,
            },
            "engine": {
                "backend": self.backend,
                "healthy": desk.engine_up,
                "core_limit": self.guard.core_limit,
                "running": self.load.running,
                "waiting": self.load.waiting,
                "kv_cache_usage_ratio": round(self.load.kv_usage_ratio, 4),
            },
        }

    @property
    def ceiling(self) -> int:
        """The most seats any preset can get here."""
        desk = self.guard.gate.desk
        return self.catalogue.most_seats() if desk.ceiling is None else desk.ceiling

    def snapshot(self) -> Snapshot:
        """What the metrics show."""
        desk, now_s = self.guard.gate.desk, self.guard.gate.now_s()
        return Snapshot(
            classes={name: counts.copy() for name, counts in desk.ledger.classes.items()},
            oldest_wait_s=desk.oldest_wait_s(now_s),
            seats_taken=desk.seats_taken,
            limit=desk.limit,
            proposed_limit=desk.proposed_limit(now_s),
            ceiling=self.ceiling,
            queue_tokens=desk.waiting_tokens(),
            queue_bytes=desk.waiting_bytes(),
            window_s=desk.window_s(now_s),
            accuracy=desk.accuracy(),
            preset=self.preset.name,
            revision=self.revision,
            preset_changes={one.preset.name: self.preset_changes[one.preset.name] for one in self.catalogue},
            last_change_s=self.last_change_s,
            ready=not self.not_ready(),
            load=self.load,
            warmup=self.warmup,
        )

    def _note(self, who: Who, before: str, after: str, reason: str, result: str) -> None:
        self.audit.record(
            who, "switch_preset", before=before, after=after, revision=self.revision, reason=reason, result=result
        )


def _iso(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
