"""Panels of the batch, its tokens and memory, and of the load of GPU and processor."""

from __future__ import annotations

from headway_dashboard.analysis.catalogue import engine_panels, palette, panels
from headway_dashboard.analysis.catalogue.panels import Across, Bound, Line, Panel, lines_of
from headway_dashboard.analysis.catalogue.thresholds import GPU_FULL_RATIO, GPU_IDLE_RATIO, PROCESSOR_RATIO
from headway_dashboard.analysis.queries.conditions import Least
from headway_dashboard.analysis.queries.expressions import Buckets, Either, Gauge, Metric, Rate, Share, Sum
from headway_dashboard.analysis.units import compact

_STEPS = Rate(Metric("headway_batch_size_count"))

PREFILL_TOKENS = Share(Rate(Metric("vllm:prompt_tokens_total")), _STEPS)
DECODE_TOKENS = Share(Rate(Metric("vllm:generation_tokens_total")), _STEPS)
_PLANNED = Rate(Metric("headway_planned_steps_total", (("kind", ("all",)),)))
_PLANNED_TIME = Rate(Metric("headway_planned_step_seconds_total", (("kind", ("all",)),)))
PLANNED_PROMPTS, PLANNED_DECODE, PLANNED_BUDGET = (
    Share(Rate(Metric("headway_planned_step_tokens_total", (("kind", (kind,)),))), _PLANNED)
    for kind in ("prompt", "decode", "budget")
)
PREFILL_SHARE, TARGET_SHARE = (
    Share(Rate(Metric("headway_planned_step_seconds_total", (("kind", (kind,)),))), _PLANNED_TIME)
    for kind in ("prefill", "target")
)
PREEMPTIONS = Rate(Metric("vllm:num_preemptions_total"))
PREFIX_HITS = Share(Rate(Metric("vllm:prefix_cache_hits_total")), Rate(Metric("vllm:prefix_cache_queries_total")))
GPU_BUSY = Gauge(Metric("headway_gpu_busy_ratio", by=("gpu",)), largest=True)
IN_USE = Either(
    Gauge(Metric("headway_gpu_memory_used_bytes")),
    Gauge(Metric("headway_process_resident_bytes", (("process", ("engine",)),))),
)
PROCESSOR_BUSY = Gauge(Metric("headway_processor_busy_ratio", by=("process",)), largest=True)

REQUEST_TOKENS = Share(
    Sum(Rate(Metric("headway_prompt_tokens_total")), Rate(Metric("headway_output_tokens_total"))),
    Rate(Metric("headway_outcomes_total")),
)

