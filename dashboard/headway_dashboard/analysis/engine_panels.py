"""The catalogue's other half: the engine, its limit, its memory, the fallback ladder, and the server itself.

Counters of rare events are drawn as they stand, not as rates: three restarts since the start are three, not 0.01 a
second.
"""

from __future__ import annotations

from dataclasses import replace

from headway_dashboard.analysis import palette, panels
from headway_dashboard.analysis.expressions import Gauge, Metric, Quantile, Rate
from headway_dashboard.analysis.panels import Line, Panel
from headway_policies.fallback import Rung


def _plain(name: str, *by: str) -> Metric:
    return Metric(name, by=by)


DEATHS_BY_CAUSE = Gauge(_plain("headway_engine_deaths_total", "cause"))
SILENCES = Gauge(_plain("headway_engine_hangs_total"))
REPLAYS = Gauge(_plain("headway_retries_total"))
REPLAYS_BY_CLASS = Gauge(_plain("headway_retries_total", "class"))
ENGINE_RUNNING = Gauge(_plain("headway_engine_running"))
ENGINE_WAITING = Gauge(_plain("headway_engine_waiting"))
RECYCLES = Gauge(_plain("headway_recycles_total"))
WARMUP_S = Gauge(_plain("headway_warmup_duration_seconds", "stage"), largest=True)
RUNG_STEPS = Gauge(_plain("headway_fallback_steps_total", "rung", "trigger"))
DEGRADED_BY_KIND = Rate(_plain("headway_degraded_total", "kind"))
QUEUE_TOKENS = Gauge(_plain("headway_queue_tokens"))
QUEUE_BYTES = Gauge(_plain("headway_queue_bytes"))
PROPOSED = Gauge(Metric("headway_limit", (("kind", ("proposed",)),)), largest=True)
WINDOW = Gauge(_plain("headway_batch_window_seconds"), largest=True)
PREDICTION_ERROR = Gauge(_plain("headway_prediction_error_ratio", "of"), largest=True)
PREDICTION_SAMPLES = Gauge(_plain("headway_prediction_samples", "of"))
MEMORY_CAP = Gauge(_plain("headway_memory_cap_ratio"), largest=True)
CACHE_CLEARS = Gauge(_plain("headway_cache_clears_total", "cache"))
GC_PAUSE_P99 = Quantile(0.99, _plain("headway_gc_pause_seconds", "generation"))

