"""Snapshot of one server: everything that the status and the metrics show, read in one instant.

Reading has no side effect: nothing is checked, restarted or moved by it. ``headway.operator.status`` renders a snapshot
as JSON, ``headway.operator.metrics`` as Prometheus metrics.
"""

from __future__ import annotations

import copy
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headway.admission import Gateway
from headway.engine import EngineSettings
from headway.fallback import FallbackController
from headway.operator.diagnostics import Diagnostics
from headway.operator.forecast_errors import ForecastErrors
from headway.operator.ordered_limit import LimitOrders, OrderedLimit
from headway.operator.presets import PresetCatalogue
from headway.operator.trials import PresetTrials
from headway.supervision import (
    TRIGGERS,
    Distribution,
    EngineActivity,
    EngineRecycle,
    MemoryReport,
    Supervisor,
    WarmupReport,
    WarmupState,
    not_ready,
)
from headway_policies import AdmissionState, Cause, ClassLedger, Desk, EngineState, Load, Preset
from headway_policies.diagnosis import Diagnosis
from headway_policies.fallback import Degradation, Rung, Trigger
from headway_policies.limits import StepTime
from headway_policies.memory import Cache
from headway_policies.prediction import Accuracy
from headway_policies.preset import SeatBounds, typical_tokens

#: The revisions that can be put in force again.
MAX_REVISIONS = 100

_MOST_SEATS = 65_536
_NO_LOAD = Load(running=0, waiting=0, kv_usage_ratio=0.0)


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """The model that a server serves, by its public name, and the device type that it runs on."""

    model: str = ""
    backend: str = ""


@dataclass(slots=True)
class SwitchHistory:
    """Switches of the preset since the start. Times are seconds of the wall clock ``wall_s``.

    ``presets`` are those of the last revisions, by their numbers: what can be put in force again.
    """

    presets: dict[int, Preset]
    wall_s: Callable[[], float] = time.time
    started_s: float = field(init=False)
    last_change_s: float = field(init=False)
    switches: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.started_s = self.last_change_s = self.wall_s()

    def switched(self, preset: Preset, revision: int) -> None:
        """Count a switch to this preset, which is this revision."""
        self.last_change_s = self.wall_s()
        self.switches[preset.name] += 1
        self.presets[revision] = preset
        if len(self.presets) > MAX_REVISIONS:
            del self.presets[min(self.presets)]

    def before(self, revision: int) -> int | None:
        """The revision before this one; None where it is not known any more."""
        return max((one for one in self.presets if one < revision), default=None)


@dataclass(frozen=True, slots=True)
class ClassReading:
    """One priority class: its place where the preset has it (larger is more urgent), its counts, its oldest wait.

    ``overloaded``: its queue stands, so that waits are cut to its objective. ``held_seats`` are kept from the classes
    below it.
    """

    priority: int | None
    oldest_wait_s: float
    overloaded: bool
    held_seats: int
    counts: ClassLedger


@dataclass(frozen=True, slots=True)
class PresetReading:
    """The preset in force, and the switches so far by preset; times are seconds since the epoch.

    ``back_to`` returns within ``trial_left_s`` seconds unless the trial is kept; None: the preset is not on trial.
    """

    name: str
    revision: int
    last_change_s: float
    switches: Mapping[str, int]
    back_to: str | None = None
    trial_left_s: float | None = None


@dataclass(frozen=True, slots=True)
class LimitReading:
    """Seats: the live limit, the one the policy proposes, the most any preset can get here, and the reason.

    ``scale_ratio`` is how many times the live limit the demand would fill. ``ordered`` is a limit in place of the
    preset's, for another ``ordered_left_s``; None: there is none, or it has no end. ``bounds`` is what
    this engine has seats for.
    """

    live: int
    proposed: int
    ceiling: int
    why: str
    scale_ratio: float
    ordered: OrderedLimit | None = None
    ordered_left_s: float | None = None
    bounds: SeatBounds = SeatBounds()  # noqa: RUF009 - it is frozen


@dataclass(frozen=True, slots=True)
class PrefixReading:
    """The model of the engine's prefix cache: the shares of prompt tokens that it expected there and that were found,
    None where not compared yet, and the part of the KV space that it uses."""

    expected_ratio: float | None
    hit_ratio: float | None
    room_ratio: float


