"""The control room: what operators may ask and change while the server runs.

A switch is one synchronous step in the desk, then one call into the engine; everything that could refuse it is asked
before the first of them.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headway.admission import Gateway
from headway.audit import Audit, Who
from headway.background_tasks import BackgroundTasks
from headway.engine import Ended
from headway.errors import HeadwayError, StaleRevisionError, UnusablePresetError
from headway.fallback import FallbackController
from headway.operator.presets import PresetCatalogue
from headway.operator.status import status_of
from headway.supervision import MemoryReport, Supervisor, WarmupReport, engine_recycle
from headway_policies import (
    AdmissionState,
    Cause,
    Change,
    ClassLedger,
    EngineState,
    Hold,
    Load,
    Preset,
    Reason,
    changes,
)
from headway_policies.fallback import Degradation, Rung, Trigger
from headway_policies.import_path import FAILURES, cause
from headway_policies.prediction import Accuracy

_STANDINGS = {
    EngineState.SILENT: "the engine gives no sign of life",
    EngineState.RESTARTING: "the engine is being replaced",
    EngineState.LOST: "the engine is not running",
}

_ENGINE_HOLDS = {
    Hold.ENGINE_PAUSED: "the engine is paused",
    Hold.ENGINE_ASLEEP: "the engine is asleep",
}


@dataclass(frozen=True, slots=True)
class Switched:
    """What a switch did; ``revision`` is the one before, and ``changes`` is empty, where it changed nothing."""

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
    failed: dict[str, bool]
    accuracy: dict[str, Accuracy]
    preset: str
    revision: int
    preset_changes: dict[str, int]
    last_change_s: float
    ready: bool
    load: Load
    warmup_s: dict[str, float]
    standing: EngineState
    deaths: dict[Cause, int]
    hangs: int
    rung: Rung
    rung_steps: dict[tuple[Rung, Trigger], int]
    degraded: dict[tuple[str, Degradation], int]


@dataclass(slots=True)
class Control:
    """One server's control room. Call it on the event loop's thread only."""

    gateway: Gateway
    catalogue: PresetCatalogue
    model: str = ""
    backend: str = ""
    audit: Audit = field(default_factory=Audit)
    warmup: WarmupReport = field(default_factory=WarmupReport)
    keeping_warm: bool = False
    tasks: BackgroundTasks = field(default_factory=BackgroundTasks)
    supervisor: Supervisor | None = None
    replacer: Callable[[], Awaitable[None]] | None = None
    memory_report: MemoryReport = field(default_factory=MemoryReport)
    stepped_s: float = 0.0
    load: Load = field(default_factory=lambda: Load(0, 0, 0.0))
    batch_meter: Callable[[int], None] | None = None
    gpu_busy_ratio: float | None = None
    wall_s: Callable[[], float] = time.time
    started_s: float = 0.0
    last_change_s: float = 0.0
    preset_changes: Counter[str] = field(default_factory=Counter)
    fallback_controller: FallbackController = field(init=False)

    def __post_init__(self) -> None:
        gate = self.gateway.gate
        self.fallback_controller = FallbackController(gate, lambda: self.load, apply=gate.fall_back)
        gate.lost = self.fallback_controller.lost
        self.started_s = self.last_change_s = self.wall_s()
        self.gateway.gate.desk.ledger.admit_classes(self.catalogue.class_names())

    @property
    def preset(self) -> Preset:
        """The preset in force."""
        return self.gateway.gate.desk.preset

    @property
    def revision(self) -> int:
        """The number of the preset in force; every switch raises it by one."""
        return self.gateway.gate.desk.revision

    def step(self, load: Load | None, sequences: int, ended: Sequence[Ended]) -> None:
        """The engine made a step: free the seats of the sequences that ended, and keep its figures."""
        self.gateway.engine_stepped(ended, None if load is None else load.running + load.waiting)
        self.memory_report.ended(ended)
        self.stepped_s = self.gateway.gate.now_s()
        made_up = self.keeping_warm or self.warmup.state == "running"  # slow for reasons that do not come back
        if sequences and self.batch_meter is not None and not made_up:
            self.batch_meter(sequences)
        if load is not None:
            self.load = load
            if not made_up:
                busy = self.gpu_busy_ratio
                self.gateway.gate.observe(load if busy is None else replace(load, gpu_busy_ratio=busy))

    async def switch(self, name: str, *, expected_revision: int | None, who: Who, reason: str = "") -> Switched:
        """Put a preset in force; the one that is in force already stays as it is, under its revision and unrecorded.

        Raises UnknownPresetError, StaleRevisionError, or UnusablePresetError when a policy of somebody else's cannot be
        made; then nothing has changed.
        """
        before = self.preset
        try:
            if expected_revision is not None and expected_revision != self.revision:
                raise StaleRevisionError(self.revision)
            after = self.catalogue.get(name)
            if after.name == before.name and not changes(before, after):
                return Switched(before.name, before, self.revision, [])
            revision = self._put_in_force(after)
        except HeadwayError as error:
            self._note(who, before.name, name[:60], reason, f"refused: {error}")
            raise
        self.fallback_controller.adopt()
        self.last_change_s = self.wall_s()
        self.preset_changes[after.name] += 1
        self._note(who, before.name, after.name, reason, "applied")
        await self.gateway.limit_engine()
        return Switched(before.name, after, revision, changes(before, after))

    def order_fallback(self, word: str | None, *, who: Who, reason: str = "") -> None:
        """Put the fallback ladder on a rung; None: let it move by itself. Raises UnknownRungError.

        An order for what is ordered already is not recorded.
        """
        before, ordered = self.fallback_controller.ladder.rung.word, self.fallback_controller.ladder.ordered
        try:
            after = self.fallback_controller.order(word).word
        except HeadwayError as error:
            self._note_order(who, before, (word or "auto")[:60], reason, f"refused: {error}")
            raise
        if self.fallback_controller.ladder.ordered is not ordered:
            self._note_order(who, before, after, reason, "applied")

    def recycle(self, who: Who, reason: str = "", *, trigger: str = "command") -> None:
        """Put another engine in the place of this one, in the background, once those who run have finished.

        Raises ``engine_recycle.CannotReplaceError`` or ``engine_recycle.NotNowError``; then nothing has changed.
        """
        engine_recycle.begin(self, who, reason, trigger)

    def refused(self, who: Who, action: str, why: str) -> None:
        """Write down an attempt that got no further than the door."""
        self.audit.refuse(who, action, why, preset=self.preset.name, revision=self.revision)

    def not_ready(self) -> list[str]:
        """Why the server should get no traffic; empty when it is ready."""
        self.gateway.check_engine()
        desk = self.gateway.gate.desk
        reasons = []
        warm = self.warmup.state in ("done", "skipped")
        if desk.engine is not EngineState.UP and (warm or desk.mode.lost_why is not Reason.NOT_READY):
            trying = f": {self.supervisor.trying}" if self.supervisor is not None and self.supervisor.trying else ""
            reasons.append(_STANDINGS[desk.engine] + trying)
        if not warm:
            detail = f": {self.warmup.reason}" if self.warmup.reason else ""
            reasons.append(f"warm-up {self.warmup.state}{detail}")
        reasons += [text for hold, text in _ENGINE_HOLDS.items() if hold in desk.holds]
        if desk.state is AdmissionState.DRAINING:
            reasons.append("draining")
        return reasons

    def status(self) -> dict[str, Any]:
        """The whole in one answer, for the CLI and the dashboard."""
        return status_of(self)

    @property
    def ceiling(self) -> int:
        """The most seats any preset can get here."""
        desk = self.gateway.gate.desk
        return self.catalogue.max_seats() if desk.ceiling is None else desk.ceiling

    @property
    def seats_taken(self) -> int:
        """Sequences in the engine, the server's own among them; never fewer than it really has."""
        return self.gateway.sequences

    def snapshot(self) -> Snapshot:
        """What the metrics show."""
        desk, now_s = self.gateway.gate.desk, self.gateway.gate.now_s()
        return Snapshot(
            classes={name: counts.copy() for name, counts in desk.ledger.classes.items()},
            oldest_wait_s=desk.oldest_wait_s(now_s),
            seats_taken=self.seats_taken,
            limit=desk.limit,
            proposed_limit=desk.proposed_limit(now_s),
            ceiling=self.ceiling,
            queue_tokens=desk.waiting_tokens(),
            queue_bytes=desk.waiting_bytes(),
            window_s=desk.window_s(now_s),
            failed={"order": desk.order_failed is not None, "limit": desk.limit_reason == "failed"},
            accuracy=desk.accuracy(),
            preset=self.preset.name,
            revision=self.revision,
            preset_changes={one.preset.name: self.preset_changes[one.preset.name] for one in self.catalogue},
            last_change_s=self.last_change_s,
            ready=not self.not_ready(),
            load=self.load,
            warmup_s=self.warmup.last_s(),
            standing=desk.engine,
            deaths={} if self.supervisor is None else dict(self.supervisor.deaths),
            hangs=0 if self.supervisor is None else self.supervisor.hangs,
            rung=self.fallback_controller.ladder.rung,
            rung_steps=dict(self.fallback_controller.ladder.steps),
            degraded=dict(self.fallback_controller.degraded),
        )

    def _put_in_force(self, preset: Preset) -> int:
        try:
            return self.gateway.gate.switch(preset)
        except FAILURES as error:  # a policy of somebody else's: the desk has made all it needs before it changes
            if not preset.named_policies():
                raise
            what = f"{preset.name}: a policy it names cannot be made: {cause(error)}"
            raise UnusablePresetError(what, preset.unusable_policies()) from error

    def _note(self, who: Who, before: str, after: str, reason: str, result: str) -> None:
        self.audit.record(
            who, "switch_preset", before=before, after=after, revision=self.revision, reason=reason, result=result
        )

    def _note_order(self, who: Who, before: str, after: str, reason: str, result: str) -> None:
        self.audit.record(
            who, "order_fallback", before=before, after=after, revision=self.revision, reason=reason, result=result
        )
