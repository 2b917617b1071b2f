"""The status of the server, and the dump of its desk."""

from __future__ import annotations

from typing import Any

from pydantic import Field, RootModel

from headway.api.schema.base import Answer, PresetInForce
from headway.api.schema.diagnosis import Diagnosis
from headway.api.schema.engine_status import EngineStatus, MemoryStatus, WarmupStatus
from headway.api.schema.results import Silence


class TrialEnds(Answer):
    """The preset that comes back, and when at the latest, unless the preset on trial is kept."""

    back_to: str
    left_s: float


class PresetStatus(PresetInForce):
    """The preset in force, and whether it is on trial."""

    trial: TrialEnds | None = Field(default=None, description="null: the preset stays until it is changed.")
    no_effect: list[str] = Field(default=[], description="Settings that cannot act on this server, and why.")


class OperatorLimit(Answer):
    """A limit that an operator has set in place of the preset's: seats, batch window, end, author and reason."""

    seats: int
    window_ms: float | None = Field(default=None, description="null: the window of the preset.")
    left_s: float | None = Field(default=None, description="Seconds until the limit ends; null: with the next switch.")
    actor: str = ""
    reason: str = ""


class LimitStatus(Answer):
    """The seat limit: in force, proposed by the limit policy, and the most that any preset can get."""

    live: int
    proposed: int = 0
    ceiling: int
    reason: str = Field(default="", description="The reason of the proposed limit: fixed, slo, kv, failed, ...")
    ordered: OperatorLimit | None = Field(default=None, description="null: the preset decides the limit.")
    kv_seats: int | None = Field(
        default=None,
        description="Sequences of `kv_seats_tokens` that fill the KV space but for its reserve; null: not known yet.",
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

    expected_ratio: float | None = Field(default=None, description="Share expected in the cache.")
    hit_ratio: float | None = Field(default=None, description="Share that the engine found in its cache.")
    room_ratio: float = Field(default=1.0, description="The part of the KV space that the model uses.")


class OrderingStatus(Answer):
    """The queueing order: between classes, and inside one class."""

    between: str = ""
    inside: str = ""
    error: str | None = Field(default=None, description="Why the order was disabled; null while it works.")
    prefix: PrefixStatus | None = Field(default=None, description='Only with `inside = "prefix"`.')


class ClassObjectives(Answer):
    """The objectives of a class as they are now on this engine; null where the class states none, or the engine is not
    measured yet."""

    ttft_s: float | None = Field(default=None, description="The longest time to the first token.")
    inter_token_s: float | None = Field(default=None, description="The longest time between tokens.")
    prompt_tokens: float = Field(
        default=0.0,
        description="The prompt length of these objectives: the recent mean; 0 before a request completed.",
    )
    ttft_stated: float | str | None = Field(
        default=None,
        description="As in the preset, in seconds; a text such as `8x` is a multiple of this engine's own.",
    )
    inter_token_stated: float | str | None = Field(
        default=None, description="As in the preset, in milliseconds; a text such as `2.5x 5..250` is a multiple."
    )
    follows_engine: bool = Field(default=False, description="Whether an objective changes with the engine.")
    kept_alone: bool = Field(
        default=True,
        description="Whether the engine keeps the objectives for a request alone; a missed one refuses nothing.",
    )
    words: str = Field(default="", description="Both objectives and their origin, in words.")
    missed_alone: list[str] = Field(
        default=[], description="The objectives that the engine misses for a request alone, in words."
    )


class ClassStatus(Answer):
    """A priority class: its queue, its running requests, and the outcomes of all that have ended."""

    name: str
    priority: int | None = Field(description="null for a class that the preset in force does not have")
    queued: int
    oldest_wait_s: float
    queue_timeout_s: float | None = Field(
        default=None, description="Longest time in the queue; null without a time-out, or without the class"
    )
    overloaded: bool = Field(default=False, description="Whether waits are cut to the objective of the class.")
    held_seats: int = Field(
        default=0, description="Seats reserved for the class against less urgent classes, taken or not."
    )
    in_flight: int
    arrived: int
    outcomes: dict[str, int]
    lowered: int = Field(
        default=0,
        description="Requests that asked for the class and got a less urgent one, for lack of a key that has it.",
    )
    objectives: ClassObjectives | None = Field(
        default=None, description="null for a class that the preset in force does not have"
    )


class PredictionStatus(Answer):
    """The quality of one prediction: the mean error as a share of the mean, and the number of samples."""

    samples: int
    error_ratio: float


class FallbackSummary(Answer):
    """The rung of the fallback ladder, and the trigger of its last move."""

    rung: str = ""
    trigger: str | None = None


class ForecastDifference(Answer):
    """A forecast figure of the preset in force that is far from the measured figure."""

    class_name: str = Field(default="", description="Empty: all classes together.")
    figure: str = Field(description="refused_ratio, timed_out_ratio, ttft_p95_s or tokens_per_s.")
    forecast: float
    measured: float


class ForecastCheck(Answer):
    """The last forecast of the preset in force against what is measured now."""

    preset: str
    measured_s: float = Field(description="Duration of the measurement up to now.")
    differs: list[ForecastDifference] = Field(default=[], description="Beyond the stated bounds; empty: they agree.")
    sentence: str = Field(default="", description="The differences in words; empty: they agree.")


class ForecastErrors(Answer):
    """The errors of the forecasts of presets: the median of |forecast - came| / came after the last switches."""

    comparisons: int = 0
    error_ratio: dict[str, float] = Field(default={}, description="By figure; empty before the first comparison.")
    in_force: ForecastCheck | None = Field(
        default=None, description="null: the preset in force was not forecast lately, or too little was measured."
    )


class OperatorStop(Answer):
    """A command that has stopped dispatch: paused or draining, since when, by whom, why, and its end."""

    state: str
    since: str
    for_s: float
    actor: str
    reason: str = ""
    left_s: float | None = Field(
        default=None, description="Seconds until the block ends by itself; null: a resume ends it."
    )


class LaunchStatus(Answer):
    """How the server was started: its arguments, and the variables of Headway that are set. Secrets are hidden."""

    arguments: list[str] = Field(default=[], description="The program comes first.")
    variables: dict[str, str] = Field(default={})


class LogWarning(Answer):
    """A warning or an error of the log, when it was written last, and how often."""

    time: str
    level: str
    logger: str
    message: str
    times: int = 1


class InstanceStatus(Answer):
    """A server behind a router."""

    name: str
    up: bool = Field(description="Whether the instance may get requests.")
    seats: int = Field(description="The sequences that may be sent there now.")
    running: int = Field(description="The sequences of this router there.")
    others: int = Field(default=0, description="The sequences of other clients there.")
    says_seats: bool = Field(
        default=True, description="Whether the seats are the limit that the instance itself reports."
    )
    maker: str = Field(default="", description="The maker of its server; empty: not known.")
    lacks: list[str] = Field(
        default=[], description="Facts that the instance does not report, and that are not known here."
    )


class BatchStatus(Answer):
    """A batch of the Batch API that has not ended, and its lines."""

    id: str
    tenant: str
    state: str = Field(description="validating, in_progress, finalizing or cancelling.")
    completed: int
    failed: int
    total: int
    expires: str = Field(description="The end of its window.")
    late: bool = Field(default=False, description="Whether the batch would miss its window at its pace.")
    left_s: float | None = Field(
        default=None, description="Time left at its pace; null before a hundredth of its window."
    )


class Status(Answer):
    """The state of the whole server."""

    version: str
    model: str
    diagnosis: Diagnosis | None = Field(default=None, description="null: the server is older than this field.")
    ready: bool
    reasons: list[str] = Field(description="Why the server is not ready.")
    state: str = Field(description="The state of admission: open, paused or draining, for example.")
    holds: list[str] = Field(
        default=[],
        description="The causes for which nothing is dispatched: operator, recycle, warmup, engine_paused, ...",
    )
    stopped: OperatorStop | None = Field(default=None, description="null: no command blocks dispatch.")
    silences: list[Silence] = Field(default=[], description="The alerts that an operator has silenced.")
    started_at: str = ""
    uptime_s: float
    preset: PresetStatus
    limit: LimitStatus
    ordering: OrderingStatus = OrderingStatus()
    scale_ratio: float = Field(default=0.0, description="The demand as a multiple of the live limit.")
    desired_instances: float = Field(
        default=0.0, description="Instances that the traffic needs: of a server its own part, of a router its fleet."
    )
    window_s: float = Field(default=0.0, description="How long a batch may gather now.")
    window_error: str | None = Field(default=None, description="Why a custom window was disabled; null while it works.")
    seats_taken: int
    queued: int
    queued_tokens: int = 0
    queued_bytes: int = 0
    in_flight: int
    classes: list[ClassStatus]
    prediction: dict[str, PredictionStatus] = Field(default={})
    forecast: ForecastErrors = ForecastErrors()
    fallback: FallbackSummary = FallbackSummary()
    warmup: WarmupStatus = WarmupStatus()
    memory: MemoryStatus = MemoryStatus()
    engine: EngineStatus = EngineStatus()
    instances: list[InstanceStatus] = Field(default=[], description="Of a router: the servers behind it.")
    batches: list[BatchStatus] = Field(
        default=[], description="At most 48 batches that have not ended: first the running ones, then the newest."
    )
    launch: LaunchStatus = LaunchStatus()
    warnings: list[LogWarning] = Field(
        default=[],
        description="The last warnings and errors of the log of this process, the newest first; none while "
        "HEADWAY_LOG_CONTENT lets the content of requests into the log.",
    )


class DeskDump(RootModel[dict[str, Any]]):
    """The queue and the running requests, by id and class: for debugging, without a fixed form."""
