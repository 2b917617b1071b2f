"""The catalogue's other half: the engine, its limit, its memory, the fallback ladder, and the server itself.

Counters of rare events are drawn as they stand, not as rates: three restarts since the start are three, not 0.01 a
second.
"""

from __future__ import annotations

from dataclasses import replace

from headway_dashboard.analysis.catalogue import palette, panels
from headway_dashboard.analysis.catalogue.panels import Line, Panel, lines_of, of
from headway_dashboard.analysis.queries.expressions import Gauge, Metric, Quantile, Rate
from headway_policies.fallback import Rung

DEATHS_BY_CAUSE = Gauge(of("headway_engine_deaths_total", "cause"))
HANGS = Gauge(of("headway_engine_hangs_total"))
RETRIES = Gauge(of("headway_retries_total"))
RETRIES_BY_CLASS = Gauge(of("headway_retries_total", "class"))
ENGINE_RUNNING = Gauge(of("headway_engine_running"))
ENGINE_WAITING = Gauge(of("headway_engine_waiting"))
RECYCLES = Gauge(of("headway_recycles_total"))
WARMUP_S = Gauge(of("headway_warmup_duration_seconds", "stage"), largest=True)
RUNG_STEPS = Gauge(of("headway_fallback_steps_total", "rung", "trigger"))
DEGRADED_BY_KIND = Rate(of("headway_degraded_total", "kind"))
QUEUE_TOKENS = Gauge(of("headway_queue_tokens"))
QUEUE_BYTES = Gauge(of("headway_queue_bytes"))
PROPOSED = Gauge(Metric("headway_limit", (("kind", ("proposed",)),)))
WINDOW = Gauge(of("headway_batch_window_seconds"), largest=True)
PREDICTION_ERROR = Gauge(of("headway_prediction_error_ratio", "of"), largest=True)
FORECAST_ERROR = Gauge(of("headway_forecast_error_ratio", "figure"), largest=True)
PREDICTION_SAMPLES = Gauge(of("headway_prediction_samples", "of"))
MEMORY_CAP = Gauge(of("headway_memory_cap_ratio"), least=True)
CACHE_CLEARS = Gauge(of("headway_cache_clears_total", "cache"))
GC_PAUSE_P99 = Quantile(
    0.99, of("headway_gc_pause_seconds", "generation"), of("headway_gc_longest_pause_seconds", "generation")
)

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
    "The current rung. At normal no request is degraded; each further rung degrades more, but only in the classes "
    "whose preset allows it.",
    "count",
    (Line("rung", panels.RUNG, palette.ORANGE, kind="step"),),
    "A short rise at a traffic peak is normal. If it stays up, the traffic needs more seats or more servers.",
    steps=tuple(rung.word for rung in Rung),
)
DEGRADED_PANEL = Panel(
    "degraded",
    "Requests degraded by the ladder",
    "Requests a second that the ladder degraded, by kind.",
    "per_s",
    (lines_of(DEGRADED_BY_KIND, palette.LOSSES, "bar"),),
    "Shortened: to the fallback_max_tokens of the class. Refused: the class was shed, and its clients got Retry-After.",
    quiet="no request was degraded in this time",
)
OLDEST_PANEL = Panel(
    "oldest",
    "Longest wait by class",
    "How long the request that waits longest in each class has waited, and the longest time that it may.",
    "seconds",
    (
        panels.line_of_class(panels.OLDEST_BY_CLASS, "{}"),
        replace(
            panels.line_of_class(panels.QUEUE_TIMEOUT_BY_CLASS, "time-out of {}", "dash"), kind="step", reference=True
        ),
    ),
    "The queue's age triggers the ladder where the preset says so. One class far above the others is starving.",
    quiet="no request waited in this time",
)
QUEUE_TOKENS_PANEL = Panel(
    "queue-tokens",
    "Prompt tokens in the queue",
    "Tokens of the prompts in the queue; an estimate where the prompt is not tokenised yet.",
    "count",
    (Line("tokens", QUEUE_TOKENS, palette.PURPLE),),
    "A few requests with many tokens: long prompts delay the others.",
    quiet="no request waited in this time",
)
LIMIT_PANEL = Panel(
    "limit",
    "Limit: live, proposed, ceiling",
    "Seats allowed now, seats proposed by the limit policy, and the most that any preset can reach here.",
    "count",
    (
        Line("ceiling", panels.CEILING, palette.GREY, "dot", "step", reference=True),
        Line("proposed", PROPOSED, palette.PURPLE, "dot", "step"),
        Line("live", panels.LIMIT, palette.ORANGE, "dash", "step"),
        Line("seats taken", panels.SEATS, palette.BLUE),
    ),
    "Live below proposed: shadow mode, or memory or a restart blocks seats for a while.",
)
WINDOW_PANEL = Panel(
    "window",
    "Batch window",
    "How long a batch may gather before it leaves. An adaptive window is shorter under load, and 0 when idle.",
    "seconds",
    (Line("window", WINDOW, palette.GREEN, kind="step"),),
    "Every request of a batch waits for the window, which is part of its time to first token.",
    quiet="no batch gathers: each request is dispatched as soon as a seat is free",
)
PREDICTION_PANEL = Panel(
    "prediction",
    "Prediction error",
    "Mean absolute error of the predictions, as a share of the mean outcome, since the server started.",
    "ratio",
    (lines_of(PREDICTION_ERROR, palette.PREDICTIONS),),
    "Requests are refused early when their predicted wait is too long. Far above 100 %, they are not reliable.",
    quiet="nothing was predicted yet",
)
FORECAST_PANEL = Panel(
    "forecast",
    "Forecast error",
    "Difference between the forecast for a preset and the figures after the switch to it: median of the last switches.",
    "ratio",
    (lines_of(FORECAST_ERROR, palette.FORECASTS),),
    "Traffic that changed after a switch counts as an error too. Far above 30 %, a forecast says little.",
    quiet="no switch was compared with its forecast yet",
)
CAP_PANEL = Panel(
    "cap",
    "Seats left by the memory rules",
    "Share of the limit that may be used: falls while the KV cache or a GPU is near full, and recovers slowly.",
    "ratio",
    (Line("share of the limit", MEMORY_CAP, palette.ORANGE, kind="step"),),
    "100 %: the memory rules close no seat.",
    ceiling=1.0,
)
QUEUE_BYTES_PANEL = Panel(
    "queue-bytes",
    "Memory used by the queue",
    "Bytes of the requests that wait for a seat.",
    "bytes",
    (Line("bytes", QUEUE_BYTES, palette.BLUE),),
    "Bounded by the preset: beyond it new requests are refused.",
    quiet="no request waited in this time",
)
CLEARS_PANEL = Panel(
    "clears",
    "Caches cleared",
    "How often each cache was cleared since the server started.",
    "count",
    (lines_of(CACHE_CLEARS, palette.CACHES, "bar"),),
    "The requests after a clear are slower. Frequent clears: the memory is too small for this traffic.",
    quiet="no cache was cleared since the server started",
)
GC_PANEL = Panel(
    "gc",
    "Garbage-collection pauses (p99)",
    "How long Python's collector stopped the server: 99 of 100 pauses were shorter, by generation.",
    "seconds",
    (lines_of(GC_PAUSE_P99, palette.GENERATIONS),),
    "No token is sent during a pause. Above 100 ms: check the memory of the API server.",
    idle="the collector did not run in this time",
)
ENGINE_STATE_PANEL = Panel(
    "engine-state",
    "Engine state",
    "Up: it serves. Silent: unresponsive, dispatch is suspended. Restarting: another one is being started. "
    "Lost: no request is admitted.",
    "count",
    (lines_of(panels.ENGINE_STATE, palette.ENGINE_STATES, "state"),),
    "While it is unresponsive or restarting, requests wait in the queue, within their time limits.",
    quiet="the engine's state was not known in this time",
)
DEATHS_PANEL = Panel(
    "deaths",
    "Engine deaths and hangs",
    "How many engines died or were ended since the server started, by cause, and how often one hung.",
    "count",
    (
        lines_of(DEATHS_BY_CAUSE, palette.DEATHS, "bar"),
        Line("hangs", HANGS, palette.GOLD, "dot", "step"),
    ),
    "A crash ends the running requests; requests without output so far are retried.",
    quiet="the engine has neither died nor hung since the server started",
)
RETRIES_PANEL = Panel(
    "retries",
    "Retried requests",
    "How many requests were retried on another engine after theirs had died, since the server started.",
    "count",
    (Line("", RETRIES_BY_CLASS, kind="bar", colours=palette.of_class),),
    "For their clients the wait was longer; nothing else changed.",
    quiet="no request was retried since the server started",
)
ENGINE_PANEL = Panel(
    "engine",
    "Inside the engine",
    "Sequences that ran, and that waited inside the engine, in its last step.",
    "count",
    (
        Line("running", ENGINE_RUNNING, palette.BLUE),
        Line("waiting inside", ENGINE_WAITING, palette.ORANGE, "dash"),
    ),
    "Requests wait in Headway's queue, not in the engine: many inside point to a KV cache that is too small.",
)
SERVER_PAGE = (ENGINE_STATE_PANEL, DEATHS_PANEL, RETRIES_PANEL, ENGINE_PANEL)
SERVER_FIGURES = (HANGS, RETRIES, RECYCLES, WARMUP_S)
