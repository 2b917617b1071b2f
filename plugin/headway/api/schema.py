"""The JSON bodies of the admin API: one pydantic model for each answer and each order.

The server makes its answers from these models, the clients read them, and the OpenAPI document describes them. A field
of an answer that a client does not know is kept, so that a client can read the answers of a newer server. Durations
are seconds, ratios are from 0 to 1, times are ISO 8601 in UTC.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, RootModel

#: The value of one preset setting, as in the preset file.
Setting = str | int | float | bool | list[str] | list[int]


class Answer(BaseModel):
    """The base of all answers."""

    model_config = ConfigDict(extra="allow", frozen=True, json_schema_serialization_defaults_required=True)


# ---------------------------------------------------------------------- the status


class PresetInForce(Answer):
    """The preset in force: its name, and its revision, which grows by one with every switch."""

    name: str
    revision: int


class TrialEnds(Answer):
    """What comes back, and when at the latest, unless the preset on trial is kept."""

    back_to: str
    left_s: float


class PresetStatus(PresetInForce):
    """The preset in force, and whether it is on trial."""

    trial: TrialEnds | None = Field(default=None, description="null: it stays until somebody changes it.")


class OrderedLimit(Answer):
    """A limit that an operator has ordered in place of the preset's: its seats, its batch window, and its end."""

    seats: int
    window_ms: float | None = Field(default=None, description="null: the window of the preset.")
    left_s: float | None = Field(default=None, description="Seconds until it ends; null: with the next switch.")


class LimitStatus(Answer):
    """The seat limit: in force, proposed by the limit policy, and the most that any preset can get."""

    live: int
    proposed: int = 0
    ceiling: int
    reason: str = Field(default="", description="Why the proposed limit is what it is: fixed, slo, kv, failed, ...")
    ordered: OrderedLimit | None = Field(default=None, description="null: the limit is that of the preset.")
    kv_seats: int | None = Field(
        default=None, description="Sequences of `kv_seats_tokens` that fill the KV space; null: not known yet."
    )
    kv_seats_tokens: float = Field(default=0.0, description="The mean length of recent sequences, or a typical one.")
    kv_seats_recorded: bool = Field(default=False, description="Whether that is the recent mean.")
    knee_seats: int | None = Field(
        default=None,
        description="Beyond so many seats 10 % more tokens a second cost over 20 % more time between tokens.",
    )


class PrefixStatus(Answer):
    """The model of the engine's prefix cache: shares of the prompt tokens of recent requests, null before there are
    enough."""

    expected_ratio: float | None = Field(default=None, description="Expected in the cache.")
    hit_ratio: float | None = Field(default=None, description="Found there by the engine.")
    room_ratio: float = Field(default=1.0, description="The part of the KV space that the model uses.")


class OrderingStatus(Answer):
    """The queueing order: between classes, and inside one class."""

    between: str = ""
    inside: str = ""
    error: str | None = Field(default=None, description="Why the order was disabled; null while it works.")
    prefix: PrefixStatus | None = Field(default=None, description='Only with `inside = "prefix"`.')


class ClassStatus(Answer):
    """One priority class: its queue, its running requests, and the outcomes of all that have ended."""

    name: str
    priority: int | None = Field(description="null for a class that the preset in force does not have")
    queued: int
    oldest_wait_s: float
    overloaded: bool = Field(default=False, description="Whether waits are cut to the objective of the class.")
    held_seats: int = Field(default=0, description="Seats kept for the class from less urgent ones, taken or not.")
    in_flight: int
    arrived: int
    outcomes: dict[str, int]


class PredictionStatus(Answer):
    """How well one quantity is predicted: the mean error as a share of the mean, and the number of samples."""

    samples: int
    error_ratio: float


class FallbackSummary(Answer):
    """The rung of the fallback ladder, and the trigger of its last move."""

    rung: str = ""
    trigger: str | None = None


class WarmupStatus(Answer):
    """The warm-up: pending, running, done, skipped or failed."""

    state: str = ""
    reason: str = Field(default="", description="Why the last attempt failed.")
    attempt: int = 0
    single_s: float | None = Field(default=None, description="Duration of the last single request.")
    batch_s: float | None = Field(default=None, description="Duration of the last full batch.")
    batch_size: int | None = None
    stages: dict[str, list[float]] = Field(default={}, description="The duration of every round of each stage.")
    refused: list[str] = Field(default=[], description="The stages that the engine does not support.")
    settled: bool = Field(default=False, description="Whether the last two batches took equally long.")
    ordered: bool = Field(
        default=False, description="Whether a warm-up that an operator has ordered runs now, beside the traffic."
    )


