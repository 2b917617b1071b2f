"""The causes for which a request ended without an answer.

Each end is counted once, under its most exact name: a request that the server refused or gave up counts by its
``Reason``, any other by its ``Outcome``. What neither completed nor was cancelled by its client has failed. An invalid
request (4xx from the engine) has failed as well: its client got no answer, and its own cause says whose mistake it was.

The error share and the causes are read from the same series, those that ``BY_REASON`` and ``NOT_FAILED`` leave, so that
the causes sum to the share at every point. Nothing lists the failures one by one: a reason or an outcome that a later
server adds is counted and shown under its own name. Weak spot: an outcome that is unknown here, and whose requests
carry a reason too, is counted twice until this package is of the server's version.
"""

from __future__ import annotations

from headway_dashboard.analysis import palette
from headway_policies.request import REFUSED, Outcome, Reason

#: Outcomes that are no failure: the answer was given, or its client did not want it any more.
NOT_FAILED = (Outcome.COMPLETED, Outcome.CANCELLED_QUEUED, Outcome.CANCELLED_RUNNING)
#: Outcomes that only follow from a refusal, whose reason is counted in their place.
BY_REASON = tuple(dict.fromkeys(REFUSED.values()))

#: Every way to fail: the word on the page and the colour. Reasons first, then outcomes without a reason.
CAUSES: dict[str, tuple[str, str]] = {
    Reason.QUEUE_FULL: ("queue full", palette.ORANGE),
    Reason.CLASS_QUEUE_FULL: ("class queue full", palette.GOLD),
    Reason.NO_FREE_SEAT: ("no free seat", "#f0b96b"),
    Reason.DEADLINE_INFEASIBLE: ("expected wait too long", "#5a4fcf"),
    Reason.DEADLINE_UNREACHABLE: ("deadline unreachable", palette.SKY),
    Reason.OBJECTIVE_INFEASIBLE: ("expected wait beyond the objective", "#2f9db0"),
    Reason.OBJECTIVE_UNREACHABLE: ("waited beyond the objective", "#9fb4e8"),
    Reason.EVICTED: ("evicted by a more urgent one", "#b86a1f"),
    Reason.QUEUE_TIMEOUT: ("timed out waiting", palette.BLUE),
    Reason.FIRST_TOKEN_TIMEOUT: ("no first token in time", palette.PURPLE),
    Reason.STALL_TIMEOUT: ("answer stalled", "#d79bc6"),
    Reason.TOTAL_TIMEOUT: ("not finished in time", "#7a3f7e"),
    Reason.DRAINING: ("server shutting down", palette.GREEN),
    Reason.NOT_READY: ("server not ready", palette.GREY),
    Reason.ENGINE_LOST: ("engine lost", palette.BROWN),
    Reason.OUT_OF_MEMORY: ("engine out of memory", "#7f8c2e"),
    Reason.POISON: ("crashed the engine twice", "#e08f9d"),
    Reason.SHED: ("shed by the fallback ladder", "#73c2ad"),
    Outcome.FAILED: ("failed", palette.RED),
    Outcome.REJECTED_INVALID: ("invalid request", "#5f6b7d"),
}
_UNKNOWN_COLOUR = "#b3a9a0"


def words(name: str) -> str:
    """A cause in words; an unknown one under its own name."""
    return CAUSES[name][0] if name in CAUSES else f"other: {name}"


def colour(name: str) -> str:
    """The colour of a cause, its own for each that is known."""
    return CAUSES[name][1] if name in CAUSES else _UNKNOWN_COLOUR
