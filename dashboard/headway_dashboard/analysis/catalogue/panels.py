"""The catalogue of tiles and charts: what each means, and the expression behind it.

Pages draw from this list and Prometheus is asked from this list, so a title, its help text and its query cannot drift
apart. Error share and causes are read from the same series (``causes``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from headway_dashboard.analysis.catalogue import causes, palette
from headway_dashboard.analysis.queries.durations import quantiles
from headway_dashboard.analysis.queries.expressions import (
    Either,
    Expression,
    Gauge,
    Mean,
    Metric,
    Peak,
    Quantile,
    Rate,
    Share,
    limited,
)
from headway_dashboard.analysis.units import Unit

#: Metrics that tell classes apart, so that a class filter can be applied to them.
BY_CLASS = frozenset(
    {
        "headway_arrivals_total",
        "headway_lowered_classes_total",
        "headway_outcomes_total",
        "headway_refusals_total",
        "headway_queue_depth",
        "headway_queue_oldest_wait_seconds",
        "headway_queue_timeout_seconds",
        "headway_overloaded",
        "headway_held_seats",
        "headway_in_flight",
        "headway_degraded_total",
        "headway_retries_total",
        "headway_time_to_first_token_seconds",
        "headway_time_to_first_token_seconds_sum",
        "headway_queue_wait_seconds",
        "headway_queue_wait_seconds_sum",
        "headway_batches_waited",
        "headway_inter_token_seconds",
        "headway_end_to_end_seconds",
        "headway_prefill_seconds",
        "headway_decode_seconds",
        "headway_output_tokens_total",
        "headway_finish_reasons_total",
        "headway_objective_judged_total",
        "headway_objective_met_total",
        "headway_objective_seconds",
    }
)

Kind = Literal["line", "step", "bar", "state", "heat", "dots"]
Dash = Literal["solid", "dash", "dot"]


@dataclass(frozen=True, slots=True)
class Line:
    """An expression of a chart: a single line, or one for each label value when it is kept apart by a label.

    A ``state`` is a band of colour for as long as its value is not 0, and a ``band`` the same in a row of its own.
    ``heat`` takes an expression of buckets, alone in its chart, and ``dots`` a chart with ``across``. A ``reference``
    is no measurement: alone it fills no chart, and one far above all measurements is named at the upper edge.
    """

    name: str
    expression: Expression
    colour: str = palette.BLUE
    dash: Dash = "solid"
    kind: Kind = "line"
    words: Callable[[str], str] | None = None
    colours: Callable[[str], str] | None = None
    reference: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """A constant that lines are compared with, drawn as a reference."""

    name: str
    value: float
    colour: str = palette.GREY


@dataclass(frozen=True, slots=True)
class Across:
    """The quantity on the horizontal axis in place of the time, with its title."""

    expression: Expression
    title: str


@dataclass(frozen=True, slots=True)
class Panel:
    """A chart.

    ``quiet`` is what it says when everything was measured and is zero; ``idle`` when there was nothing to measure.
    ``steps`` are the names of 0, 1, 2 and so on, where numbers stand for something.
    """

    id: str
    title: str
    help: str
    unit: Unit
    lines: tuple[Line, ...]
    caption: str = ""
    quiet: str = ""
    idle: str = ""
    ceiling: float | None = None
    steps: tuple[str, ...] = ()
    bounds: tuple[Bound, ...] = ()
    across: Across | None = None

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions that the chart reads."""
        lines = tuple(line.expression for line in self.lines)
        return lines if self.across is None else (*lines, self.across.expression)


@dataclass(frozen=True, slots=True)
class Tile:
    """A key figure."""

    id: str
    label: str
    help: str
    unit: Unit
    expression: Expression


def of(name: str, *by: str) -> Metric:
    """A metric, its lines kept apart by these labels."""
    return Metric(name, by=by)


def lines_of(expression: Expression, meanings: palette.Meanings, kind: Kind = "line") -> Line:
    """A line for each value of the label of an expression, in the words and the colours of its meanings."""
    return Line("", expression, kind=kind, words=palette.words_of(meanings), colours=palette.colour_of(meanings))


