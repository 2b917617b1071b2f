"""Which preset fits, and what would help this server now?

First the decision tree of the texts on batching (is latency what counts? is throughput? else the middle way), widened
by offline work and by a promised time between tokens. Then the reading guide of the same texts, applied to what a
running server has shown. A broken time between tokens beats load: more seats are never advised while it is broken.
Known weak spot: a few seconds of traffic are a sample; ask again under the load that matters.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway_policies.preset.toml_text import toml_text

_KV_FULL_RATIO = 0.9  # beyond it the engine soon preempts
_KV_FREE_RATIO = 0.7
_FAR_BELOW = 0.25  # a mean batch under this part of the limit
_AT_THE_LIMIT = 0.9


@dataclass(frozen=True, slots=True)
class Needs:
    """What the operator says: whether somebody waits for each answer, whether tokens a second are what counts, whether
    all work is there at the start, and the time between tokens that must hold, if one is promised.
    """

    latency: bool = False
    throughput: bool = False
    offline: bool = False
    inter_token_slo_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a server showed over the last ``over_s`` seconds; means over that time, None where nothing was measured.

    ``limit`` and ``ceiling`` are the seats allowed now and the most the engine can give; ``queued_before`` was the
    queue when the time began. ``inter_token_ms`` is the 95th percentile.
    """

    over_s: float
    strategy: str
    adaptive: bool
    limit: int
    ceiling: int
    seats_taken: int
    queued_before: int
    queued: int
    arrivals: int
    kv_usage_ratio: float
    inter_token_slo_ms: float
    mean_batch: float | None = None
    inter_token_ms: float | None = None
    preemptions: int = 0


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing to do, and what speaks for it."""

    do: str
    because: str


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A preset, why this one, and what the traffic suggests beside it."""

    preset: str
    because: str
    advice: tuple[Advice, ...] = ()


def recommend(needs: Needs, traffic: Traffic | None = None) -> Recommendation:
    """The bundled preset for these needs, with advice from the traffic where there is some."""
    preset, because = _choose(needs)
    return Recommendation(preset, because, () if traffic is None else tuple(_read(needs, traffic)))


def _choose(needs: Needs) -> tuple[str, str]:
    slo_ms = needs.inter_token_slo_ms
    if slo_ms is not None and not needs.offline:
        return (
            "interactive",
            f"a time between tokens is promised: its limit follows the load to hold {toml_text(slo_ms)} ms",
        )
    if needs.latency:
        return "latency", "somebody waits for each answer: few seats make each of them quick"
    if needs.offline:
        return "offline", "all work is there at the start and nobody waits for a single answer: full batches"
    if needs.throughput:
        return "throughput", "tokens a second are what counts: many seats, at the price of slower answers"
    return "balanced", "neither latency nor throughput comes first: the middle way"


def _read(needs: Needs, traffic: Traffic) -> list[Advice]:
    """The reading guide. At least one line, so that silence is never mistaken for an answer."""
    slo_ms = needs.inter_token_slo_ms or traffic.inter_token_slo_ms
    if not traffic.arrivals and not traffic.seats_taken and not traffic.queued:
        return [Advice("ask again under load", f"no request came or ran within {traffic.over_s:.0f} s")]
    found = _memory(traffic)
    if traffic.inter_token_ms is not None and traffic.inter_token_ms > slo_ms:
        found.append(_too_slow(traffic, traffic.inter_token_ms, slo_ms))
    elif traffic.queued > traffic.queued_before:
        found.append(_backlog(traffic))
    elif traffic.mean_batch is not None and traffic.mean_batch < _FAR_BELOW * traffic.limit:
        found.append(_under_filled(traffic, traffic.mean_batch))
    return found or [
        Advice("leave it as it is", "the queue does not grow, memory and time between tokens are in bounds")
    ]


def _memory(traffic: Traffic) -> list[Advice]:
    if traffic.preemptions:
        because = f"the engine preempted {traffic.preemptions} sequences for want of KV cache, and computes them again"
    elif traffic.kv_usage_ratio >= _KV_FULL_RATIO:
        because = f"{traffic.kv_usage_ratio:.0%} of the KV cache is in use"
    else:
        return []
    return [Advice("fewer seats or limit.memory_aware = true; more KV cache if there is memory", because)]


def _too_slow(traffic: Traffic, inter_token_ms: float, slo_ms: float) -> Advice:
    seen_ms = f"{inter_token_ms:.0f}" if inter_token_ms - slo_ms >= 1 else f"{inter_token_ms:.6g}"
    because = f"95 % of the tokens come within {seen_ms} ms, not within the {toml_text(slo_ms)} ms that must hold"
    if traffic.adaptive:
        return Advice("more instances, or shorter prompts: the limit is lowered already", because)
    return Advice('fewer seats, or let them follow the load: preset interactive, or limit.policy = "model"', because)


def _backlog(traffic: Traffic) -> Advice:
    grown = f"the queue grew from {traffic.queued_before} to {traffic.queued} in {traffic.over_s:.0f} s"
    if traffic.seats_taken < _AT_THE_LIMIT * traffic.limit:
        if traffic.strategy == "continuous":
            return Advice(
                "look at reserved_seats, max_total_tokens and the size of requests", f"{grown} with seats free"
            )
        return Advice('a shorter window, or strategy = "continuous"', f"{grown} while the last batch ends")
    if traffic.kv_usage_ratio >= _KV_FREE_RATIO:
        return Advice(
            "more instances", f"{grown} with all seats taken and {traffic.kv_usage_ratio:.0%} of the KV cache"
        )
    free = f"{grown} with all {traffic.limit} seats taken, and {1 - traffic.kv_usage_ratio:.0%} of the KV cache is free"
    if traffic.adaptive:
        return Advice("more instances, or a larger inter_token_slo_ms: the limit is as high as it can hold", free)
    if traffic.limit < traffic.ceiling:
        return Advice(f"more seats, up to {traffic.ceiling}", free)
    return Advice("more seats: start the server with a larger --max-num-seqs", free)


def _under_filled(traffic: Traffic, mean_batch: float) -> Advice:
    because = f"the mean batch is {mean_batch:.1f} of {traffic.limit} seats"
    if traffic.strategy == "continuous":
        return Advice("nothing: there is room for more traffic; fewer seats would change nothing", because)
    return Advice("a longer window, or fewer seats: too few come within the window", because)
