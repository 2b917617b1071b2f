"""The symptoms of a server, whatever the cause: errors above 1 %, objectives missed, requests degraded, a grammar that
compiles for too long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import fsum, inf, isfinite

from headway_policies.diagnosis.facts import ClassFacts, Facts
from headway_policies.diagnosis.failures import words
from headway_policies.request import Outcome
from headway_policies.units import duration, percent

#: Above this share errors are named; exactly this much is still allowed.
MAX_ERROR_SHARE = 0.01
#: A cause has most of the errors when it has more than this share of them.
MAJORITY = 0.5
#: Of the engine's time: prompts that take less slow down nobody for long.
_MUCH = 0.2


def symptoms(facts: Facts) -> tuple[str, ...]:
    """A sentence for each."""
    return (
        *_errors(facts),
        *_late(facts),
        *_slow(facts),
        *_prompts(facts),
        *_degraded(facts),
        *_compiling(facts),
        *lowered_words(facts.lowered, facts.arrived),
    )


def errs(facts: Facts) -> bool:
    """Whether more than 1 % of the requests, or of those of a class, end without an answer, the invalid ones apart: a
    client's mistake is no fault of the server.
    """
    shares = (facts.fault_share, *(row.error_share for row in facts.classes))
    return any(share is not None and share > MAX_ERROR_SHARE for share in shares)


def late(row: ClassFacts) -> bool:
    """Whether first tokens of a class come after its objective or its time-out."""
    return row.ttft_p95_s is not None and row.ttft_p95_s > bound_s(row)


def slow(row: ClassFacts) -> bool:
    """Whether its tokens come more slowly than its objective."""
    return row.inter_token_p95_s is not None and row.inter_token_p95_s > (row.inter_token_slo_s or inf)


def slowed_by_prompts(facts: Facts) -> bool:
    """Whether tokens come too slowly beside prompts that one step computes at once, each longer than the objective."""
    objectives_s = [row.inter_token_slo_s or inf for row in facts.classes if slow(row)]
    return (facts.prompt_share or 0.0) >= _MUCH and facts.longest_prompt_s > min(objectives_s, default=inf)


def prompts_held(facts: Facts) -> bool:
    """Whether first tokens come too late while the step policy holds prompts."""
    return facts.shapes_steps is True and facts.longest_held_s > 0 and any(map(late, facts.classes))


def bound_s(row: ClassFacts) -> float:
    """How long a first token of a class may take: its objective, or where it has none its time-out."""
    known = [bound for bound in (row.ttft_slo_s, row.first_token_timeout_s) if bound is not None]
    return min(known, default=inf)


def main_causes(causes: Mapping[str, float]) -> str:
    """The cause that more than half of the errors have; else the two largest with their parts."""
    rates = {cause: rate for cause, rate in causes.items() if isfinite(rate) and rate > 0}
    if not rates:
        return ""
    whole = fsum(rates.values())
    first, *others = sorted(rates, key=lambda cause: (-rates[cause], cause))
    if rates[first] / whole > MAJORITY:
        return f"main cause: {first}"
    two = (f"{cause} ({percent(rates[cause] / whole)})" for cause in (first, *others[:1]))
    return f"main causes: {', '.join(two)}"


def _errors(facts: Facts) -> Iterator[str]:
    share, invalid = facts.fault_share, words(Outcome.REJECTED_INVALID)
    if share is not None and share > MAX_ERROR_SHARE:
        causes = main_causes({cause: rate for cause, rate in facts.causes.items() if cause != invalid})
        yield f"{percent(share)} of requests end without an answer{f'; {causes}' if causes else ''}."
        return
    for figures in facts.classes:
        if figures.error_share is not None and figures.error_share > MAX_ERROR_SHARE:
            yield f"{percent(figures.error_share)} of the requests of class {figures.name} end without an answer."


def _late(facts: Facts) -> Iterator[str]:
    for figures in filter(late, facts.classes):
        bound = bound_s(figures)
        what = "objective" if bound == figures.ttft_slo_s else "time-out"
        yield (
            f"First tokens of class {figures.name} come too late: {duration(figures.ttft_p95_s or 0.0)} (p95), "
            f"its {what} is {duration(bound)}."
        )


def lowered_words(lowered: Mapping[str, int], arrived: int) -> Iterator[str]:
    """The sentence on requests that asked for a class above the rights of their key, by that class; none without."""
    names = sorted(name for name, number in lowered.items() if number)
    if names:
        yield (
            f"{sum(lowered.values())} of {arrived} requests ask for a class that their key does not allow, and get a "
            f"less urgent one: headway keys add --tenant NAME --classes {','.join(names)}"
        )


def _degraded(facts: Facts) -> Iterator[str]:
    if facts.rung not in ("", "normal") and not facts.rung_set:
        yield f"The fallback ladder is on its rung {facts.rung}."


def _compiling(facts: Facts) -> Iterator[str]:
    if facts.compiling_s:
        yield (
            f"The engine has been compiling a grammar for {duration(facts.compiling_s)}: other structured outputs may "
            "wait for it. A new engine ends it (headway recycle)."
        )


def _prompts(facts: Facts) -> Iterator[str]:
    if slowed_by_prompts(facts) and facts.shapes_steps is not True:
        bounds = "" if facts.shapes_steps is None else '; `[step] prefill_share = "auto"` bounds them'
        yield (
            f"Decode is slowed by long prompts: they take {percent(facts.prompt_share or 0.0)} of the engine's time, "
            f"up to {duration(facts.longest_prompt_s)} in one step{bounds}."
        )
    if prompts_held(facts):
        yield (
            f"Long prompts are held, so that running answers keep their pace: for up to "
            f"{duration(facts.longest_held_s)} in the engine."
        )


def _slow(facts: Facts) -> Iterator[str]:
    for figures in filter(slow, facts.classes):
        between, slo = duration(figures.inter_token_p95_s or 0.0), duration(figures.inter_token_slo_s or 0.0)
        yield f"Tokens of class {figures.name} come too slowly: {between} between two (p95), its objective is {slo}."
