"""Failed requests by cause: which ends are failures, and the words for them.

Each end is counted once, under its most exact name: a request that the server refused or gave up counts by its
``Reason``, any other by its ``Outcome``. A request that neither completed nor was cancelled by its client has failed.
An invalid request (4xx from the engine) has failed as well: its client got no answer, and its own cause says whose
mistake it was.
"""

from __future__ import annotations

from collections.abc import Mapping

from headway_policies.request import REFUSED, Outcome, Reason

#: Outcomes that are no failure: the answer was given, or its client did not want it any more.
NOT_FAILED = (Outcome.COMPLETED, Outcome.CANCELLED_QUEUED, Outcome.CANCELLED_RUNNING)
#: Outcomes that only follow from a refusal, whose reason is counted in their place.
BY_REASON = tuple(dict.fromkeys(REFUSED.values()))

#: Every way to fail. Reasons first, then outcomes without a reason.
WORDS: Mapping[str, str] = {
    Reason.QUEUE_FULL: "queue full",
    Reason.CLASS_QUEUE_FULL: "class queue full",
    Reason.NO_FREE_SEAT: "no free seat",
    Reason.DEADLINE_INFEASIBLE: "expected wait too long",
    Reason.DEADLINE_UNREACHABLE: "deadline unreachable",
    Reason.OBJECTIVE_INFEASIBLE: "expected wait beyond the objective",
    Reason.OBJECTIVE_UNREACHABLE: "objective out of reach",
    Reason.EVICTED: "evicted by a more urgent one",
    Reason.QUEUE_TIMEOUT: "timed out waiting",
    Reason.FIRST_TOKEN_TIMEOUT: "no first token in time",
    Reason.STALL_TIMEOUT: "answer stalled",
    Reason.TOTAL_TIMEOUT: "not finished in time",
    Reason.DRAINING: "server draining",
    Reason.NOT_READY: "server not ready",
    Reason.ENGINE_LOST: "engine lost",
    Reason.OUT_OF_MEMORY: "engine out of memory",
    Reason.POISON: "crashed the engine twice",
    Reason.SHED: "shed by the fallback ladder",
    Outcome.FAILED: "failed",
    Outcome.REJECTED_INVALID: "invalid request",
}
#: What becomes of requests, by their outcome.
_BECOMES: Mapping[Outcome, str] = {
    Outcome.REJECTED_FULL: "are refused",
    Outcome.REJECTED_LIMIT: "are refused",
    Outcome.SHED: "are refused",
    Outcome.DRAINED: "are refused",
    Outcome.EXPIRED_QUEUED: "time out in the queue",
    Outcome.EXPIRED_RUNNING: "run out of time while they run",
    Outcome.ENGINE_LOST: "fail in the engine",
    Outcome.FAILED: "fail in the engine",
}
_BY_WORDS = {
    said: _BECOMES.get(REFUSED[name] if isinstance(name, Reason) else Outcome(name)) for name, said in WORDS.items()
}
_MOST_NAMED = 2
#: Time-outs of requests that run.
WHILE_RUNNING = (Reason.FIRST_TOKEN_TIMEOUT, Reason.STALL_TIMEOUT, Reason.TOTAL_TIMEOUT)
#: The refusals that more capacity would have avoided.
FOR_LOAD = (
    Reason.QUEUE_FULL,
    Reason.CLASS_QUEUE_FULL,
    Reason.NO_FREE_SEAT,
    Reason.DEADLINE_INFEASIBLE,
    Reason.DEADLINE_UNREACHABLE,
    Reason.OBJECTIVE_INFEASIBLE,
    Reason.OBJECTIVE_UNREACHABLE,
    Reason.EVICTED,
    Reason.QUEUE_TIMEOUT,
    Reason.FIRST_TOKEN_TIMEOUT,
    Reason.SHED,
)
#: The causes that lie in the engine.
IN_ENGINE = (Reason.ENGINE_LOST, Reason.OUT_OF_MEMORY, Reason.POISON, Outcome.FAILED)


def refused_for_load(*, shed_by_command: bool) -> tuple[Reason, ...]:
    """The refusals before a request ran that more capacity would have avoided; those by command are not."""
    others = (*WHILE_RUNNING, *((Reason.SHED,) if shed_by_command else ()))
    return tuple(reason for reason in FOR_LOAD if reason not in others)


def becomes(causes: Mapping[str, float]) -> str:
    """The fate of requests with these causes, in words, as a predicate: what happened to most of them is first."""
    fates = dict[str | None, float]()
    for cause, number in causes.items():
        if number > 0 and cause != WORDS[Outcome.REJECTED_INVALID]:
            fate = _BY_WORDS.get(cause)
            fates[fate] = fates.get(fate, 0.0) + number
    named = [fate for fate in sorted(fates, key=lambda fate: -fates[fate]) if fate is not None]
    if not named or None in fates or len(named) > _MOST_NAMED:
        return "end without an answer"
    return " or ".join(named)


def words(name: str) -> str:
    """A cause in words; an unknown one under its own name."""
    return WORDS.get(name, f"other: {name}")