class MemoryStatus(Answer):
    """Memory maintenance since the server started."""

    cap_ratio: float = Field(default=1.0, description="The share of the seats that memory allows.")
    cleared: dict[str, int] = Field(default={}, description="Cache clears, by cache.")
    recycled: dict[str, int] = Field(default={}, description="Engines that were replaced alive, by trigger.")
    longest_gc_pause_s: float | None = Field(default=None, description="The longest pause by Python's collector.")
    recycling: bool = Field(default=False, description="Whether a recycle is in progress.")
    recycle_form: str = Field(
        default="",
        description="How the new engine of the last recycle was started: beside the old engine, or after the old "
        "engine ended, and why. Empty before the first.",
    )


class StepTime(Answer):
    """The step time of the engine, fitted from its own steps: ``base_s`` + ``sequence_s`` for each running sequence +
    ``prompt_token_s`` for each prompt token that is computed in it."""

    base_s: float
    sequence_s: float
    prompt_token_s: float
    error_ratio: float = Field(description="Mean of |predicted - measured| / measured of its recent steps.")


class EngineStatus(Answer):
    """The engine. ``state`` and the fields below it are empty where no supervisor watches the engine."""

    backend: str = ""
    version: str = Field(default="", description="The version of vLLM; empty where it is not installed.")
    healthy: bool = False
    core_limit: int | None = Field(default=None, description="The seat limit that the engine has confirmed.")
    running: int = 0
    waiting: int = 0
    kv_cache_usage_ratio: float = 0.0
    kv_cache_tokens: int | None = Field(
        default=None, description="Tokens the KV cache holds; null before the first step."
    )
    step_time: StepTime | None = Field(default=None, description="null until enough steps were seen.")
    dtype: str = Field(default="", description="The type of the weights, such as bfloat16.")
    quantization: str = Field(default="", description="The method by which the weights are quantised, or none.")
    kv_cache_dtype: str = Field(default="", description="The type in which the KV cache is kept.")
    max_model_len: int | None = Field(default=None, description="The longest sequence, prompt and answer, in tokens.")
    state: str = Field(default="", description="up, silent, restarting or lost")
    restart_step: str = Field(default="", description="The present step of a restart; empty if there is none.")
    restart_attempts: int = Field(default=0, description="Restart attempts since the last healthy engine.")
    max_restart_attempts: int = Field(default=0, description="0 where the server cannot replace its engine.")
    deaths: dict[str, int] = Field(default={}, description="Engine deaths, by cause.")
    hangs: int = Field(default=0, description="Times the engine was unresponsive for too long.")
    crash_suspects: int = Field(default=0, description="Requests that are retried alone after an engine death.")


class ForecastErrors(Answer):
    """How true the forecasts of presets were: the median of |forecast - came| / came after the last switches."""

    comparisons: int = 0
    error_ratio: dict[str, float] = Field(default={}, description="By figure; empty before the first comparison.")


class Evidence(Answer):
    """A figure of the last half minute, and the bound that it was compared with; ``class.figure`` for a class."""

    figure: str
    value: float
    bound: float | None = Field(default=None, description="null: the figure stands alone.")


class Remedy(Answer):
    """What would help, what it costs, and the command that does it; empty where it is not one command."""

    action: str
    cost: str = ""
    command: str = ""


class Diagnosis(Answer):
    """What limits the server now, how bad that is, what is wrong in a sentence each, and what would help, the best
    first."""

    severity: str = Field(description="ok, watch, degraded, overloaded or down")
    bottleneck: str = Field(description="What limits: seats, engine_speed, memory, ...; none: nothing does.")
    statement: str
    symptoms: list[str] = []
    evidence: list[Evidence] = []
    remedies: list[Remedy] = []


class OrderedStop(Answer):
    """An order that has stopped dispatch: paused or draining, since when, by whom, and why."""

    state: str
    since: str
    for_s: float
    actor: str
    reason: str = ""


