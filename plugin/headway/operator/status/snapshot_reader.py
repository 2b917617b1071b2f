"""Reading of a server's parts as its status, and as one snapshot: nothing is checked, restarted or moved by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from headway.admission import Gateway
from headway.api import schema
from headway.audit import Audit
from headway.fallback import FallbackController
from headway.operator.commands.admission import AdmissionCommands
from headway.operator.commands.operator_limit import OperatorLimits
from headway.operator.commands.silences import Silences
from headway.operator.commands.switch_history import SwitchHistory
from headway.operator.commands.trials import PresetTrials
from headway.operator.commands.warmup import WarmupCommands
from headway.operator.forecast_errors import ForecastErrors
from headway.operator.presets import PresetCatalogue
from headway.operator.scaling import Fleet, ScaleSignal
from headway.operator.status.class_status import class_statuses
from headway.operator.status.diagnostics import Diagnostics
from headway.operator.status.launch import launch_status, warning_lines
from headway.operator.status.snapshot import SIMULATED, ServerIdentity, Snapshot
from headway.release import version, vllm_version
from headway.supervision import (
    TRIGGERS,
    EngineActivity,
    EngineRecycle,
    MemoryReport,
    Supervisor,
    WarmupState,
    not_ready,
)
from headway.utc_text import utc_text
from headway_policies import Cause, Desk, Load, Preset
from headway_policies.desk import DeskReading
from headway_policies.diagnosis import Diagnosis
from headway_policies.engine import STUCK_WORDS
from headway_policies.limits import EngineFit
from headway_policies.memory import Cache
from headway_policies.preset import Ability, SeatBounds, best_seats, no_effect, typical_tokens
from headway_policies.step import StepFigures

_MOST_SEATS = 65_536
_NO_LOAD = Load(running=0, waiting=0, kv_usage_ratio=0.0)


@dataclass(frozen=True, slots=True)
class SnapshotReader:
    """Reads the parts of one server. Call it on the event loop's thread only."""

    identity: ServerIdentity
    gateway: Gateway
    catalogue: PresetCatalogue
    history: SwitchHistory
    activity: EngineActivity
    warmup: WarmupState
    memory: MemoryReport
    engine_recycle: EngineRecycle
    fallback_controller: FallbackController
    limits: OperatorLimits
    admission: AdmissionCommands
    warmups: WarmupCommands
    silences: Silences
    trials: PresetTrials
    forecast_errors: ForecastErrors
    diagnostics: Diagnostics
    scale_signal: ScaleSignal
    audit: Audit
    supervisor: Supervisor | None = None
    fleet: Fleet | None = None
    lacks: frozenset[Ability] | None = None
    batches: Callable[[], list[schema.BatchStatus]] = list

    def not_ready(self) -> list[str]:
        """The reason why the server should receive no traffic; empty when it is ready."""
        return not_ready(self.gateway.gate.desk, self.warmup.report, self.supervisor)

    def notes(self) -> list[str]:
        """The notes for an operator, also while the server is ready."""
        supervisor, found = self.supervisor, list[str]()
        if supervisor is None:
            return found
        if supervisor.slow_compilation_s > 0:
            found.append(f"the engine has been compiling a grammar for {supervisor.slow_compilation_s:.0f} s")
        if supervisor.stuck is not None and not supervisor.stuck.blocks_others:
            found.append(STUCK_WORDS[supervisor.stuck])
        return found

    def no_effect(self, preset: Preset, *, stated_only: bool = False) -> dict[Ability, str]:
        """The lines on what of a preset cannot act here (``headway_policies.preset.no_effect``)."""
        if self.lacks is None:
            return {}
        lacks = self.lacks if self.activity.listens else self.lacks | {Ability.STEPS}
        return no_effect(preset, lacks, stated_only=stated_only)

    def status(self) -> schema.Status:
        """The whole of one server, as it is now."""
        return self._status(self.gateway.gate.desk.read(self.gateway.gate.now_s()))

    def snapshot(self) -> Snapshot:
        """The present status, and the further figures of the metrics."""
        gate, history, memory, ladder = self.gateway.gate, self.history, self.memory, self.fallback_controller.ladder
        reading = gate.desk.read(gate.now_s())
        return Snapshot(
            status=self._status(reading),
            ledgers={name: counts.copy() for name, counts in gate.desk.ledger.classes.items()},
            diagnosis=self.diagnostics.last,
            engine=gate.desk.mode.engine,
            preemptions=self.activity.preemptions,
            compiling_s=0.0 if self.supervisor is None else self.supervisor.compiling_s,
            engine_bytes={} if self.gateway.link.engine_gone else dict(memory.engine_bytes),
            gc_pauses=memory.pauses.read(),
            loop_lag=gate.loop_lag.read(gate.now_s()),
            warmup_s=self.warmup.report.last_s(),
            reach=int(min(reading.most_seats, self._ceiling(gate.desk))),
            rung=ladder.rung,
            steps=dict(ladder.steps),
            degraded=dict(gate.degraded),
            switches={entry.preset.name: history.switches[entry.preset.name] for entry in self.catalogue},
            last_change_s=history.last_change_s,
            effect_errors=gate.effect_errors,
            audit_lost=self.audit.lost,
        )

    def seat_bounds(self, preset: Preset, reading: DeskReading | None = None) -> SeatBounds:
        """The seat bounds of this engine, at the recorded lengths, or before there are any at those of the preset."""
        link, desk, kv_tokens = self.gateway.link, self.gateway.gate.desk, self.activity.load.kv_capacity_tokens
        recorded_tokens = (reading or desk.read(self.gateway.gate.now_s())).sequence_tokens
        longest = link.adapter.settings(link.engine).max_model_len
        tokens = recorded_tokens or typical_tokens(preset, longest)
        knee, usable_ratio = desk.engine_fit.knee_seats(), preset.limit.usable_kv_ratio()
        return SeatBounds(
            kv_seats=max(1, int(usable_ratio * kv_tokens / tokens)) if kv_tokens else None,
            sequence_tokens=tokens,
            recorded=recorded_tokens > 0,
            knee_seats=None if knee is None else max(1, min(round(knee), _MOST_SEATS)),
            best_seats=best_seats(preset, desk.engine_fit),
        )

    # ------------------------------------------------------------------ inside

    def _status(self, reading: DeskReading) -> schema.Status:
        gate, history, reasons = self.gateway.gate, self.history, self.not_ready()
        desk, now_s, ladder = gate.desk, gate.now_s(), self.fallback_controller.ladder
        return schema.Status(
            version=version(),
            model=self.identity.model,
            diagnosis=_diagnosis(self.diagnostics.last),
            ready=not reasons,
            reasons=reasons,
            state=desk.mode.state.value,
            holds=[str(block) for block in sorted(desk.mode.blocks)],
            stopped=self._stopped(now_s),
            silences=self.silences.active(),
            started_at=utc_text(history.started_s),
            uptime_s=round(history.wall_s() - history.started_s, 1),
            preset=self._preset(desk),
            limit=self._limit(desk, reading, now_s),
            ordering=_ordering(desk, reading),
            scale_ratio=round(reading.scale_ratio, 4),
            desired_instances=round(self.scale_signal.instances, 4),
            window_s=round(reading.window_s, 6),
            window_error=reading.window_failed,
            seats_taken=self.gateway.sequences,
            queued=desk.ledger.queued,
            queued_tokens=reading.waiting_tokens,
            queued_bytes=reading.waiting_bytes,
            in_flight=desk.ledger.in_flight,
            classes=class_statuses(desk, reading, gate.lowered),
            prediction={
                of: schema.PredictionStatus(samples=accuracy.samples, error_ratio=round(accuracy.error_ratio, 4))
                for of, accuracy in reading.accuracy.items()
            },
            forecast=self.forecast_errors.report(),
            fallback=schema.FallbackSummary(rung=ladder.rung.word, trigger=ladder.why),
            warmup=self._warmup(),
            memory=self._memory(),
            engine=self._engine(desk, reading.suspects),
            instances=[] if self.fleet is None else list(self.fleet.instances()),
            batches=self.batches(),
            launch=launch_status(),
            warnings=warning_lines(),
        )

    def _stopped(self, now_s: float) -> schema.OperatorStop | None:
        if (stop := self.admission.stop) is None:
            return None
        return schema.OperatorStop(
            state=stop.state.value,
            since=utc_text(stop.since_wall_s),
            for_s=round(now_s - stop.since_s, 1),
            actor=stop.actor,
            reason=stop.reason,
            left_s=None if stop.ends_s is None else round(max(0.0, stop.ends_s - now_s), 1),
        )

    def _preset(self, desk: Desk) -> schema.PresetStatus:
        trial, left_s, ends = self.trials.running, self.trials.left_s(), None
        if trial is not None and left_s is not None:
            ends = schema.TrialEnds(back_to=trial.back_to.name, left_s=round(left_s, 1))
        void = list(self.no_effect(desk.preset).values())
        return schema.PresetStatus(name=desk.preset.name, revision=desk.mode.revision, trial=ends, no_effect=void)

    def _limit(self, desk: Desk, reading: DeskReading, now_s: float) -> schema.LimitStatus:
        bounds, limit, ordered = self.seat_bounds(desk.preset, reading), self.limits.in_force, None
        if limit is not None:
            ordered = schema.OperatorLimit(
                seats=limit.seats,
                window_ms=limit.window_ms,
                left_s=_rounded(self.limits.left_s(now_s), 3),
                actor=limit.actor,
                reason=limit.reason,
            )
        return schema.LimitStatus(
            live=desk.limit,
            proposed=reading.proposed_limit,
            ceiling=self._ceiling(desk),
            reason=reading.limit_reason,
            ordered=ordered,
            kv_seats=bounds.kv_seats,
            kv_seats_tokens=round(bounds.sequence_tokens, 1),
            kv_seats_recorded=bounds.recorded,
            knee_seats=bounds.knee_seats,
        )

    def _ceiling(self, desk: Desk) -> int:
        """The engine's; where it has not said so, no less than what is in force and what any preset states."""
        return max(desk.limit, self.catalogue.stated_seats()) if desk.ceiling is None else desk.ceiling

    def _warmup(self) -> schema.WarmupStatus:
        report = self.warmup.report
        return schema.WarmupStatus(
            state=report.state,
            reason=report.reason,
            attempt=report.attempt,
            single_s=_rounded(report.single_s),
            batch_s=_rounded(report.batch_s),
            batch_size=report.batch_size,
            stages={stage: [round(took_s, 4) for took_s in rounds_s] for stage, rounds_s in report.stages.items()},
            refused=list(report.refused),
            settled=report.settled,
            first_token_ratio=_rounded(report.first_token_ratio),
            ordered=self.warmups.running,
        )

    def _memory(self) -> schema.MemoryStatus:
        report = self.memory
        return schema.MemoryStatus(
            cap_ratio=report.cap_ratio,
            host_usage_ratio=_rounded(report.host_usage_ratio) or 0.0,
            cleared={cache.value: report.cleared[cache] for cache in Cache},
            recycled={trigger: report.recycled[trigger] for trigger in TRIGGERS},
            longest_gc_pause_s=round(max(pauses.largest for pauses in report.pauses.read()), 6),
            recycling=self.engine_recycle.running,
            recycle_form=report.recycle_form,
        )

    def _engine(self, desk: Desk, suspects: int) -> schema.EngineStatus:
        """The engine now. An engine that is gone has no last step: nothing runs in it, and nothing waits."""
        link, fit, supervised = self.gateway.link, desk.engine_fit, dict[str, Any]()
        load = _NO_LOAD if link.engine_gone or link.engine_lost else self.activity.load
        settings = link.adapter.settings(link.engine)
        if (supervisor := self.supervisor) is not None:
            supervised = {
                "state": desk.mode.engine,
                "restart_step": supervisor.trying,
                "restart_attempts": supervisor.restarts.deaths_in_a_row,
                "max_restart_attempts": supervisor.most_tries,
                "deaths": {cause.value: supervisor.deaths[cause] for cause in Cause},
                "hangs": supervisor.hangs,
                "stuck": supervisor.stuck or "",
                "stuck_s": round(supervisor.stuck_s, 1),
                "crash_suspects": suspects,
            }
        return schema.EngineStatus(
            backend=self.identity.backend,
            version="" if self.identity.backend == SIMULATED else vllm_version(),
            healthy=desk.mode.engine_up,
            core_limit=link.core_limit,
            running=load.running,
            waiting=load.waiting,
            kv_cache_usage_ratio=round(load.kv_usage_ratio, 4),
            kv_cache_tokens=load.kv_capacity_tokens,
            step_time=_step_time(fit),
            unloaded=_unloaded(fit),
            dtype=settings.dtype,
            quantization=settings.quantization,
            kv_cache_dtype=settings.kv_cache_dtype,
            max_model_len=settings.max_model_len,
            step_tokens=settings.step_tokens,
            steps=_steps(self.activity.steps, self.diagnostics.steps()),
            **supervised,
        )


