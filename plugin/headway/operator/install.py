"""Installation of Headway in front of an engine: its parts are built, and its client becomes a policy client.

``prepare`` builds what needs nothing but the engine; what supervises it is built by the caller from these parts, and
``install`` builds the rest and puts it in force.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from headway.admission import Gate, Gateway, ModelNames, make_policy_class
from headway.api.schema import BatchStatus
from headway.audit import Audit
from headway.background_tasks import BackgroundTasks
from headway.engine import EngineAdapter
from headway.fallback import FallbackController, OtherEngine, OtherModel
from headway.forecast import Forecaster
from headway.operator.attainment import FIRST_TOKEN
from headway.operator.commands.admission import AdmissionCommands
from headway.operator.commands.operator_limit import OperatorLimits
from headway.operator.commands.silences import Silences
from headway.operator.commands.switch_history import SwitchHistory
from headway.operator.commands.trials import PresetTrials
from headway.operator.commands.warmup import WarmBesideTraffic, WarmupCommands
from headway.operator.control import Control
from headway.operator.forecast_errors import ForecastErrors
from headway.operator.forecasts import PresetForecasts
from headway.operator.metrics import Meters
from headway.operator.presets import PresetCatalogue
from headway.operator.scaling import Fleet, FleetScale, ScaleSignal
from headway.operator.scaling.load_reader import LoadReader
from headway.operator.scaling.scale_signal import OwnNeed
from headway.operator.status.diagnostics import Diagnostics
from headway.operator.status.server_facts import FactsReader
from headway.operator.status.snapshot import ServerIdentity
from headway.recorder import Recorder
from headway.supervision import EngineActivity, EngineRecycle, MemoryReport, Supervisor, WarmupState
from headway.supervision.engine_recycle import Replace
from headway.usage import UsageLog, UsageReader
from headway_policies import Preset
from headway_policies.preset import Ability

_UNNAMED = ServerIdentity()


@dataclass(frozen=True, slots=True)
class EngineParts:
    """The parts around one engine that need no supervision, and that its supervision is built from."""

    gateway: Gateway
    activity: EngineActivity
    warmup: WarmupState
    recorder: Recorder = field(default_factory=Recorder)
    meters: Meters | None = None
    memory: MemoryReport = field(default_factory=MemoryReport)
    tasks: BackgroundTasks = field(default_factory=BackgroundTasks)


def prepare(
    engine: Any,
    adapter: EngineAdapter,
    preset: Preset,
    *,
    meters: Meters | Callable[[int | None], Meters] | None = None,
    max_request_seats: int | None = None,
    warm_up: bool = False,
    names: ModelNames | None = None,
) -> EngineParts:
    """The parts around an unchanged engine. Raises ValueError where it has a gate already.

    ``meters`` are made here, where a function makes them of the engine's seats, once nothing can fail any more.
    ``warm_up``: the server is not ready before a warm-up. ``names`` are those of the model and of its adapters.
    """
    if hasattr(engine, "headway"):
        raise ValueError("this engine is behind a Headway gate already")
    ceiling = adapter.engine_seats(engine)
    meters = meters(ceiling) if callable(meters) else meters
    recorder = Recorder()
    most = adapter.settings(engine).max_loras
    gate = Gate(preset, ceiling=ceiling, most_adapters=most, meter=meters, traffic=recorder)
    gateway = Gateway(gate, adapter, engine, max_request_seats=max_request_seats)
    gateway.names = None if most is None else names or ModelNames()
    activity = EngineActivity(gateway, None if meters is None else meters.step)
    return EngineParts(gateway, activity, WarmupState(skip=not warm_up), recorder, meters)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts around an engine in its server, None where this server has no such part.

    ``replace`` puts another engine in place; ``other_model`` answers diverted requests; ``warm_up`` warms the engine
    up before it serves, ``warm_beside_traffic`` while it does. ``fleet``: the engine is several instances, and their
    number is decided for all of them. ``lacks``: abilities that a part of a preset may need and this server lacks;
    None: not known, and nothing is said of them. ``usage`` takes the records of requests,
    ``batches`` are those of the Batch API that have not ended.
    """

    identity: ServerIdentity = _UNNAMED
    supervisor: Supervisor | None = None
    replace: Replace | None = None
    other_model: OtherModel | None = None
    warm_up: Callable[[], Awaitable[None]] | None = None
    warm_beside_traffic: WarmBesideTraffic | None = None
    fleet: Fleet | None = None
    lacks: frozenset[Ability] | None = None
    usage: UsageLog | None = None
    batches: Callable[[], list[BatchStatus]] = list