class Status(Answer):
    """The state of the whole server."""

    version: str
    model: str
    diagnosis: Diagnosis | None = Field(default=None, description="null: the server is older than this.")
    ready: bool
    reasons: list[str] = Field(description="Why the server is not ready.")
    state: str = Field(description="The state of admission: open, paused or draining, for example.")
    holds: list[str] = Field(
        default=[],
        description="The causes for which nothing is dispatched: operator, recycle, warmup, engine_paused, ...",
    )
    stopped: OrderedStop | None = Field(default=None, description="null: no order stops dispatch.")
    started_at: str = ""
    uptime_s: float
    preset: PresetStatus
    limit: LimitStatus
    ordering: OrderingStatus = OrderingStatus()
    scale_ratio: float = Field(default=0.0, description="How many times the live limit the demand would fill.")
    window_s: float = Field(default=0.0, description="How long a batch may gather now.")
    window_error: str | None = Field(default=None, description="Why a custom window was disabled; null while it works.")
    seats_taken: int
    queued: int
    queued_tokens: int = 0
    queued_bytes: int = 0
    in_flight: int
    classes: list[ClassStatus]
    prediction: dict[str, PredictionStatus] = {}
    forecast: ForecastErrors = ForecastErrors()
    fallback: FallbackSummary = FallbackSummary()
    warmup: WarmupStatus = WarmupStatus()
    memory: MemoryStatus = MemoryStatus()
    engine: EngineStatus = EngineStatus()


class DeskDump(RootModel[dict[str, Any]]):
    """The queue and the running requests, by id and class: for debugging, without a fixed form."""


# ---------------------------------------------------------------------- presets


class Lengths(Answer):
    """Lengths in tokens of one sequence: of how many requests, mean, quantiles (nearest rank) and maximum."""

    count: int
    mean: float
    p50: int
    p95: int
    p99: int
    maximum: int


class ClassTraffic(Answer):
    """The recent arrivals of one class."""

    requests: int
    rate_per_s: float
    sequences: float = Field(default=1.0, description="Of a request, on the mean.")
    prompt_tokens: Lengths | None = None
    output_tokens: Lengths | None = Field(default=None, description="Of the completed requests; null: none completed.")


class Traffic(Answer):
    """What arrived in the last half hour, the refused requests too."""

    span_s: float = Field(description="The time that these figures are of.")
    whole: bool = Field(default=True, description="false: there were so many that the oldest were dropped.")
    requests: int
    rate_per_s: float
    gap_cv: float | None = Field(
        default=None, description="Coefficient of variation of the times between arrivals; 1: a Poisson process."
    )
    peak_ratio: float | None = Field(default=None, description="The busiest ten seconds over ten seconds on the mean.")
    tenants: int = 0
    largest_tenant_ratio: float | None = Field(default=None, description="The busiest tenant's share of the requests.")
    classes: dict[str, ClassTraffic] = {}


class Interval(Answer):
    """A forecast figure: the median of several replays, the least and the largest."""

    value: float
    low: float
    high: float


class Quantiles(Answer):
    """p50, p95 and p99 in seconds; null where nothing was measured."""

    p50: Interval | None = None
    p95: Interval | None = None
    p99: Interval | None = None


class ClassForecast(Answer):
    """What the requests of one class would meet; ratios are of those that were offered."""

    offered: int
    completed_ratio: Interval
    refused_ratio: Interval
    timed_out_ratio: Interval
    good_ratio: Interval | None = Field(
        default=None, description="Served within all objectives of the preset; null where it states none."
    )
    ttft_s: Quantiles
    inter_token_s: Quantiles


class PresetForecast(Answer):
    """What one preset would do with the recent traffic."""

    name: str
    tokens_per_s: Interval
    mean_batch: Interval
    goodput_per_s: Interval | None = Field(
        default=None, description="Requests a second that are served within the preset's own objectives."
    )
    all: ClassForecast
    classes: dict[str, ClassForecast]


class EngineEstimate(StepTime):
    """The model of the engine: its step time, and the tokens that its KV space holds."""

    kv_tokens: int


class Forecast(Answer):
    """The forecast of several presets, by replays of the last requests on the model of the engine."""

    current: str = Field(description="The preset in force.")
    span_s: float = Field(description="The time in which the requests arrived.")
    requests: int = Field(description="The sequences that were replayed: the newest ones.")
    seeds: int = Field(description="How many replays each figure is of, at least.")
    engine: EngineEstimate
    earlier: ForecastErrors = Field(default=ForecastErrors(), description="How true earlier forecasts were.")
    presets: list[PresetForecast]


