"""The status of a server beyond its metrics: engine, warm-up, fallback ladder and limit, from three answers.

Pure: answers of the admin API in, one value out. A field that an answer lacks is left at its default, so that a server
of another version leaves a page poorer but whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headway.api import schema
from headway.api.schema import (
    AuditEntry,
    BatchStatus,
    Diagnosis,
    EngineStatus,
    FallbackState,
    ForecastErrors,
    LaunchStatus,
    LogWarning,
    OperatorLimit,
    OperatorStop,
    PrefixStatus,
    Setting,
    Silence,
    TrialEnds,
    WarmupStatus,
)
from headway_dashboard.analysis.server.objectives import ClassObjectives, objectives_of
from headway_policies.preset import SeatBounds

#: The ladder of a server that does not tell it.
NO_LADDER = FallbackState(rung="")


@dataclass(frozen=True, slots=True)
class Status:
    """The whole. ``known`` is False where the server did not tell: then there is at most why it is not ready.

    ``version`` is Headway's; ``uptime_s`` is None where it is not known. ``admission`` is open, paused or draining,
    ``blocks`` are the causes for which nothing is dispatched, ``stopped`` is the command that does so.
    ``strategy``, ``adaptive`` (whether the limit follows the engine) and ``objectives`` are of the preset in force;
    without its settings they are empty, and ``adaptive`` is None. ``diagnosis`` is the server's own, None from a server
    that makes none; ``forecast`` says how true its forecasts are. ``silences`` are those of alerts. ``changes`` are the
    last commands, the newest first, None where the server does not show them. ``settings`` are those in force,
    ``launch`` is how the server was started, ``warnings`` are the last ones of its log, ``batches`` those that have not
    ended. ``servers`` are the statuses, by name, of several servers that this one is made of.
    """

    known: bool = False
    version: str = ""
    model: str = ""
    uptime_s: float | None = None
    reasons: tuple[str, ...] = ()
    seats_taken: int = 0
    queued: int = 0
    preset: str = ""
    trial: TrialEnds | None = None
    limit_reason: str = ""
    operator_limit: OperatorLimit | None = None
    seat_bounds: SeatBounds = field(default_factory=SeatBounds)
    prefix: PrefixStatus | None = None
    order_error: str = ""
    window_error: str = ""
    admission: str = ""
    blocks: tuple[str, ...] = ()
    stopped: OperatorStop | None = None
    silences: tuple[Silence, ...] = ()
    recycling: bool = False
    longest_gc_pause_s: float | None = None
    engine: EngineStatus = field(default_factory=EngineStatus)
    warmup: WarmupStatus = field(default_factory=WarmupStatus)
    ladder: FallbackState = NO_LADDER
    strategy: str = ""
    adaptive: bool | None = None
    objectives: Mapping[str, ClassObjectives] = field(default_factory=dict)
    diagnosis: Diagnosis | None = None
    forecast: ForecastErrors = field(default_factory=ForecastErrors)
    changes: tuple[AuditEntry, ...] | None = None
    settings: Mapping[str, Setting] = field(default_factory=dict)
    launch: LaunchStatus = field(default_factory=LaunchStatus)
    warnings: tuple[LogWarning, ...] = ()
    batches: tuple[BatchStatus, ...] = ()
    servers: Mapping[str, Status] = field(default_factory=dict)

    @property
    def dispatching(self) -> bool:
        """Whether new requests are sent to the engine."""
        return self.admission == "open"


def status_of(
    answer: schema.Status, ladder: FallbackState = NO_LADDER, settings: Mapping[str, Setting] | None = None
) -> Status:
    """A value of the status, the ladder, and the settings of the preset in force (None: not known)."""
    known, limit = settings or {}, answer.limit
    now = {of_class.name: of_class.objectives for of_class in answer.classes if of_class.objectives is not None}
    stages = {stage: rounds_s for stage, rounds_s in answer.warmup.stages.items() if rounds_s}
    return Status(
        known=True,
        version=answer.version,
        model=answer.model,
        uptime_s=answer.uptime_s,
        reasons=tuple(answer.reasons),
        seats_taken=answer.seats_taken,
        queued=answer.queued,
        preset=answer.preset.name,
        trial=answer.preset.trial,
        limit_reason=limit.reason,
        operator_limit=limit.ordered,
        seat_bounds=SeatBounds(limit.kv_seats, limit.kv_seats_tokens, limit.kv_seats_recorded, limit.knee_seats),
        prefix=answer.ordering.prefix,
        order_error=answer.ordering.error or "",
        window_error=answer.window_error or "",
        admission=answer.state,
        blocks=tuple(answer.holds),
        stopped=answer.stopped,
        silences=tuple(answer.silences),
        recycling=answer.memory.recycling,
        longest_gc_pause_s=answer.memory.longest_gc_pause_s,
        engine=answer.engine,
        warmup=answer.warmup.model_copy(update={"stages": stages}),
        ladder=ladder,
        strategy=str(known.get("batching.strategy", "")),
        adaptive=_adaptive(known) if known else None,
        objectives=objectives_of(known, now),
        diagnosis=answer.diagnosis,
        forecast=answer.forecast,
        settings=known,
        launch=answer.launch,
        warnings=tuple(answer.warnings),
        batches=tuple(answer.batches),
    )


def _adaptive(settings: Mapping[str, Setting]) -> bool:
    """Whether the limit follows the engine's steps, or its memory."""
    moves = settings.get("limit.policy", "fixed") != "fixed" or bool(settings.get("limit.memory_aware", False))
    return moves and not settings.get("limit.shadow", False)