def quantile_lines(found: Mapping[float, Quantile]) -> tuple[Line, ...]:
    """p50, p95 and p99: in grey, for hues are of classes, and told apart by their dashes."""
    return (
        Line("p50", found[0.5], palette.GREY, "dot"),
        Line("p95", found[0.95], palette.GREY),
        Line("p99", found[0.99], palette.GREY, "dash"),
    )


def class_lines(
    objective: Literal["first_token", "inter_token"], p95: Quantile, p50: Quantile | None = None
) -> tuple[Line, ...]:
    """A p95 of each class, its p50 dotted, and its objective dashed; all in the colour of the class.

    A quantile over all classes would be that of no request: a patient class hides what an urgent one meets.
    """
    stated = Gauge(Metric("headway_objective_seconds", (("objective", (objective,)),), ("class",)), largest=True)
    median = () if p50 is None else (line_of_class(p50, "{} p50", "dot"),)
    goal = line_of_class(stated, "objective of {}", "dash")
    return (line_of_class(p95, "{} p95"), *median, replace(goal, kind="step", reference=True))


def line_of_class(expression: Expression, words: str, dash: Dash = "solid") -> Line:
    """A line of each class in its colour; ``words`` has braces for its name."""
    return Line("", expression, dash=dash, words=words.format, colours=palette.of_class)


ARRIVALS = Rate(of("headway_arrivals_total"))
TOKENS = Rate(of("vllm:generation_tokens_total"))
BATCH = Mean(of("headway_batch_size"))
SEATS = Gauge(of("headway_seats_taken"))
LIMIT = Gauge(Metric("headway_limit", (("kind", ("live",)),)))
CEILING = Gauge(Metric("headway_limit", (("kind", ("ceiling",)),)))
#: The seats of one server: what the mean batch of an engine is compared with, also where there are several.
LIMIT_OF_ONE = Gauge(LIMIT.of, largest=True)
CEILING_OF_ONE = Gauge(CEILING.of, largest=True)
QUEUED = Gauge(of("headway_queue_depth"))
QUEUED_BY_CLASS = Gauge(of("headway_queue_depth", "class"))
OLDEST = Gauge(of("headway_queue_oldest_wait_seconds"), largest=True)
OLDEST_BY_CLASS = Gauge(of("headway_queue_oldest_wait_seconds", "class"), largest=True)
QUEUE_TIMEOUT_BY_CLASS = Gauge(of("headway_queue_timeout_seconds", "class"), largest=True)
QUEUE_AGE_BY_CLASS = Share(OLDEST_BY_CLASS, QUEUE_TIMEOUT_BY_CLASS)
IN_FLIGHT = Gauge(of("headway_in_flight"))
IN_FLIGHT_BY_CLASS = Gauge(of("headway_in_flight", "class"))
OVERLOADED_BY_CLASS = Gauge(of("headway_overloaded", "class"), largest=True)
RESERVED_SEATS_BY_CLASS = Gauge(of("headway_held_seats", "class"))
ARRIVALS_BY_CLASS = Rate(of("headway_arrivals_total", "class"))
TTFT = quantiles("first_token")
TTFT_BY_CLASS, PREFILL_BY_CLASS, DECODE_BY_CLASS = (
    quantiles(phase, "class") for phase in ("first_token", "prefill", "decode")
)
TTFT_P95_BY_CLASS = TTFT_BY_CLASS[0.95]
INTER_TOKEN_P95_BY_CLASS = quantiles("inter_token", "class")[0.95]
BATCHES_WAITED_BY_CLASS = Quantile(0.95, of("headway_batches_waited", "class"))
#: Every request that ended, each once: by its reason where it was refused or given up, else by its outcome.
_ENDS = Metric("headway_refusals_total", also=("headway_outcomes_total",), without=(("outcome", causes.BY_REASON),))
_FAILED = replace(_ENDS, without=(("outcome", (*causes.BY_REASON, *causes.NOT_FAILED)),))
ERROR_SHARE = Share(Rate(_FAILED), Rate(_ENDS))
ERROR_SHARE_BY_CLASS = Share(Rate(replace(_FAILED, by=("class",))), Rate(replace(_ENDS, by=("class",))))
#: Of the same time: the requests that ended, and those of them that failed.
ENDED, FAILED = Rate(_ENDS, counted=True), Rate(_FAILED, counted=True)
ENDED_BY_CLASS, FAILED_BY_CLASS = (Rate(replace(metric, by=("class",)), counted=True) for metric in (_ENDS, _FAILED))
ERRORS_BY_CAUSE = Rate(replace(_FAILED, by=("reason", "outcome")))
ERRORS_BY_CLASS_AND_CAUSE = Rate(replace(_FAILED, by=("class", "reason", "outcome")))
KV_USE = Either(
    Gauge(of("headway_engine_kv_cache_usage_ratio"), largest=True),
    Gauge(of("vllm:kv_cache_usage_perc"), largest=True),
)
GPU_USED = Gauge(of("headway_gpu_memory_used_bytes"))
GPU_TOTAL = Gauge(of("headway_gpu_memory_total_bytes"))
RESIDENT = Gauge(of("headway_process_resident_bytes"))
READY = Gauge(of("headway_ready"), largest=True)
ENGINE_STATE = Gauge(of("headway_engine_state", "state"), largest=True)
#: All states since the instant before: marks stand for what held for less than a step, too.
ENGINE_STATES_SEEN = Peak(ENGINE_STATE.of)
DEATHS = Gauge(of("headway_engine_deaths_total"))
RUNG = Gauge(of("headway_fallback_rung"), largest=True)
PRESET = Gauge(of("headway_preset_info", "preset", "revision"), largest=True)
PRESETS_SEEN = Peak(PRESET.of)
BACKEND = Gauge(of("headway_build_info", "backend"), largest=True)