class ForecastProgress(Answer):
    """Whether a forecast is being computed, and how far it is."""

    running: bool
    done_ratio: float = 0.0


class PresetEntry(Answer):
    """One preset of the server; ``source`` is "bundled", "given" by the program, or its file."""

    name: str
    description: str
    source: str
    settings: dict[str, Setting]
    warnings: list[str] = Field(default=[], description="Settings that probably do not do what their author expects.")


class PresetList(Answer):
    """All presets of the server, and the one in force."""

    current: PresetInForce
    presets: list[PresetEntry]


class CurrentPreset(PresetInForce):
    """The preset in force with its settings."""

    description: str
    settings: dict[str, Setting]


class SettingChange(Answer):
    """One setting that differs between two presets; null where a preset does not have it."""

    setting: str
    before: Setting | None
    after: Setting | None


class ServedFigures(Answer):
    """What a class of requests got in a stretch of time; null where nothing was measured.

    Ratios are of the requests that ended. A request that waits for its first token counts with its age so far.
    """

    completed_ratio: float | None = None
    refused_ratio: float | None = None
    timed_out_ratio: float | None = None
    error_ratio: float | None = None
    ttft_p50_s: float | None = None
    ttft_p95_s: float | None = None
    ttft_p99_s: float | None = None
    inter_token_p50_s: float | None = None
    inter_token_p95_s: float | None = None
    inter_token_p99_s: float | None = None
    tokens_per_s: float | None = None


class ServedByClass(Answer):
    """The figures of all requests, and of each class."""

    all: ServedFigures
    classes: dict[str, ServedFigures]


class TrialCondition(Answer):
    """A condition of a trial: its text, the figure at the last look, and for how long it has been true."""

    text: str
    reading: float | None = None
    held_s: float = 0.0


class Trial(PresetInForce):
    """A preset on trial, or the last one that was: what it ends by, and what was seen before and during it."""

    back_to: str = Field(description="The preset that was in force before.")
    end: str | None = Field(default=None, description="null: it goes on; else kept, reverted or overtaken.")
    why: str = ""
    left_s: float | None = Field(default=None, description="Seconds until it ends by itself; null: it has ended.")
    revert_after_s: float | None = None
    conditions: list[TrialCondition] = []
    before: ServedByClass | None = Field(default=None, description="The last minute before the switch.")
    now: ServedByClass | None = Field(
        default=None, description="The last seconds, of what arrived since; null: no request can be served now."
    )


class TrialReport(Answer):
    """The trial that goes on, or the last one; null before the first."""

    trial: Trial | None = None


class Switched(PresetInForce):
    """The result of a switch. The revision is the old one where the preset was in force already."""

    previous: str
    changes: list[SettingChange]
    engine_limit_confirmed: bool = Field(default=True, description="Whether the engine has confirmed its new limit.")
    warnings: list[str] = Field(default=[], description="Settings that probably do not do what their author expects.")
    trial: Trial | None = Field(default=None, description="The trial that the switch began.")


# ---------------------------------------------------------------------- fallback and recycle


class FallbackModel(Answer):
    """The other model that may answer, and the state of its circuit breaker: closed, open or half_open.

    In the place of a model may be a ``fixed reply``.
    """

    model: str
    breaker: str
    in_flight: int


class FallbackMove(Answer):
    """One move of the fallback ladder."""

    time: str
    before: str
    after: str
    trigger: str


class FallbackState(Answer):
    """The fallback ladder."""

    rung: str
    ordered: str | None = Field(default=None, description="The rung an operator has ordered; null: it is automatic.")
    trigger: str | None = Field(default=None, description="The trigger of the last move.")
    in_force: list[str] = Field(default=[], description="The rungs in force, the mildest first.")
    usable: list[str] = Field(default=[], description="The rungs that would change something under this preset.")
    fallback_model: FallbackModel | None = None
    moves: list[FallbackMove] = Field(default=[], description="The last moves, the newest first.")


class RecycleAccepted(Answer):
    """A recycle has begun; the engine is replaced when its seats are free, and the new one is up if memory allows."""

    accepted: bool
    seats_taken: int


# ---------------------------------------------------------------------- pause, resume, drain, warm-up