ALONE = Surroundings()


def install(parts: EngineParts, catalogue: PresetCatalogue, around: Surroundings = ALONE) -> Control:
    """Make the engine a policy client in place; its ``Control`` is returned and also stands at ``engine.headway``."""
    gateway, gate = parts.gateway, parts.gateway.gate
    fallback = FallbackController(
        gate, lambda: parts.activity.load, apply=gate.fall_back, other_model=around.other_model
    )
    control = _control(parts, catalogue, fallback, around)
    gateway.model, gate.listeners.usage = around.identity.model, around.usage
    gate.desk.ledger.admit_classes(catalogue.class_names())
    engine: Any = gateway.link.engine
    gateway.diversion = fallback if isinstance(around.other_model, OtherEngine) else None
    engine.__class__ = make_policy_class(type(engine), gateway)
    engine.headway = control
    parts.activity.listens = gateway.link.adapter.listen(engine, parts.activity)
    return control


def _control(
    parts: EngineParts, catalogue: PresetCatalogue, fallback: FallbackController, around: Surroundings
) -> Control:
    gateway, gate, activity, tasks = parts.gateway, parts.gateway.gate, parts.activity, parts.tasks
    served, warmup, audit, supervisor = parts.recorder.served, parts.warmup, Audit(), around.supervisor
    settings = gateway.link.adapter.settings(gateway.link.engine)
    forecasts = PresetForecasts(gate, catalogue, parts.recorder, activity, settings, Forecaster())
    recycle = EngineRecycle(gateway, tasks, parts.memory, audit, around.replace, supervisor)
    errors, limits = ForecastErrors(gate, served, activity, forecasts, tasks), OperatorLimits(tasks)
    facts = FactsReader(gate, served, activity, fallback, forecasts, errors, recycle, warmup, limits, supervisor)
    return Control(
        identity=around.identity,
        gateway=gateway,
        catalogue=catalogue,
        history=SwitchHistory({gate.desk.mode.revision: gate.desk.preset}),
        activity=activity,
        warmup=warmup,
        memory=parts.memory,
        engine_recycle=recycle,
        fallback_controller=fallback,
        limits=limits,
        admission=AdmissionCommands(gateway, tasks, audit),
        warmups=WarmupCommands(gateway, tasks, warmup, recycle, audit, around.warm_beside_traffic),
        trials=PresetTrials(gate, served, tasks),
        silences=Silences(gate, audit),
        forecast_errors=errors,
        diagnostics=Diagnostics(gate, facts),
        scale_signal=_scale_signal(gate, parts.meters, around),
        audit=audit,
        supervisor=supervisor,
        fleet=around.fleet,
        lacks=around.lacks,
        batches=around.batches,
        recorder=parts.recorder,
        forecasts=forecasts,
        warm_engine=around.warm_up,
        usage=None if around.usage is None else UsageReader(around.usage),
    )


def _scale_signal(gate: Gate, meters: Meters | None, around: Surroundings) -> ScaleSignal:
    judged, fleet = (lambda: (0, 0)) if meters is None else partial(meters.judged, FIRST_TOKEN), around.fleet

    def fills() -> bool:
        return any(batch.state == "in_progress" and not batch.late for batch in around.batches())

    if fleet is None:
        return ScaleSignal(LoadReader(gate, lambda: 1, judged, fills), OwnNeed())
    decision = FleetScale(fleet, gate.now_s)
    return ScaleSignal(LoadReader(gate, fleet.ready, judged, fills), decision, fleet.settings.minimum)
