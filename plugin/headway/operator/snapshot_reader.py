"""Reading of a server's parts as one snapshot. Reading has no side effect: nothing is checked, restarted or moved."""

from __future__ import annotations

import copy
from dataclasses import dataclass

from headway.admission import Gateway
from headway.audit import Audit
from headway.fallback import FallbackController
from headway.operator.diagnostics import Diagnostics
from headway.operator.forecast_errors import ForecastErrors
from headway.operator.ordered_limit import LimitOrders
from headway.operator.presets import PresetCatalogue
from headway.operator.scaling import Fleet, ScaleSignal
from headway.operator.snapshot import (
    ClassReading,
    EngineReading,
    FallbackReading,
    ForecastReading,
    LimitReading,
    MemoryReading,
    PrefixReading,
    PresetReading,
    QueueReading,
    ServerIdentity,
    Snapshot,
    SupervisorReading,
)
from headway.operator.switch_history import SwitchHistory
from headway.operator.trials import PresetTrials
from headway.supervision import (
    TRIGGERS,
    EngineActivity,
    EngineRecycle,
    MemoryReport,
    Supervisor,
    WarmupState,
    not_ready,
)
from headway_policies import Cause, Desk, Load, Preset
from headway_policies.limits import ObjectivesNow
from headway_policies.memory import Cache
from headway_policies.preset import Ability, SeatBounds, best_seats, no_effect, typical_tokens

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
    recycle: EngineRecycle
    fallback: FallbackController
    orders: LimitOrders
    trials: PresetTrials
    forecast_errors: ForecastErrors
    diagnostics: Diagnostics
    scale_signal: ScaleSignal
    audit: Audit
    supervisor: Supervisor | None = None
    fleet: Fleet | None = None
    lacks: frozenset[Ability] | None = None

    def not_ready(self) -> list[str]:
        """Why the server should receive no traffic; empty when it is ready."""
        trying = "" if self.supervisor is None else self.supervisor.trying
        return not_ready(self.gateway.gate.desk, self.warmup.report, trying)

    def notes(self) -> list[str]:
        """What an operator should look at, also while the server is ready."""
        if (compiling_s := self.slow_compilation_s()) > 0:
            return [f"the engine has been compiling a grammar for {compiling_s:.0f} s"]
        return []

    def no_effect(self, preset: Preset, *, stated_only: bool = False) -> dict[Ability, str]:
        """The lines on what of a preset cannot act here (``headway_policies.preset.no_effect``)."""
        if self.lacks is None:
            return {}
        lacks = self.lacks if self.activity.listens else self.lacks | {Ability.STEPS}
        return no_effect(preset, lacks, stated_only=stated_only)

    def slow_compilation_s(self) -> float:
        """The age of a grammar that the engine has been compiling for too long; 0 where none is."""
        return 0.0 if self.supervisor is None else self.supervisor.slow_compilation_s

    def snapshot(self) -> Snapshot:
        """The whole, as it is now."""
        desk, now_s, history = self.gateway.gate.desk, self.gateway.gate.now_s(), self.history
        return Snapshot(
            identity=self.identity,
            wall_s=history.wall_s(),
            started_s=history.started_s,
            not_ready=tuple(self.not_ready()),
            admission=desk.state,
            holds=frozenset(desk.holds),
            effect_errors=self.gateway.gate.effect_errors,
            audit_lost=self.audit.lost,
            loop_lag=self.gateway.gate.loop_lag.read(now_s),
            preset=self._preset(desk),
            limit=self._limit(desk, now_s),
            queue=_queue(desk, now_s),
            seats_taken=self.gateway.sequences,
            in_flight=desk.ledger.in_flight,
            classes=_classes(desk, now_s),
            accuracy=desk.accuracy(),
            forecast=ForecastReading(len(self.forecast_errors.comparisons), self.forecast_errors.error_ratios()),
            diagnosis=self.diagnostics.last,
            fallback=self._fallback(),
            warmup=copy.deepcopy(self.warmup.report),
            memory=self._memory(),
            engine=self._engine(desk),
            instances=() if self.fleet is None else tuple(self.fleet.instances()),
        )

    # ------------------------------------------------------------------ inside

    def _preset(self, desk: Desk) -> PresetReading:
        names, history = [one.preset.name for one in self.catalogue], self.history
        switches = {name: history.switches[name] for name in names}
        trial, left_s = self.trials.running, self.trials.left_s()
        back_to = None if trial is None else trial.back_to.name
        return PresetReading(desk.preset.name, desk.revision, history.last_change_s, switches, back_to, left_s)

    def _limit(self, desk: Desk, now_s: float) -> LimitReading:
        return LimitReading(
            live=desk.limit,
            proposed=desk.proposed_limit(now_s),
            reach=int(min(desk.most_seats, self._ceiling(desk))),
            ceiling=self._ceiling(desk),
            why=desk.limit_reason,
            scale_ratio=desk.scale_ratio(now_s),
            desired_instances=self.scale_signal.instances,
            ordered=self.orders.in_force,
            ordered_left_s=self.orders.left_s(now_s),
            bounds=self.seat_bounds(desk.preset),
        )

    def _ceiling(self, desk: Desk) -> int:
        """The engine's; where it has not said so, no less than what is in force and what any preset states."""
        return max(desk.limit, self.catalogue.stated_seats()) if desk.ceiling is None else desk.ceiling

    def seat_bounds(self, preset: Preset) -> SeatBounds:
        """What this engine has seats for, at the recorded lengths, or before there are any at those of the preset."""
        link, desk, kv_tokens = self.gateway.link, self.gateway.gate.desk, self.activity.load.kv_capacity_tokens
        recorded = desk.sequence_tokens > 0
        longest = link.adapter.settings(link.engine).max_model_len
        tokens = desk.sequence_tokens if recorded else typical_tokens(preset, longest)
        knee = desk.engine_fit.knee_seats()
        return SeatBounds(
            kv_seats=max(1, int(kv_tokens / tokens)) if kv_tokens else None,
            sequence_tokens=tokens,
            recorded=recorded,
            knee_seats=None if knee is None else max(1, min(round(knee), _MOST_SEATS)),
            best_seats=best_seats(preset, desk.engine_fit),
        )

    def _fallback(self) -> FallbackReading:
        ladder, degraded = self.fallback.ladder, self.gateway.gate.degraded
        return FallbackReading(ladder.rung, ladder.why, dict(ladder.steps), dict(degraded))

    def _memory(self) -> MemoryReading:
        report = self.memory
        return MemoryReading(
            cap_ratio=report.cap_ratio,
            cleared={cache: report.cleared[cache] for cache in Cache},
            recycled={trigger: report.recycled[trigger] for trigger in TRIGGERS},
            gc_pauses=report.pauses.read(),
            engine_bytes={} if self.gateway.link.engine_gone else dict(report.engine_bytes),
            recycling=self.recycle.running,
            recycle_form=report.recycle_form,
        )

    def _engine(self, desk: Desk) -> EngineReading:
        supervisor, reading = self.supervisor, None
        if supervisor is not None:
            reading = SupervisorReading(
                trying=supervisor.trying,
                tries=supervisor.restarts.deaths_in_a_row,
                most_tries=supervisor.most_tries,
                deaths={cause: supervisor.deaths[cause] for cause in Cause},
                hangs=supervisor.hangs,
                suspects=desk.suspects,
                compiling_s=supervisor.compiling_s,
            )
        link = self.gateway.link
        settings = link.adapter.settings(link.engine)
        load = _NO_LOAD if link.engine_gone or link.engine_lost else self.activity.load
        fit = desk.engine_fit
        return EngineReading(
            state=desk.engine,
            up=desk.engine_up,
            core_limit=link.core_limit,
            load=load,
            costs=fit.step_costs,
            error_ratio=fit.error_ratio,
            unloaded=fit.unloaded,
            unloaded_from=fit.unloaded_from,
            settings=settings,
            preemptions=self.activity.preemptions,
            supervisor=reading,
        )