class AdmissionChanged(Answer):
    """The state of admission after an order, and what the order did to the requests that were here."""

    state: str = Field(description="open, paused or draining")
    holds: list[str] = Field(description="The causes for which nothing is dispatched; a resume ends the operator's.")
    running: int = Field(description="Requests that the engine has now: they finish.")
    waiting: int = Field(description="Requests that wait now: bounded, and their time-outs go on.")
    dispatched: int = Field(default=0, description="Waiting requests that the order has sent to the engine at once.")
    refused: int = Field(default=0, description="Waiting requests that the order has refused, with Retry-After.")


class WarmupAccepted(Answer):
    """A warm-up has begun beside the traffic; its end is in the audit log, its figures in the status."""

    accepted: bool
    batch_size: int = Field(description="The seats that were free: its largest batch.")
    running: int = Field(description="Requests that the engine has now: their tokens come more slowly meanwhile.")
    waiting: int = Field(description="Requests that wait now; they are dispatched as before.")


# ---------------------------------------------------------------------- audit, probes, problems


class AuditKind(StrEnum):
    """What an entry of the audit log is about."""

    CHANGE = "change"  # what was changed, or failed to be
    NOOP = "noop"  # an order that was carried out and changed nothing, or was a repetition
    REFUSED = "refused"  # a refused order
    READ = "read"  # a refused read


class AuditEntry(Answer):
    """One change, or one attempt that changed nothing.

    ``times`` counts the same attempt, whose last one was at ``time``.
    """

    time: str
    actor: str
    role: str
    address: str
    action: str
    before: str
    after: str
    revision: int
    reason: str
    result: str
    times: int = Field(default=1, description="How often the same attempt was made.")


class AuditLog(Answer):
    """The audit log, the newest entry first."""

    entries: list[AuditEntry]


class Liveness(Answer):
    """The process is alive."""

    alive: bool


class Readiness(Answer):
    """Whether the server takes traffic, and if not, why."""

    ready: bool
    reasons: list[str]


class ProblemError(Answer):
    """One error of a body: the key, the message, and the wrong value where it may be repeated."""

    where: str
    message: str
    value: str | None = None


class Problem(Answer):
    """Problem details (RFC 9457); ``errors`` is present only where there are some."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=False)

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[ProblemError] | None = None


# ---------------------------------------------------------------------- orders


class Order(BaseModel):
    """The body of every order. ``actor`` stands in the audit log beside the role of the token."""

    model_config = ConfigDict(extra="forbid", strict=True)

    reason: str = Field(default="", max_length=400)
    actor: str = Field(default="", max_length=80)


class SwitchOrder(Order):
    """Put this preset in force, for good or on trial.

    With ``revert_after_s`` the server itself goes back after so long, unless the trial is kept; with ``revert_if`` as
    soon as one of these conditions has held, such as "realtime.ttft_p95_s > 2 for 30 s".
    """

    name: str = Field(min_length=1, max_length=60)
    revert_after_s: float | None = Field(default=None, ge=1, le=86_400)
    revert_if: list[str] | None = Field(default=None, max_length=10)


class UndoOrder(Order):
    """Put the settings of an earlier revision in force again; null: of the one before."""

    revision: int | None = Field(default=None, ge=1, le=10**15)


class ForecastOrder(Order):
    """Forecast these presets, all of them where none is named, or one that is saved nowhere, as TOML."""

    presets: list[str] | None = Field(default=None, min_length=1, max_length=100)
    toml: str | None = Field(default=None, min_length=1, max_length=12_000)
    within_s: float = Field(default=60.0, ge=1, le=600, description="What is ready by then is answered.")
    span_s: float = Field(default=600.0, ge=10, le=1800, description="How much of the recent traffic is replayed.")


class LimitOrder(Order):
    """Put the preset in force on a fixed number of seats; null puts it back.

    ``expires_s`` bounds how long it holds: afterwards the server itself goes back to what was in force before. Without
    it the order holds until the next switch, or a restart.
    """

    seats: int | None = Field(ge=1, le=65_536)
    window_ms: float | None = Field(default=None, ge=0, le=60_000)
    expires_s: float | None = Field(default=None, gt=0, le=3600)


class FallbackOrder(Order):
    """Put the fallback ladder on this rung; null makes it automatic again."""

    rung: str | None = Field(max_length=40)