TILES = (
    Tile("requests", "Requests", "Arrivals a second, over the last 30 s or more.", "per_s", ARRIVALS),
    Tile("tokens", "Output tokens", "Tokens a second, over the last 30 s or more, all classes.", "per_s", TOKENS),
    Tile("batch", "Batch size", "Mean sequences in an engine step, and the live limit.", "count", BATCH),
    Tile("queue", "Waiting", "Requests that wait for a seat now.", "count", QUEUED),
    Tile("oldest", "Oldest wait", "How long the oldest request in the queue has waited.", "seconds", OLDEST),
    Tile("ttft", "TTFT p95", "95 of 100 first tokens came within this time, waiting included.", "seconds", TTFT[0.95]),
    Tile(
        "errors",
        "Error share",
        "Share of the ended requests that neither completed nor were cancelled by their client.",
        "ratio",
        ERROR_SHARE,
    ),
    Tile("memory", "Memory", "Resident memory of the server's processes.", "bytes", RESIDENT),
)

BATCH_PANEL = Panel(
    "batch",
    "Batch size against the limit",
    "Mean sequences in an engine step. The limit is what the preset in force allows; the ceiling was fixed at start.",
    "count",
    (
        Line("ceiling", CEILING_OF_ONE, palette.GREY, "dot", "step", reference=True),
        Line("limit", LIMIT_OF_ONE, palette.ORANGE, "dash", "step"),
        Line("batch", BATCH, palette.BLUE),
    ),
    "Far below the limit: little traffic, or too short a window. Always at it while TTFT rises: scale out.",
)
QUEUE_PANEL = Panel(
    "queue",
    "Waiting by class",
    "Requests that wait for a seat, stacked.",
    "count",
    (Line("", QUEUED_BY_CLASS, kind="bar", colours=palette.of_class),),
    "A short peak is normal. A queue that keeps growing needs more seats or more servers.",
    quiet="no request waited in this time",
)
TTFT_PANEL = Panel(
    "ttft",
    "Time to first token",
    "From arrival to the first token, waiting in the queue included: p95 of each class, and its objective. An "
    "objective far above the lines is named at the upper edge.",
    "seconds",
    class_lines("first_token", TTFT_BY_CLASS[0.95]),
    "One class rises: it waits, so look at the queue. All rise together: the batch is heavy, or the engine slow.",
    idle="no first tokens in this time",
)
ERROR_PANEL = Panel(
    "errors",
    "Errors by cause",
    "Requests a second that ended without an answer, by cause. Each is counted once: all causes together are the "
    "error share.",
    "per_s",
    (Line("", ERRORS_BY_CAUSE, kind="bar", words=causes.words, colours=causes.colour),),
    "Queue full, expected wait too long or timed out waiting: overload, and clients got Retry-After. "
    "Failed: read the log.",
    quiet="no errors in this time",
)
KV_PANEL = Panel(
    "kv",
    "KV cache in use",
    "Share of the engine's key-value cache that sequences occupy.",
    "ratio",
    (Line("in use", KV_USE, palette.PURPLE),),
    "Near 100 % the cache, not the limit, decides the batch: more seats will not help.",
    ceiling=1.0,
)
GPU_PANEL = Panel(
    "memory",
    "GPU memory",
    "Memory in use on each GPU, and its total memory, as the driver reports them.",
    "bytes",
    (
        Line("total", Gauge(of("headway_gpu_memory_total_bytes", "gpu")), palette.GREY, "dot", "step",
             words=lambda gpu: f"total, GPU {gpu}", colours=lambda gpu: palette.GREY),
        Line("used", Gauge(of("headway_gpu_memory_used_bytes", "gpu")), palette.GREEN,
             words=lambda gpu: f"used, GPU {gpu}", colours=palette.of_gpu),
    ),
    "vLLM takes its share at the start and keeps it: a flat line is healthy.",
)  # fmt: skip
CPU_PANEL = Panel(
    "memory",
    "Memory (CPU backend, no GPU)",
    "Resident memory of the server's processes. Weights and KV cache are in the engine's process.",
    "bytes",
    (
        lines_of(Gauge(of("headway_process_resident_bytes", "process")), palette.PROCESSES),
        Line(
            "limit of the machine or container", Gauge(of("headway_memory_limit_bytes")),
            palette.GREY, "dot", "step", reference=True,
        ),
    ),
    "The engine's part settles after warm-up. A line that climbs for hours is a leak.",
)  # fmt: skip
GPU_UNKNOWN_PANEL = replace(
    CPU_PANEL,
    title="Memory (no GPU figures: nvidia-ml-py is missing)",
    caption="Install the gpu extra beside the server to see the GPU's memory here.",
)