RESIDENT_PANEL = replace(
    panels.CPU_PANEL,
    id="resident",
    title="Memory of the server's processes",
    help="Resident memory of the API server and of the engine's processes on the host, without what is on a GPU.",
    caption="Both settle after warm-up. A line that climbs for hours is a leak.",
)
RUNG_PANEL = Panel(
    "rung",
    "Fallback ladder",
    "The rung the ladder stands on: normal takes nothing from anybody; each further rung takes more, but only "
    "from the classes whose preset allows it.",
    "count",
    (Line("rung", panels.RUNG, palette.ORANGE, kind="step"),),
    "Short climbs under a peak are what it is for. If it stays up, the traffic needs more seats or more servers.",
    steps=tuple(rung.word for rung in Rung),
)
DEGRADED_PANEL = Panel(
    "degraded",
    "What requests lost to the ladder",
    "Requests a second that got less than they asked for, by what they had to do without.",
    "per_s",
    (
        Line(
            "", DEGRADED_BY_KIND, kind="bar",
            words=palette.words_of(palette.LOSSES), colours=palette.colour_of(palette.LOSSES),
        ),
    ),
    "A shorter answer is still an answer. Refused: the class was shed, and its clients were told when to come back.",
    quiet="no request lost anything in this time",
)  # fmt: skip
OLDEST_PANEL = Panel(
    "oldest",
    "Longest wait by class",
    "How long the request that waits longest in each class has waited.",
    "seconds",
    (Line("", panels.OLDEST_BY_CLASS, colours=palette.of_class),),
    "The queue's age sets the ladder in motion where the preset says so. One class far above the others is starving.",
    quiet="nobody waited in this time",
)
QUEUE_TOKENS_PANEL = Panel(
    "queue-tokens",
    "Prompt tokens that wait",
    "Tokens of the prompts in the queue, as far as known before they are counted.",
    "count",
    (Line("tokens", QUEUE_TOKENS, palette.PURPLE),),
    "A few requests with many tokens: long prompts hold the others up.",
    quiet="nobody waited in this time",
)
LIMIT_PANEL = Panel(
    "limit",
    "Limit: live, proposed, ceiling",
    "Seats allowed now, what the limit policy would set if it were let, and the most that any preset can get here.",
    "count",
    (
        Line("ceiling", panels.CEILING, palette.GREY, "dot", "step"),
        Line("proposed", PROPOSED, palette.PURPLE, "dot", "step"),
        Line("live", panels.LIMIT, palette.ORANGE, "dash", "step"),
        Line("seats taken", panels.SEATS, palette.BLUE),
    ),
    "Live below proposed: the preset only tries its policy out, or memory or a restart holds seats back for a while.",
)
WINDOW_PANEL = Panel(
    "window",
    "Batch window",
    "How long a batch may gather before it leaves. An adaptive window is shorter under load.",
    "seconds",
    (Line("window", WINDOW, palette.GREEN, kind="step"),),
    "Everybody in a batch waits for its window: it belongs to the time to first token.",
    quiet="no batch gathers: each request goes as soon as a seat is free",
)
PREDICTION_PANEL = Panel(
    "prediction",
    "Prediction error",
    "How far predictions are off on average, as a share of the mean of the truth, since the server started.",
    "ratio",
    (
        Line(
            "", PREDICTION_ERROR,
            words=palette.words_of(palette.PREDICTIONS), colours=palette.colour_of(palette.PREDICTIONS),
        ),
    ),
    "Requests are refused early when their predicted wait is too long. Far above 100 %, such refusals are guesswork.",
    quiet="nothing was predicted yet",
)  # fmt: skip
CAP_PANEL = Panel(
    "cap",
    "Seats left by the memory rules",
    "Share of the limit that may be used. It falls while the KV cache or a GPU is near full, and comes back slowly.",
    "ratio",
    (Line("share of the limit", MEMORY_CAP, palette.ORANGE, kind="step"),),
    "100 %: memory holds nobody back.",
    ceiling=1.0,
)
QUEUE_BYTES_PANEL = Panel(
    "queue-bytes",
    "Memory held by the queue",
    "Bytes of the requests that wait for a seat.",
    "bytes",
    (Line("bytes", QUEUE_BYTES, palette.BLUE),),
    "Bounded by the preset: beyond it newcomers are refused.",
    quiet="nobody waited in this time",
)
CLEARS_PANEL = Panel(
    "clears",
    "Caches cleared",
    "How often each cache was cleared since the server started.",
    "count",
    (
        Line(
            "", CACHE_CLEARS, kind="bar",
            words=palette.words_of(palette.CACHES), colours=palette.colour_of(palette.CACHES),
        ),
    ),
    "Clearing costs whoever comes next. Often: the memory is too small for this traffic.",
    quiet="no cache was cleared since the server started",
)  # fmt: skip
GC_PANEL = Panel(
    "gc",
    "Pauses by Python's collector (p99)",
    "How long the collector stopped the server: 99 of 100 pauses were shorter, by what it looked through.",
    "seconds",
    (
        Line(
            "", GC_PAUSE_P99,
            words=palette.words_of(palette.GENERATIONS), colours=palette.colour_of(palette.GENERATIONS),
        ),
    ),
    "Every token of every stream waits meanwhile. Above 100 ms: look at the server's own memory.",
    idle="the collector did not run in this time",
)  # fmt: skip
STANDING_PANEL = Panel(
    "standing",
    "How the engine stands",
    "Up: it serves. Silent: no sign of life, nobody is sent to it. Restarting: another one is being started. "
    "Lost: nobody is admitted.",
    "count",
    (
        Line(
            "", panels.STANDING, kind="state",
            words=palette.words_of(palette.STANDINGS), colours=palette.colour_of(palette.STANDINGS),
        ),
    ),
    "While it is silent or restarting, requests wait in the queue, within their time limits.",
    quiet="the engine's standing was not known in this time",
)  # fmt: skip
DEATHS_PANEL = Panel(
    "deaths",
    "Engine deaths and hangs",
    "How many engines died or were ended since the server started, by cause, and how often one fell silent.",
    "count",
    (
        Line(
            "", DEATHS_BY_CAUSE, kind="bar",
            words=palette.words_of(palette.DEATHS), colours=palette.colour_of(palette.DEATHS),
        ),
        Line("hangs", SILENCES, palette.GOLD, "dot", "step"),
    ),
    "A crash takes its requests with it; those that had shown nothing yet go again.",
    quiet="the engine has neither died nor been silent since the server started",
)  # fmt: skip
REPLAYS_PANEL = Panel(
    "retries",
    "Requests that went again",
    "How many requests went to another engine after theirs had died, since the server started.",
    "count",
    (Line("", REPLAYS_BY_CLASS, kind="bar", colours=palette.of_class),),
    "Their clients saw nothing but a longer wait.",
    quiet="no request had to go again since the server started",
)
REQUESTS_PAGE = (RUNG_PANEL, DEGRADED_PANEL, OLDEST_PANEL, QUEUE_TOKENS_PANEL)
LIMIT_SECTION = (LIMIT_PANEL, panels.BATCH_PANEL, WINDOW_PANEL, PREDICTION_PANEL)
MEMORY_SECTION = (panels.KV_PANEL, CAP_PANEL, QUEUE_BYTES_PANEL, CLEARS_PANEL, GC_PANEL)
ENGINE_PANEL = Panel(
    "engine",
    "Inside the engine",
    "Sequences that ran, and that waited inside the engine, in its last step.",
    "count",
    (
        Line("running", ENGINE_RUNNING, palette.BLUE),
        Line("waiting inside", ENGINE_WAITING, palette.ORANGE, "dash"),
    ),
    "Requests wait at the gate, not in there: many inside point to a KV cache that is too small.",
)
SERVER_PAGE = (STANDING_PANEL, DEATHS_PANEL, REPLAYS_PANEL, ENGINE_PANEL)
SERVER_FIGURES = (SILENCES, REPLAYS, RECYCLES, WARMUP_S)
PANELS = (RESIDENT_PANEL, *REQUESTS_PAGE, *LIMIT_SECTION, *MEMORY_SECTION, *SERVER_PAGE)
