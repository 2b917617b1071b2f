"""Snapshot of one server: everything that the status and the metrics show, as it was in one instant.

``headway.operator.snapshot_reader`` takes one. ``headway.operator.status`` renders it as JSON, and
``headway.operator.metrics`` as Prometheus metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway.distribution import DistributionReading
from headway.engine import EngineSettings
from headway.operator.ordered_limit import OrderedLimit
from headway.supervision import WarmupReport
from headway_policies import AdmissionState, Cause, ClassLedger, EngineState, Hold, Load
from headway_policies.diagnosis import Diagnosis
from headway_policies.fallback import Degradation, Rung, Trigger
from headway_policies.limits import ObjectivesNow, StepTime, Unloaded
from headway_policies.memory import Cache
from headway_policies.prediction import Accuracy
from headway_policies.preset import SeatBounds


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """The model that a server serves, by its public name, and the device type that it runs on."""

    model: str = ""
    backend: str = ""


@dataclass(frozen=True, slots=True)
class ClassReading:
    """One priority class: its place where the preset has it (larger is more urgent), its counts, its oldest wait.

    ``overloaded``: its queue stands, so that waits are cut to its objective. ``held_seats`` are kept from the classes
    below it. ``objectives`` are those of its terms on this engine, for a prompt of the usual length; None where the
    preset does not have the class.
    """

    priority: int | None
    oldest_wait_s: float
    overloaded: bool
    held_seats: int
    counts: ClassLedger
    objectives: ObjectivesNow | None


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
    """Seats: the live limit, the one the policy proposes, the most that it may come to (``reach``), the most any preset
    can get here, and the reason.

    ``scale_ratio`` is how many times the live limit the demand would fill, ``desired_instances`` how many instances
    the traffic needs. ``ordered`` is a limit in place of the preset's, for another ``ordered_left_s``; None: there is
    none, or it has no end. ``bounds`` is what this engine has seats for.
    """

    live: int
    proposed: int
    reach: int
    ceiling: int
    why: str
    scale_ratio: float
    desired_instances: float
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
    """The share of the limit that may be used, caches cleared, engines recycled, the collector's pauses, and what the
    engine holds by component, in bytes."""

    cap_ratio: float
    cleared: Mapping[Cache, int]
    recycled: Mapping[str, int]
    gc_pauses: tuple[DistributionReading, ...]
    engine_bytes: Mapping[str, int]
    recycling: bool
    recycle_form: str


@dataclass(frozen=True, slots=True)
class SupervisorReading:
    """The supervisor: the step of a restart under way, attempts in a row and at most, deaths, hangs, crash suspects,
    the age of the grammar that the engine has been compiling for longest."""

    trying: str
    tries: int
    most_tries: int
    deaths: Mapping[Cause, int]
    hangs: int
    suspects: int
    compiling_s: float


@dataclass(frozen=True, slots=True)
class EngineReading:
    """The engine: its state, whether requests go to it, its own limit, its last step, its fitted step time with the
    error of the fit (None: not known yet), its settings, its supervisor where one runs. ``unloaded`` is what a request
    alone takes, ``unloaded_from`` what that rests on (``limits.EngineFit``).

    One that is gone has no last step: nothing runs in it, and nothing waits.
    """

    state: EngineState
    up: bool
    core_limit: int | None
    load: Load
    costs: StepTime
    error_ratio: float | None
    unloaded: Unloaded | None
    unloaded_from: str
    settings: EngineSettings
    preemptions: int
    supervisor: SupervisorReading | None


@dataclass(frozen=True, slots=True)
class InstanceReading:
    """One instance behind a router: whether it may be given requests, the sequences that may be sent there and that
    run there, those of other clients apart, and whether it says its own limit; the maker of the server, empty if
    that is not known, and what it does not say of itself.
    """

    name: str
    up: bool
    seats: int
    running: int
    others: int
    says_seats: bool
    maker: str = ""
    lacks: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One server in one instant. ``not_ready`` has the reasons why it should receive no traffic, none when it is ready.

    ``seats_taken`` are sequences in the engine, the server's own among them; never fewer than it really has.
    ``holds`` are the causes for which nothing is dispatched. ``diagnosis`` is the last one, at most some seconds old.
    ``effect_errors`` are those of the gate, where any is a defect, ``loop_lag`` is how late the event loop was.
    ``audit_lost`` lines of the audit could not be written to its files. ``instances`` are those of a router.
    """

    identity: ServerIdentity
    wall_s: float
    started_s: float
    not_ready: tuple[str, ...]
    admission: AdmissionState
    holds: frozenset[Hold]
    effect_errors: int
    audit_lost: int
    loop_lag: DistributionReading
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
    instances: tuple[InstanceReading, ...] = ()
