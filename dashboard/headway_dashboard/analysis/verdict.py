"""The verdict: what limits the server now and what would help, in a few sentences with their evidence.

Problems come first: errors, and first tokens that are later than the time-out of their class. Then the rules on what
limits the server are tried in order; the first that holds is stated. A favourable verdict needs every figure that it
rests on: where one is unknown, the load is stated without a judgement, and the sentence names what is missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from headway_dashboard.analysis.model import Point
from headway_dashboard.analysis.units import compact, duration, written

#: Above this share errors are named; as in the alert HeadwayErrorShare, exactly this much is still allowed.
MAX_ERROR_SHARE = 0.01
#: A cause has most of the errors when it has more than this share of them.
MAJORITY = 0.5
KV_FULL = 0.95
AT_LIMIT = 0.9
FAR_BELOW = 0.5
#: Twice the seats must give so many more tokens a second, as a share, to be worth their longer steps.
WORTHWHILE_GAIN = 0.2
_MIN_PAIRS = 8
_MIN_SPREAD = 1.5
#: Reasons of a limit that an adaptive policy keeps down because the engine could not serve more in time.
_HELD = {
    "policy": "the limit policy holds it there",
    "slo": "the time between tokens is over its SLO",
    "pacing": "more prompts at once would slow the answers that run beyond their objective",
    "settling": "the limit fell a moment ago",
    "preemption": "the engine preempted sequences",
    "kv": "the KV cache holds no more sequences",
}


@dataclass(frozen=True, slots=True)
class ClassFacts:
    """The newest points of one class; None for what was not measured.

    ``first_token_timeout_s`` is that of the preset in force: infinite where the class has none, None where the preset
    is not known. ``idle``: no request of this class has come lately, waits or runs.
    """

    name: str
    ttft_p95_s: float | None = None
    first_token_timeout_s: float | None = None
    error_share: float | None = None
    idle: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """The newest points the verdict rests on; None for what was not measured.

    ``causes`` has the errors a second of each cause, by its words. ``limit_reason`` is why the limit is what it is, a
    key of ``headway_policies.limits.WHYS``; ``doubling_gain`` how many more tokens a second twice the seats would give,
    as a share of the present ones.
    """

    batch: float | None = None
    seats_taken: float | None = None
    limit: float | None = None
    queued: float | None = None
    oldest_wait_s: float | None = None
    kv_ratio: float | None = None
    error_share: float | None = None
    ttft_p95_s: float | None = None
    ceiling: float | None = None
    limit_reason: str = ""
    doubling_gain: float | None = None
    causes: Mapping[str, float] = field(default_factory=dict)
    classes: tuple[ClassFacts, ...] = ()


def verdict(facts: Facts) -> str:
    """The sentences for a server that is live."""
    known = _measured(facts)
    wrong = _troubles(known)
    return " ".join((*wrong, _limiting(known) or (_load(known) if wrong else _unlimited(known))))


def troubles(facts: Facts) -> tuple[str, ...]:
    """The problems, a sentence each: errors above 1 %, and first tokens later than their time-out."""
    return _troubles(_measured(facts))


def main_causes(causes: Mapping[str, float]) -> str:
    """The cause that more than half of the errors have; else the two largest with their parts."""
    rates = {words: rate for words, rate in causes.items() if math.isfinite(rate) and rate > 0}
    if not rates:
        return ""
    whole = math.fsum(rates.values())
    first, *others = sorted(rates, key=lambda words: (-rates[words], words))
    if rates[first] / whole > MAJORITY:
        return f"main cause: {first}"
    two = (f"{words} ({written(rates[words] / whole, 'ratio')})" for words in (first, *others[:1]))
    return f"main causes: {', '.join(two)}"


def _troubles(facts: Facts) -> tuple[str, ...]:
    return (*_errors(facts), *_late(facts))


def _errors(facts: Facts) -> Iterator[str]:
    if facts.error_share is not None and facts.error_share > MAX_ERROR_SHARE:
        causes = main_causes(facts.causes)
        share = written(facts.error_share, "ratio")
        yield f"{share} of requests end without an answer{f'; {causes}' if causes else ''}."
        return
    for one in facts.classes:
        if one.error_share is not None and one.error_share > MAX_ERROR_SHARE:
            yield f"{written(one.error_share, 'ratio')} of the requests of class {one.name} end without an answer."


def _late(facts: Facts) -> Iterator[str]:
    for one in facts.classes:
        ttft_s, allowed_s = one.ttft_p95_s, one.first_token_timeout_s
        if ttft_s is not None and allowed_s is not None and ttft_s > allowed_s:
            yield (
                f"First tokens of class {one.name} come too late: {duration(ttft_s)} (p95), "
                f"its time-out is {duration(allowed_s)}."
            )


def _limiting(facts: Facts) -> str:
    """What delays requests; empty where nothing does."""
    if facts.kv_ratio is not None and facts.kv_ratio >= KV_FULL:
        return (
            f"Limited by memory: the KV cache is {written(facts.kv_ratio, 'ratio')} full"
            f"{_waiting(facts)}. More seats will not help."
        )
    used = _used(facts)
    if used is None or facts.limit is None:
        return "Batch size and limit are not measured here."
    if facts.limit <= 0:
        return f"No seat is open: {_load(facts)}"
    if facts.queued is None or facts.queued < 1:
        return ""
    if used / facts.limit >= AT_LIMIT:
        return f"Limited by {_advice(facts)}"
    return f"Requests wait although seats are free: {_load(facts)}"


def _advice(facts: Facts) -> str:
    """What holds requests up while all seats are taken, and what would help: more seats only where they serve more."""
    load = _load(facts)
    if why := _HELD.get(facts.limit_reason):
        return f"the engine: {load} More seats will not help ({why}); another server would."
    gain = facts.doubling_gain
    if gain is not None and gain < WORTHWHILE_GAIN:
        more = f"twice the seats would give about {written(gain, 'ratio')} more tokens a second" if gain >= 0.01 else ""
        more = more or "twice the seats would give no more tokens a second"
        return f"the engine: {load} More seats will not help ({more}); another server would."
    if facts.ceiling is not None and facts.limit is not None and facts.limit >= facts.ceiling:
        return (
            f"seats: {load} This engine has no more: another server would help, or a start with more "
            f"(--max-num-seqs){_gain(gain)}."
        )
    if gain is None:
        return (
            f"seats: {load} Another server would help; more seats only if tokens a second still rise with the batch, "
            "which the traffic so far does not show."
        )
    return f"seats: {load} A preset with more seats{_gain(gain)}, or another server, would help."


def _gain(gain: float | None) -> str:
    return "" if gain is None else f" (about {written(gain, 'ratio')} more tokens a second from twice the seats)"


def doubling_gain(batches: Sequence[Point], tokens_per_s: Sequence[Point]) -> float | None:
    """How many more tokens a second twice the newest batch would give, as a share; None where it cannot be told.

    From what has been measured together: a step takes ``batch / tokens_per_s``, fitted by a straight line over batches.
    A line needs batches that differ. Known weak spot: while the engine is idle part of the time its steps look longer.
    """
    pairs = [(batch, batch / rate) for batch, rate in zip(batches, tokens_per_s, strict=False) if batch and rate]
    if len(pairs) < _MIN_PAIRS or max(pairs)[0] < _MIN_SPREAD * min(pairs)[0]:
        return None
    mean_batch = math.fsum(batch for batch, _ in pairs) / len(pairs)
    mean_s = math.fsum(step_s for _, step_s in pairs) / len(pairs)
    spread = math.fsum((batch - mean_batch) ** 2 for batch, _ in pairs)
    slope_s = max(0.0, math.fsum((batch - mean_batch) * (step_s - mean_s) for batch, step_s in pairs) / spread)
    base_s = max(0.0, mean_s - slope_s * mean_batch)
    now = pairs[-1][0]
    return base_s / (base_s + 2 * slope_s * now)


def _unlimited(facts: Facts) -> str:
    """How well the server does while nothing goes wrong and nothing holds requests up, as far as that is known."""
    if lacking := _lacking(facts):
        return f"{_load(facts)}{_first_tokens(facts)} Not known: {'; '.join(lacking)}."
    used_share = (_used(facts) or 0.0) / (facts.limit or 1.0)
    if used_share >= AT_LIMIT:
        return f"At capacity, without delay: {_load(facts)} The limit fits the traffic."
    room = "Far below capacity" if used_share < FAR_BELOW else "Below capacity"
    return f"{room}: {_load(facts)}{_first_tokens(facts)}"


def _lacking(facts: Facts) -> list[str]:
    """What must be known before the server can be called well, and is not. An idle class has nothing to tell."""
    figures = (
        ("error share", facts.error_share),
        ("KV cache in use", facts.kv_ratio),
        ("requests that wait", facts.queued),
        ("classes", facts.classes or None),
    )
    lacking = [words for words, figure in figures if figure is None]
    untimed = [one.name for one in facts.classes if one.ttft_p95_s is None and not one.idle]
    unbound = [one.name for one in facts.classes if one.ttft_p95_s is not None and one.first_token_timeout_s is None]
    if untimed:
        lacking.append(f"time to first token of {', '.join(untimed)}")
    if unbound:
        lacking.append(f"first-token time-out of {', '.join(unbound)}")
    return lacking


def _used(facts: Facts) -> float | None:
    return facts.seats_taken if facts.seats_taken is not None else facts.batch


def _load(facts: Facts) -> str:
    idle = ", no request waits" if facts.queued == 0 else ""
    return f"{compact(_used(facts) or 0)} of {compact(facts.limit or 0)} seats taken{_waiting(facts) or idle}."


def _first_tokens(facts: Facts) -> str:
    return f" First tokens within {duration(facts.ttft_p95_s)} (p95)." if facts.ttft_p95_s is not None else ""


def _waiting(facts: Facts) -> str:
    if not facts.queued:
        return ""
    oldest = f", the oldest for {duration(facts.oldest_wait_s)}" if facts.oldest_wait_s else ""
    return f", {compact(facts.queued)} waiting{oldest}"


def _measured(facts: Facts) -> Facts:
    """The facts, with what is no finite number taken for not measured."""
    return replace(
        facts,
        batch=_number(facts.batch),
        seats_taken=_number(facts.seats_taken),
        limit=_number(facts.limit),
        queued=_number(facts.queued),
        oldest_wait_s=_number(facts.oldest_wait_s),
        kv_ratio=_number(facts.kv_ratio),
        error_share=_number(facts.error_share),
        ttft_p95_s=_number(facts.ttft_p95_s),
        ceiling=_number(facts.ceiling),
        doubling_gain=_number(facts.doubling_gain),
        classes=tuple(
            replace(
                one,
                ttft_p95_s=_number(one.ttft_p95_s),
                first_token_timeout_s=_time_out(one.first_token_timeout_s),
                error_share=_number(one.error_share),
            )
            for one in facts.classes
        ),
    )


def _number(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _time_out(value: float | None) -> float | None:
    """Infinite is a time-out that does not exist, which is known."""
    return None if value is None or math.isnan(value) else value
