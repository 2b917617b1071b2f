"""The misses of each benchmark that are accepted: goal and figure, with the reason.

With ``--strict`` a miss that is not listed here fails the run.
"""

from __future__ import annotations

from collections.abc import Mapping

Accepted = Mapping[tuple[str, str], str]

_RECOVERY = "after a preemption the limit stays low for a while"

#: Where every miss fails a strict run.
NONE: Accepted = {}

POLICIES: Accepted = {
    ("G6, N6", "KV of 3200 tokens: tokens/s, memory-aware : 256 seats"): (
        "the best of many fixed limits, chosen afterwards, misses it as well"
    ),
    ("G6", "KV of 12800 tokens: tokens/s, memory-aware : best of 32/64/256"): _RECOVERY,
    ("G7", "the same in a server: usage learnt, metrics, recorder"): (
        "learning from the usage, the metrics and the recorder are in it"
    ),
    ("G7", "CPU a refusal"): (
        "a ticket, a permit and an exception are a quarter of it; the rest updates the records: lifecycle, queue "
        "bounds, Retry-After, ledger"
    ),
    ("G8", "cancel with 1,000,000 waiting"): (
        "twice the cost with 1,000 waiting; the ticket leaves every record: queue bounds, order, tenant, deadline, "
        "ledger"
    ),
    **{
        ("N6", f"capacity within both objectives, Algorithm 2 : {others}"): (
            "where nine of ten requests keep both objectives 32 seats are seldom full: one seed has 0.72 of the "
            "ceiling with 32 and with 256 seats, 0.70 with Algorithm 2"
        )
        for others in ("256 seats", "best of 8/32/64")
    },
    ("G12", "mean end-to-end at load 0.5, adaptive window : best of 10/50/100/200 ms"): (
        "the best of the four fixed windows is chosen after the fact, for each load separately"
    ),
}

#: Of ``make bench-forecasts``.
FORECASTS: Accepted = {
    ("F", "tokens/s beside one forecast after another : without"): (
        "the engine fills both processors, so a forecast costs what it uses, a tenth of one of them"
    ),
}

_CHEAP = "what is preempted costs this small model a few steps to compute again, so a full cache loses little"

_BEGINNING = (
    "each block of 21 s begins with no answer in progress, and while all are short the limit admits too many: "
    "simulated, 153 of the 193 preemptions of 339 s come in the first 23 s, and over all of it they are 0.05 of those "
    "of 128 seats"
)
ENGINE: Accepted = {
    **{
        ("G6", f"real engine, KV of {kv_tokens} tokens: tokens/s, memory-aware : 128 seats"): _CHEAP
        for kv_tokens in (3200, 6400)
    },
    **{
        ("G6", f"real engine, KV of {kv_tokens} tokens: preemptions, memory-aware : 128 seats"): _BEGINNING
        for kv_tokens in (3200, 6400)
    },
}