@dataclass(frozen=True, slots=True)
class QueueReading:
    """Waiting requests: their number, prompt tokens and bytes, the batch window, and the order between them.

    ``prefix`` is None under an order that does not compare prompts.
    """

    tickets: int
    tokens: int
    size_bytes: int
    window_s: float
    between: str
    inside: str
    order_failed: str | None
    window_failed: str | None
    prefix: PrefixReading | None


@dataclass(frozen=True, slots=True)
class ForecastReading:
    """How true the forecasts of presets were: the switches that were compared, and the median error by figure."""

    comparisons: int
    error_ratios: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class FallbackReading:
    """The fallback ladder: its rung, what brought it there, its moves, and the requests degraded so far."""

    rung: Rung
    trigger: Trigger | None
    steps: Mapping[tuple[Rung, Trigger], int]
    degraded: Mapping[tuple[str, Degradation], int]


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """The share of the limit that may be used, caches cleared, engines recycled, and the collector's pauses."""

    cap_ratio: float
    cleared: Mapping[Cache, int]
    recycled: Mapping[str, int]
    gc_pauses: tuple[Distribution, ...]
    recycling: bool
    recycle_form: str


@dataclass(frozen=True, slots=True)
class SupervisorReading:
    """The supervisor: the step of a restart under way, attempts in a row and at most, deaths, hangs, crash suspects."""

    trying: str
    tries: int
    most_tries: int
    deaths: Mapping[Cause, int]
    hangs: int
    suspects: int


@dataclass(frozen=True, slots=True)
class EngineReading:
    """The engine: its state, whether requests go to it, its own limit, its last step, its fitted step time with the
    error of the fit (None: not known yet), its settings, its supervisor where one runs.

    One that is gone has no last step: nothing runs in it, and nothing waits.
    """

    state: EngineState
    up: bool
    core_limit: int | None
    load: Load
    costs: StepTime
    error_ratio: float | None
    settings: EngineSettings
    supervisor: SupervisorReading | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One server in one instant. ``not_ready`` has the reasons why it should receive no traffic, none when it is ready.

    ``seats_taken`` are sequences in the engine, the server's own among them; never fewer than it really has.
    ``diagnosis`` is the last one, at most some seconds old.
    """

    identity: ServerIdentity
    wall_s: float
    started_s: float
    not_ready: tuple[str, ...]
    admission: AdmissionState
    preset: PresetReading
    limit: LimitReading
    queue: QueueReading
    seats_taken: int
    in_flight: int
    classes: Mapping[str, ClassReading]
    accuracy: Mapping[str, Accuracy]
    forecast: ForecastReading
    diagnosis: Diagnosis
    fallback: FallbackReading
    warmup: WarmupReport
    memory: MemoryReading
    engine: EngineReading


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
    supervisor: Supervisor | None = None

    def not_ready(self) -> list[str]:
        """Why the server should receive no traffic; empty when it is ready."""
        trying = "" if self.supervisor is None else self.supervisor.trying
        return not_ready(self.gateway.gate.desk, self.warmup.report, trying)

    def snapshot(self) -> Snapshot:
        """The whole, as it is now."""
        desk, now_s, history = self.gateway.gate.desk, self.gateway.gate.now_s(), self.history
        return Snapshot(
            identity=self.identity,
            wall_s=history.wall_s(),
            started_s=history.started_s,
            not_ready=tuple(self.not_ready()),
            admission=desk.state,
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
        )

    # ------------------------------------------------------------------ inside

    def _preset(self, desk: Desk) -> PresetReading:
        names, history = [one.preset.name for one in self.catalogue], self.history
        switches = {name: history.switches[name] for name in names}
        trial, left_s = self.trials.running, self.trials.left_s()
        back_to = None if trial is None else trial.back_to.name
        return PresetReading(desk.preset.name, desk.revision, history.last_change_s, switches, back_to, left_s)

    def _limit(self, desk: Desk, now_s: float) -> LimitReading:
        ceiling = self.catalogue.max_seats() if desk.ceiling is None else desk.ceiling
        return LimitReading(
            live=desk.limit,
            proposed=desk.proposed_limit(now_s),
            ceiling=ceiling,
            why=desk.limit_reason,
            scale_ratio=desk.scale_ratio(now_s),
            ordered=self.orders.in_force,
            ordered_left_s=self.orders.left_s(now_s),
            bounds=self.seat_bounds(desk.preset),
        )

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
            gc_pauses=tuple(one.copy() for one in report.pauses.generations),
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
            settings=settings,
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
        )
        for name, counts in desk.ledger.classes.items()
    }
