"""The verdict: what limits the server now and what would help, in a few sentences with their evidence.

Problems come first: errors, and first tokens that are later than the time-out of their class. Then the rules on what
limits the server are tried in order; the first that holds is stated. A favourable verdict needs every figure that it
rests on: where one is unknown, the load is stated without a judgement, and the sentence names what is missing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from headway_dashboard.analysis.units import compact, duration, written

#: Above this share errors are named; as in the alert HeadwayErrorShare, exactly this much is still allowed.
MAX_ERROR_SHARE = 0.01
#: A cause has most of the errors when it has more than this share of them.
MAJORITY = 0.5
KV_FULL = 0.95
AT_LIMIT = 0.9
FAR_BELOW = 0.5


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

    ``causes`` has the errors a second of each cause, by its words.
    """

    batch: float | None = None
    seats_taken: float | None = None
    limit: float | None = None
    queued: float | None = None
    oldest_wait_s: float | None = None
    kv_ratio: float | None = None
    error_share: float | None = None
    ttft_p95_s: float | None = None
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
        return f"most of them: {first}"
    two = (f"{words} ({written(rates[words] / whole, 'ratio')})" for words in (first, *others[:1]))
    return f"among them: {', '.join(two)}"


def _troubles(facts: Facts) -> tuple[str, ...]:
    return (*_errors(facts), *_late(facts))


def _errors(facts: Facts) -> Iterator[str]:
    if facts.error_share is not None and facts.error_share > MAX_ERROR_SHARE:
        causes = main_causes(facts.causes)
        share = written(facts.error_share, "ratio")
        yield f"{share} of requests end without an answer{f', {causes}' if causes else ''}."
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
        return f"Limited by seats: {_load(facts)} A preset with more seats, or another server, would help."
    return f"Requests wait although seats are free: {_load(facts)}"


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
