"""The symptoms of a server, whatever the cause: errors above 1 %, objectives missed, requests degraded, a grammar that
compiles for too long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import fsum, inf, isfinite

from headway_policies.diagnosis.facts import ClassFacts, Facts
from headway_policies.diagnosis.failures import becomes, words
from headway_policies.request import Outcome, Reason
from headway_policies.units import above, compact, duration, percent

#: From this share on a class with errors is named in the order of urgency.
_FEW = 0.1
#: Above this share errors are named; exactly this much is still allowed.
MAX_ERROR_SHARE = 0.01
#: A cause has most of the errors when it has more than this share of them.
MAJORITY = 0.5
_TOO_LATE = (
    Reason.DEADLINE_INFEASIBLE,
    Reason.DEADLINE_UNREACHABLE,
    Reason.OBJECTIVE_INFEASIBLE,
    Reason.OBJECTIVE_UNREACHABLE,
)
#: Of the machine's processors: from the first share on they are full, and the second is much for other work.
_HOST_FULL, _HOST_OTHERS = 0.95, 0.2
#: A server that uses less of them does not compute on them.
_HOST_OWN = 0.1
#: Of the engine's time: prompts that take less slow no request down for long.
_MUCH = 0.2
#: By whether the step policy is on; None where it cannot be.
_BOUNDED_BY = {
    None: "",
    False: '; `[step] prefill_share = "auto"` bounds them',
    True: "; a smaller number as `[step] prefill_share` bounds them more",
}


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


def refused(row: ClassFacts) -> bool:
    """Whether more than 1 % of the requests of a class are refused for the load, or run out of time in the queue."""
    return (row.refused_share or 0.0) > MAX_ERROR_SHARE


def refused_beside_seats(facts: Facts) -> list[str]:
    """The classes that are refused although seats are kept free for them: more seats would change nothing."""
    if (facts.limit or 0.0) - (facts.seats_taken or 0.0) < 1:
        return []
    return [row.name for row in facts.classes if row.reserved_seats >= 1 and refused(row) and _too_late(row)]


def _too_late(row: ClassFacts) -> bool:
    """Whether most of the failed requests of a class were refused because their first tokens would come too late."""
    late_ones = fsum(row.causes.get(words(reason), 0.0) for reason in _TOO_LATE)
    return late_ones > MAJORITY * fsum(row.causes.values())


def host_busy(facts: Facts) -> bool:
    """Whether other work on the machine takes processors that this server could use."""
    machine, own = facts.machine_busy, facts.own_busy
    if machine is None or own is None or own < _HOST_OWN:
        return False
    return machine >= _HOST_FULL and machine - own >= _HOST_OTHERS


def late(row: ClassFacts) -> bool:
    """Whether first tokens of a class come after its objective or its time-out."""
    return row.ttft_p95_s is not None and row.ttft_p95_s > bound_s(row)


def slow(row: ClassFacts) -> bool:
    """Whether its tokens come more slowly than its objective."""
    return row.inter_token_p95_s is not None and row.inter_token_p95_s > (row.inter_token_slo_s or inf)


def slowed_by_prompts(facts: Facts) -> bool:
    """Whether tokens come too slowly for the prompts beside them: those that one step computes at once take longer than
    the objective or, spread over the steps by the step policy, make the difference.
    """
    share = facts.prompt_share or 0.0
    return share >= _MUCH and any(
        facts.longest_prompt_s > (objective_s := row.inter_token_slo_s or inf)
        or (facts.shapes_steps is True and (1 - share) * (row.inter_token_p95_s or 0.0) <= objective_s)
        for row in filter(slow, facts.classes)
    )


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
    """The classes with errors, as they are given, those with few of them last; all requests together where no class is
    known, or none has a cause.
    """
    hit = [row for row in facts.classes if row.error_share is not None and row.error_share > MAX_ERROR_SHARE]
    share = facts.fault_share
    if share is not None and share > MAX_ERROR_SHARE and not any(row.causes for row in hit):
        yield f"{_how_many(share, facts.ended)} end without an answer{_because(facts.causes)}."
    for row in sorted(hit, key=lambda row: (row.error_share or 0.0) < _FEW):
        yield _class_errors(row)


def _class_errors(row: ClassFacts) -> str:
    how_many = _how_many(row.error_share or 0.0, row.ended, row.name)
    return f"{how_many} {becomes(row.causes)}{_because(row.causes)}."


def _how_many(share: float, ended: float | None, class_name: str = "") -> str:
    """The number of requests of a share, and of how many; the share alone where these were not counted."""
    of_class = f" of class {class_name}" if class_name else ""
    whole = round(ended or 0.0)
    if not whole:
        return f"{percent(share)} of {'the ' if class_name else ''}requests{of_class}"
    part = round(share * whole)
    if part == whole > 1:
        return f"All {compact(whole)} requests{of_class}"
    return f"{compact(part)} of {compact(whole)} requests{of_class} ({percent(share)})"


def _because(causes: Mapping[str, float]) -> str:
    invalid = words(Outcome.REJECTED_INVALID)
    named = main_causes({cause: rate for cause, rate in causes.items() if cause != invalid})
    return f"; {named}" if named else ""


def _late(facts: Facts) -> Iterator[str]:
    for figures in filter(late, facts.classes):
        bound = bound_s(figures)
        what = "objective" if bound == figures.ttft_slo_s else "time-out"
        yield (
            f"First tokens of class {figures.name} come too late: {above(figures.ttft_p95_s or 0.0, bound)} (p95), "
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
    if slowed_by_prompts(facts):
        yield (
            f"Decode is slowed by long prompts: they take {percent(facts.prompt_share or 0.0)} of the engine's time, "
            f"up to {duration(facts.longest_prompt_s)} in one step{_BOUNDED_BY[facts.shapes_steps]}."
        )
    if prompts_held(facts):
        yield (
            f"Long prompts are postponed for up to {duration(facts.longest_held_s)} in the engine, so that running "
            "answers keep their pace."
        )


def _slow(facts: Facts) -> Iterator[str]:
    for figures in filter(slow, facts.classes):
        slo_s = figures.inter_token_slo_s or 0.0
        between = above(figures.inter_token_p95_s or 0.0, slo_s)
        yield (
            f"Tokens of class {figures.name} come too slowly: {between} between two (p95), its objective is "
            f"{duration(slo_s)}."
        )