def _queue(desk: Desk, now_s: float) -> QueueReading:
    prefixes = desk.prefixes
    return QueueReading(
        tickets=desk.ledger.queued,
        tokens=desk.waiting_tokens(),
        size_bytes=desk.waiting_bytes(),
        window_s=desk.window_s(now_s),
        between=desk.preset.ordering.between,
        inside=desk.preset.ordering.inside,
        order_failed=desk.order_failed,
        window_failed=desk.window_failed,
        prefix=None
        if prefixes is None
        else PrefixReading(prefixes.expected_ratio, prefixes.hit_ratio, prefixes.factor),
    )


def _classes(desk: Desk, now_s: float) -> dict[str, ClassReading]:
    oldest_s, terms = desk.oldest_wait_s(now_s), desk.preset.classes
    standing, held = desk.standing_queues(now_s), desk.held_seats()
    return {
        name: ClassReading(
            priority=terms[name].priority if name in terms else None,
            oldest_wait_s=oldest_s[name],
            overloaded=name in standing,
            held_seats=held.get(name, 0),
            counts=counts.copy(),
            objectives=_objectives(desk, name),
        )
        for name, counts in desk.ledger.classes.items()
    }


def _objectives(desk: Desk, name: str) -> ObjectivesNow | None:
    terms = desk.preset.classes.get(name)
    return None if terms is None else ObjectivesNow.of(terms, desk.engine_fit.unloaded, desk.usual_prompt_tokens)