CLASS_TABLE = (
    QUEUED_BY_CLASS,
    OLDEST_BY_CLASS,
    IN_FLIGHT_BY_CLASS,
    ARRIVALS_BY_CLASS,
    *TTFT_BY_CLASS.values(),
    *PREFILL_BY_CLASS.values(),
    *DECODE_BY_CLASS.values(),
    BATCHES_WAITED_BY_CLASS,
    INTER_TOKEN_P95_BY_CLASS,
    ERROR_SHARE_BY_CLASS,
    ENDED_BY_CLASS,
    FAILED_BY_CLASS,
)
FACTS = (
    ARRIVALS, BATCH, SEATS, LIMIT, LIMIT_OF_ONE, CEILING, QUEUED, OLDEST, IN_FLIGHT, KV_USE, ERROR_SHARE, ENDED, READY,
    TTFT[0.95],
)  # fmt: skip
FACTS_BY_CLASS = (OVERLOADED_BY_CLASS, RESERVED_SEATS_BY_CLASS, ERRORS_BY_CLASS_AND_CAUSE)
ENGINE = (ENGINE_STATE, DEATHS)
HEAD = (ARRIVALS, QUEUED, IN_FLIGHT, READY, RUNG, PRESET, *ENGINE)
IDENTITY = (PRESET, BACKEND, GPU_USED, GPU_TOTAL, RESIDENT)


def for_classes(expression: Expression, classes: tuple[str, ...]) -> Expression:
    """The expression for these classes, where its metric knows classes; else unchanged."""
    return limited(expression, "class", classes) if expression.metric.name in BY_CLASS else expression
