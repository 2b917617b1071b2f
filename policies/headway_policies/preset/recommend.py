"""Advice: the preset that fits given needs, and what would help a running server.

First a decision tree (is latency what counts? is throughput? else a balance of both), extended by offline work and by a
required time between tokens. Then rules applied to the traffic of a running server. A violated time between tokens has
precedence over load: more seats are never advised meanwhile. ``dynamic`` and ``serial`` are never advised: on an engine
that refills its running batch both are slower, and are chosen for another reason. Known weak spot: a few seconds of
traffic are a sample; measure again under the load that matters.
"""

from __future__ import annotations

from dataclasses import dataclass

from headway_policies.preset.toml_text import toml_text

_KV_FULL_RATIO = 0.9  # above it the engine soon preempts
_KV_FREE_RATIO = 0.7
_FAR_BELOW = 0.25  # a mean batch under this part of the limit
_AT_THE_LIMIT = 0.9


@dataclass(frozen=True, slots=True)
class Needs:
    """What the operator needs: low latency (a user waits for each answer), throughput, offline work (all requests are
    known at the start), and the largest time between tokens, if one is required.
    """

    latency: bool = False
    throughput: bool = False
    offline: bool = False
    inter_token_slo_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Traffic:
    """Measurements of a server over the last ``over_s`` seconds; means over that time, None where not measured.

    ``limit`` and ``ceiling`` are the seats allowed now and the most of the engine; ``queued_before`` was the queue
    at the start of that time. ``inter_token_ms`` is the 95th percentile.
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
    """One action, and the reason for it."""

    do: str
    because: str


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A preset, the reason for it, and further advice from the traffic."""

    preset: str
    because: str
    advice: tuple[Advice, ...] = ()


def recommend(needs: Needs, traffic: Traffic | None = None) -> Recommendation:
    """The bundled preset for these needs, with advice from the traffic if given."""
    preset, because = _choose(needs)
    return Recommendation(preset, because, () if traffic is None else tuple(_read(needs, traffic)))


def _choose(needs: Needs) -> tuple[str, str]:
    slo_ms = needs.inter_token_slo_ms
    if slo_ms is not None and not needs.offline:
        return (
            "interactive",
            f"a time between tokens is required: the limit follows the load to keep {toml_text(slo_ms)} ms",
        )
    if needs.latency:
        return "latency", "a user waits for each answer: few seats keep each answer fast"
    if needs.offline:
        return "offline", "all requests are known at the start and no user waits for an answer: full batches"
    if needs.throughput:
        return "throughput", "tokens per second matter most: many seats, at the price of slower answers"
    return "balanced", "neither latency nor throughput comes first: a balance of both"


def _read(needs: Needs, traffic: Traffic) -> list[Advice]:
    """The advice from the traffic, at least one line."""
    slo_ms = needs.inter_token_slo_ms or traffic.inter_token_slo_ms
    if not traffic.arrivals and not traffic.seats_taken and not traffic.queued:
        return [Advice("ask again under load", f"no request arrived or ran within {traffic.over_s:.0f} s")]
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
        because = f"the engine preempted {traffic.preemptions} sequences for lack of KV cache, and computes them again"
    elif traffic.kv_usage_ratio >= _KV_FULL_RATIO:
        because = f"{traffic.kv_usage_ratio:.0%} of the KV cache is in use"
    else:
        return []
    return [Advice("fewer seats or limit.memory_aware = true; more KV cache if there is memory", because)]


def _too_slow(traffic: Traffic, inter_token_ms: float, slo_ms: float) -> Advice:
    seen_ms = f"{inter_token_ms:.0f}" if inter_token_ms - slo_ms >= 1 else f"{inter_token_ms:.6g}"
    because = f"95 % of the tokens come within {seen_ms} ms, not within the required {toml_text(slo_ms)} ms"
    if traffic.adaptive:
        return Advice("more instances, or shorter prompts: the limit is already lowered", because)
    return Advice('fewer seats, or an adaptive limit: preset interactive, or limit.policy = "model"', because)


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
        return Advice("more instances, or a larger inter_token_slo_ms: the limit is as high as the SLO allows", free)
    if traffic.limit < traffic.ceiling:
        return Advice(f"more seats, up to {traffic.ceiling}", free)
    return Advice("more seats: start the server with a larger --max-num-seqs", free)


def _under_filled(traffic: Traffic, mean_batch: float) -> Advice:
    because = f"the mean batch is {mean_batch:.1f} of {traffic.limit} seats"
    if traffic.strategy == "continuous":
        return Advice("nothing: there is room for more traffic; fewer seats would have no effect", because)
    return Advice("a longer window, or fewer seats: too few requests arrive within the window", because)