COMPONENTS_PANEL = Panel(
    "memory-components",
    "Memory of the engine",
    "Weights and KV cache, stacked, as the engine allocated them. The line is the memory in use on the GPUs, or "
    "without a GPU by the engine's processes: activations, compiled graphs and the runtime are above the stack.",
    "bytes",
    (
        lines_of(Gauge(Metric("headway_engine_memory_bytes", by=("component",))), palette.COMPONENTS, "bar"),
        Line("in use", IN_USE, palette.GREY, "dot", "step", reference=True),
    ),
    "The KV cache is allocated at the start; the chart of its use shows how full it is. A growing gap is a leak.",
)
BATCH_HEAT = Panel(
    "heat-batch",
    "Engine steps by batch size",
    "How many engine steps had so many sequences. A blank cell counts none.",
    "count",
    (Line("", Buckets(Metric("headway_batch_size")), kind="heat"),),
    "A mean hides it: half of the steps full and half nearly empty looks like a batch of middle size.",
    quiet="the engine made no steps in this time",
    idle="the engine made no steps in this time",
)
LENGTH_PANEL = Panel(
    "batch-length",
    "Batch size against the length of requests",
    "A dot for each instant: the mean sequences in an engine step, over the mean prompt and output tokens of the "
    "requests that ended. The darkest dot is the newest.",
    "count",
    (Line("mean batch", panels.BATCH, palette.BLUE, kind="dots"),),
    "Falling to the right: long sequences fill the KV cache, and fewer run at once. Level: the limit or the traffic "
    "decides.",
    idle="no request ended in this time",
    across=Across(REQUEST_TOKENS, "tokens of a request"),
)
TOKENS_PANEL = Panel(
    "step-tokens",
    "Tokens a step",
    "Mean prompt tokens (prefill) and output tokens (decode) in an engine step.",
    "count",
    (
        Line("prefill", PREFILL_TOKENS, palette.PURPLE, kind="bar"),
        Line("decode", DECODE_TOKENS, palette.BLUE, kind="bar"),
    ),
    "Mostly prefill: long prompts or short answers; each such step makes every running request wait.",
    idle="the engine made no steps in this time",
)
_NO_PLAN = "no step was planned in this time: prefill_share is off, or no prompt came beside sequences that decode"
BUDGET_PANEL = Panel(
    "step-budget",
    "Steps beside prompts",
    "Mean prompt tokens and decoding sequences in a step that the step policy planned, and the most tokens that it "
    "allowed.",
    "count",
    (
        Line("prefill", PLANNED_PROMPTS, palette.PURPLE, kind="bar"),
        Line("decode", PLANNED_DECODE, palette.BLUE, kind="bar"),
        Line("budget", PLANNED_BUDGET, palette.GREY, "dash", "step", reference=True),
    ),
    "Bars at the budget: parts of prompts are postponed, so that running answers keep their pace.",
    idle=_NO_PLAN,
)
SHARE_PANEL = Panel(
    "prefill-share",
    "Prefill share",
    "Share of the time of planned steps spent on prompts, by the fitted costs, and the target of that share.",
    "ratio",
    (
        Line("prompts", PREFILL_SHARE, palette.PURPLE),
        Line("target", TARGET_SHARE, palette.GREY, "dash", "step", reference=True),
    ),
    "Above the target: prompts cost more than was measured. Below it: the last part of a prompt fills no step.",
    idle=_NO_PLAN,
    ceiling=1.0,
)
HELD_PANEL = Panel(
    "prompt-held",
    "Longest delay of a prompt",
    "Longest time in the engine of a prompt of which a part was postponed to a later step.",
    "seconds",
    (Line("postponed", Gauge(Metric("headway_prompt_held_seconds"), largest=True), palette.ORANGE),),
    "Longer than the objective of its class: a larger prefill_share, or another instance.",
    quiet="no prompt was postponed in this time",
    idle=_NO_PLAN,
)
PREEMPTIONS_PANEL = Panel(
    "preemptions",
    "Preemptions",
    "Sequences a second that the engine put back, because the KV cache was full; their work is done again.",
    "per_s",
    (Line("preempted", PREEMPTIONS, palette.RED, kind="bar"),),
    "Any that last: fewer seats, shorter contexts or more KV memory.",
    quiet="no sequence was preempted in this time",
)
PREFIX_PANEL = Panel(
    "prefix-hits",
    "Prefix-cache hits",
    "Of the prompt tokens that the engine looked up, those found in its prefix cache.",
    "ratio",
    (Line("found", PREFIX_HITS, palette.GREEN),),
    "Prompts with a common beginning come cheaper. Near 0 with such prompts: the cache is too small for them.",
    idle="no prompt was looked up in this time",
    ceiling=1.0,
)
GPU_BUSY_PANEL = Panel(
    "gpu-busy",
    "GPU utilisation",
    "Share of the time in which each GPU computed, as the driver reports it.",
    "ratio",
    (
        Line("", GPU_BUSY, words=lambda gpu: f"GPU {gpu}", colours=palette.of_gpu),
        Line(
            "",
            Least(GPU_BUSY, 60),
            dash="dot",
            words=lambda gpu: f"GPU {gpu}, least of a minute",
            colours=palette.of_gpu,
        ),
    ),
    f"Below {compact(100 * GPU_IDLE_RATIO)} % while requests wait: something else is the bottleneck. At 100 % with a "
    "backlog: overloaded. The least of a minute far below: the work comes in gusts.",
    ceiling=1.0,
    bounds=(Bound("idle below", GPU_IDLE_RATIO), Bound("overloaded above", GPU_FULL_RATIO)),
)
PROCESSOR_PANEL = Panel(
    "processor",
    "Processor use",
    "Processor time of the API server, of the engine and of the whole machine, as a share of all processors that the "
    "server may use.",
    "ratio",
    (lines_of(PROCESSOR_BUSY, palette.PROCESSORS),),
    "On a CPU the engine computes here. With a GPU, a busy processor beside an idle GPU is the bottleneck.",
    ceiling=1.0,
    bounds=(Bound("saturated", PROCESSOR_RATIO),),
)
BATCH_SECTION = (
    engine_panels.LIMIT_PANEL,
    panels.BATCH_PANEL,
    BATCH_HEAT,
    LENGTH_PANEL,
    TOKENS_PANEL,
    BUDGET_PANEL,
    SHARE_PANEL,
    HELD_PANEL,
    engine_panels.WINDOW_PANEL,
    engine_panels.PREDICTION_PANEL,
    engine_panels.FORECAST_PANEL,
)
MEMORY_SECTION = (
    COMPONENTS_PANEL,
    PROCESSOR_PANEL,
    panels.KV_PANEL,
    PREEMPTIONS_PANEL,
    PREFIX_PANEL,
    engine_panels.CAP_PANEL,
    engine_panels.QUEUE_BYTES_PANEL,
    engine_panels.CLEARS_PANEL,
    engine_panels.GC_PANEL,
)