_URGENT = (
    "a prompt of the mean length costs several steps of this processor: with nothing beside them not all of these "
    "requests keep both objectives either"
)
_BY_CHANCE = "its standard error is larger: where clients take turns, a step computes one prompt or several"
_FEW = "the ceiling of this processor is reached with few sequences, so a seat seldom comes free just in time"
_STEP = "a sequence more costs this processor much of a step, with or without Headway"
#: Of ``make bench``. They follow from the processor, or from a preset's given number, not from how it is served.
SERVING: Accepted = {
    ("N12", "64 at once : 1, tokens/s"): _STEP,
    ("N12", "64 at once : 1, time per token"): _STEP,
    **{
        ("G2", f"realtime offers 0.6 of the ceiling, within both objectives, at load {load:g}"): _URGENT
        for load in (1.5, 2.0, 3.0)
    },
    **{("G2", f"realtime requests within both objectives, at load {load:g}"): _URGENT for load in (2.0, 3.0)},
    **{
        ("G1", f"goodput, objectives stated, at load {load:g} : the fluid ceiling"): (
            "it is not reached on the model of this engine either, nor by a fixed number of seats, chosen afterwards"
        )
        for load in (2.0, 3.0)
    },
    **{
        ("G1", f"the same : vLLM's cap at its best, at load {load:g}"): (
            "more of the realtime requests keep both objectives than under the cap, which refuses all alike"
        )
        for load in (2.0, 3.0)
    },
    **{("G7", f"first token later, {clients} at once"): _BY_CHANCE for clients in (1, 16)},
    ("G10", "Jain's index over served : max-min share, real engine"): _FEW,
    ("G10", "tokens/s, fair : first come first served, real engine"): _FEW,
    **{
        ("N6", f"changing mix at load {load:g}, Algorithm 2 : best of 8/32/64, real engine"): (
            "its binary search settles more slowly than a phase of the mix lasts"
        )
        for load in (0.7, 1.5, 2.5)
    },
    **{
        ("G3", f"changing mix at load {load:g}, fitted limit : best of 8/32/64, real engine"): (
            "one of the three is near the best number for chat on this processor"
        )
        for load in (0.7, 1.5, 2.5)
    },
}

#: Of ``make bench-batching``. They follow from the processor, and from the time and the answers of this run.
BATCHING: Accepted = {
    ("N12", "64 at once : one at a time, tokens/s"): _STEP,
    ("N12", "the same, time per token"): _STEP,
    ("N3", "continuous : one at a time, tokens/s"): "64 at once, without Headway, do not reach it on this processor",
}

#: Of ``make bench ARGS="--only step"``.
STEP: Accepted = NONE

_NO_PACE = "a few hundredths, under `throughput`, which keeps no time between tokens: chance decides which requests do"

#: Of ``make bench-engines``: workload and kind of goal, with the figure down to which a miss is accepted, and why. For
#: a first token it is the figure up to which, for the order of two classes the most difference of their shares.
ENGINES: Mapping[tuple[str, str], tuple[float, str]] = {
    ("W1", "first token p99 "): (
        2.4,
        "close to the ceiling, prompts are held back for some steps so that streams keep their pace; tried: a deeper "
        "bucket (12 set points for 6) gives the p99 of the engine alone, and leaves realtime no more than that keeps",
    ),
    ("W1", "realtime "): (
        0.92,
        "where a dozen sequences are all that keeps the objectives, a seat comes free every half second, and one long "
        "prompt is a step of half a second: first tokens are late, and a short answer beside it misses its pace",
    ),
    ("W3", "first token p99 "): (
        1.25,
        "a prompt that takes as long as ten steps is computed in parts where sequences beside it have nothing to "
        "spare; tried: no parts, and parts only beyond what was spared (kept up to 16 steps: 24 cost goodput with long "
        "prompts)",
    ),
    ("W3", "realtime "): (
        0.88,
        "long prompts are computed in one step: short answers beside them miss their pace, whoever is served first",
    ),
    ("W2", "kept: "): (0.05, _NO_PACE),
    ("W3", "kept: "): (0.03, _NO_PACE),
    ("W3", "tokens "): (
        0.78,
        "phases with long prompts and with long answers are served in another proportion; tried: one cell played "
        "apart, with as much work in as much busy time as alone",
    ),
    ("W8", "realtime "): (0.95, "a long prompt is computed in one step: short answers beside it miss their pace"),
    ("W8", "tokens "): (
        0.87,
        "prompts wait in the queue, not in the engine, where a long one is computed alone; tried: a larger backlog, "
        "which turns the order of the classes round on two cores",
    ),
    ("W8", "first token p99 "): (1.15, "behind a long prompt the next ones wait in the queue, where urgent ones pass"),
    ("W8", "served: "): (
        0.05,
        "a prompt of ten seconds that meets another one reaches the time-out of a first token, which is shorter for "
        "realtime: two of 65 requests",
    ),
}
