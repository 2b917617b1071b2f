"""The panels of time: first token, time between tokens, whole requests, and the phases of a request."""

from __future__ import annotations

from headway_dashboard.analysis.catalogue import palette, panels
from headway_dashboard.analysis.catalogue.panels import Across, Line, Panel, class_lines, quantile_lines
from headway_dashboard.analysis.queries.durations import Measured, histogram, quantiles
from headway_dashboard.analysis.queries.expressions import Buckets, Mean, Metric, Rate, Share, Sum

INTER_TOKEN = quantiles("inter_token")
INTER_TOKEN_BY_CLASS = quantiles("inter_token", "class")
END_TO_END = quantiles("end_to_end")
MEAN_WAIT, MEAN_PREFILL, MEAN_DECODE = (
    Mean(Metric(name)) for name in ("headway_queue_wait_seconds", "headway_prefill_seconds", "headway_decode_seconds")
)
_WAITED, _COMPUTED = (
    Rate(Metric(f"headway_{phase}_seconds_sum", by=("class",))) for phase in ("queue_wait", "prefill")
)
#: Of the seconds before first tokens, those in the queue. Both parts are sums: the share is never above the whole.
QUEUE_SHARE = Share(_WAITED, Sum(_WAITED, _COMPUTED))
#: The engine's own: a request's mean is known at its end only, and is no figure of an instant.
TOKEN_TIME = Mean(Metric("vllm:inter_token_latency_seconds"))


def _heat(id_: str, title: str, of: Measured, caption: str, idle: str) -> Panel:
    return Panel(
        id_,
        title,
        "How many fell into each bucket of the histogram. A row counts what is above the bound of the row below and at "
        "most its own; a blank cell counts none.",
        "seconds",
        (Line("", Buckets(histogram(of)), kind="heat"),),
        caption,
        idle=idle,
        quiet=idle,
    )


FIRST_TOKEN_PANEL = Panel(
    "latency-first-token",
    "Time to first token",
    "From arrival to the first token, waiting in the queue included: p95 and p50 of each class, and its objective. No "
    "quantile is above the longest time that was seen.",
    "seconds",
    class_lines("first_token", panels.TTFT_BY_CLASS[0.95], panels.TTFT_BY_CLASS[0.5]),
    panels.TTFT_PANEL.caption,
    idle="no first tokens in this time",
)
INTER_TOKEN_PANEL = Panel(
    "latency-inter-token",
    "Time between tokens",
    "The mean time between two tokens of each completed request, observed at its end: p95 and p50 of each class, and "
    "its objective.",
    "seconds",
    class_lines("inter_token", INTER_TOKEN_BY_CLASS[0.95], INTER_TOKEN_BY_CLASS[0.5]),
    "A larger batch makes this time longer. Fewer seats make it shorter, and the queue longer.",
    idle="no request of two or more tokens completed in this time",
)
END_TO_END_PANEL = Panel(
    "latency-end-to-end",
    "Time of whole requests",
    "From arrival to the last token, of completed requests.",
    "seconds",
    quantile_lines(END_TO_END),
    "Long answers take long: compare it with the phases beside it before you change anything.",
    idle="no request completed in this time",
)
PHASES_PANEL = Panel(
    "latency-phases",
    "Where the time goes",
    "Mean seconds of a request in each phase, stacked: in the queue, from dispatch to the first token (prefill), and "
    "from there to the end (decode).",
    "seconds",
    (
        Line("queue", MEAN_WAIT, palette.ORANGE, kind="bar"),
        Line("prefill", MEAN_PREFILL, palette.PURPLE, kind="bar"),
        Line("decode", MEAN_DECODE, palette.BLUE, kind="bar"),
    ),
    "Queue: more seats or servers. Prefill: long prompts. Decode: long answers, or a large batch.",
    idle="no request was dispatched or ended in this time",
)
PREFILL_PANEL = Panel(
    "latency-prefill",
    "Prefill",
    "From dispatch to the first token.",
    "seconds",
    quantile_lines(quantiles("prefill")),
    "Long prompts and a large batch make this time longer. A late first token with a short prefill waited in the "
    "queue.",
    idle="no first tokens in this time",
)
DECODE_PANEL = Panel(
    "latency-decode",
    "Decode",
    "From the first token to the last one, of completed requests.",
    "seconds",
    quantile_lines(quantiles("decode")),
    "The length of the answer times the time between its tokens: p99 far above p50 is mostly a few long answers.",
    idle="no request completed in this time",
)
QUEUE_SHARE_PANEL = Panel(
    "latency-queue-share",
    "Queue's share of the first token",
    "Of the time in the queue and from dispatch to the first token, the part in the queue.",
    "ratio",
    (Line("", QUEUE_SHARE, colours=palette.of_class),),
    "Near 0: the engine decides the first token. Above half: the queue does, so seats or servers help.",
    idle="no first tokens in this time",
)
FIRST_TOKEN_HEAT = _heat(
    "heat-first-token",
    "First tokens by bucket",
    "first_token",
    "Two bands: some requests wait and others do not. One rising band: all wait longer.",
    "no first tokens in this time",
)
INTER_TOKEN_HEAT = _heat(
    "heat-inter-token",
    "Time between tokens by bucket",
    "inter_token",
    "A band that widens: requests run in batches of very different sizes, or are preempted.",
    "no request of two or more tokens completed in this time",
)
TOKEN_TIME_PANEL = Panel(
    "latency-token-time",
    "Time per token against the batch",
    "A dot for each instant: the mean time between two tokens in the engine, over the mean sequences in a step. The "
    "darkest dot is the newest.",
    "seconds",
    (Line("mean time between tokens", TOKEN_TIME, palette.BLUE, kind="dots"),),
    "Nearly level: more seats cost little. Steep: each further seat makes every request slower.",
    idle="no tokens in this time",
    across=Across(panels.BATCH, "mean batch"),
)
LATENCY_SECTION = (
    FIRST_TOKEN_PANEL,
    INTER_TOKEN_PANEL,
    END_TO_END_PANEL,
    PHASES_PANEL,
    PREFILL_PANEL,
    DECODE_PANEL,
    QUEUE_SHARE_PANEL,
    TOKEN_TIME_PANEL,
    FIRST_TOKEN_HEAT,
    INTER_TOKEN_HEAT,
)