def _diagnosis(found: Diagnosis) -> schema.Diagnosis:
    return schema.Diagnosis(
        severity=found.severity.word,
        bottleneck=found.bottleneck,
        statement=found.statement,
        symptoms=list(found.symptoms),
        evidence=[
            schema.Evidence(figure=evidence.figure, value=round(evidence.value, 6), bound=evidence.bound)
            for evidence in found.evidence
        ],
        remedies=[schema.Remedy(**asdict(remedy)) for remedy in found.remedies],
    )


def _ordering(desk: Desk, reading: DeskReading) -> schema.OrderingStatus:
    order, prefix = desk.preset.ordering, None
    if (model := reading.prefixes) is not None:
        expected, hit = _rounded(model.expected_ratio), _rounded(model.hit_ratio)
        prefix = schema.PrefixStatus(expected_ratio=expected, hit_ratio=hit, room_ratio=round(model.factor, 4))
    return schema.OrderingStatus(between=order.between, inside=order.inside, error=reading.order_failed, prefix=prefix)


def _step_time(fit: EngineFit) -> schema.StepTime | None:
    if fit.error_ratio is None:
        return None
    costs = fit.step_costs
    return schema.StepTime(
        base_s=round(costs.base_s, 6),
        sequence_s=round(costs.sequence_s, 6),
        prompt_token_s=round(costs.prefill_token_s, 6),
        error_ratio=round(fit.error_ratio, 4),
    )


def _unloaded(fit: EngineFit) -> schema.UnloadedTimes | None:
    if (alone := fit.unloaded) is None:
        return None
    token_s, prefill_token_s = round(alone.token_s, 6), round(alone.prefill_token_s, 9)
    return schema.UnloadedTimes(token_s=token_s, prefill_token_s=prefill_token_s, source=fit.unloaded_from)


def _steps(figures: StepFigures | None, lately: StepFigures | None) -> schema.StepsStatus | None:
    if figures is None:
        return None
    lately = lately or StepFigures()
    return schema.StepsStatus(
        planned=figures.steps,
        pressed=figures.pressed,
        held=figures.held,
        prompt_tokens=figures.prompt_tokens,
        decode_tokens=figures.decode_tokens,
        budget_tokens=figures.budget_tokens,
        total_s=round(figures.total_s, 3),
        prefill_s=round(figures.prompt_s, 3),
        target_s=round(figures.target_s, 3),
        prefill_share=_rounded(lately.prefill_share) if lately.steps else None,
        target_share=_rounded(lately.target_share) if lately.steps else None,
        longest_held_s=round(lately.held_s, 3),
    )


def _rounded(value: float | None, digits: int = 4) -> float | None:
    return None if value is None else round(value, digits)
