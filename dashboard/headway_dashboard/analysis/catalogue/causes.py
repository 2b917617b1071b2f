"""The causes for which a request ended without an answer: their words, and their colours on the page.

The error share and the causes are read from the same series, those that ``BY_REASON`` and ``NOT_FAILED`` leave, so that
the causes sum to the share at every point. Nothing lists the failures one by one: a reason or an outcome that a later
server adds is counted and shown under its own name. Weak spot: an outcome that is unknown here, and whose requests
carry a reason too, is counted twice until this package is of the server's version.
"""

from __future__ import annotations

from headway_dashboard.analysis.catalogue import palette
from headway_policies.diagnosis import BY_REASON, NOT_FAILED, words
from headway_policies.request import Outcome, Reason

#: Of every cause that is known.
COLOURS: dict[str, str] = {
    Reason.QUEUE_FULL: palette.ORANGE,
    Reason.CLASS_QUEUE_FULL: palette.GOLD,
    Reason.NO_FREE_SEAT: "#f0b96b",
    Reason.DEADLINE_INFEASIBLE: "#5a4fcf",
    Reason.DEADLINE_UNREACHABLE: palette.SKY,
    Reason.OBJECTIVE_INFEASIBLE: "#2f9db0",
    Reason.OBJECTIVE_UNREACHABLE: "#9fb4e8",
    Reason.EVICTED: "#b86a1f",
    Reason.QUEUE_TIMEOUT: palette.BLUE,
    Reason.FIRST_TOKEN_TIMEOUT: palette.PURPLE,
    Reason.STALL_TIMEOUT: "#d79bc6",
    Reason.TOTAL_TIMEOUT: "#7a3f7e",
    Reason.DRAINING: palette.GREEN,
    Reason.NOT_READY: palette.GREY,
    Reason.ENGINE_LOST: palette.BROWN,
    Reason.OUT_OF_MEMORY: "#7f8c2e",
    Reason.POISON: "#e08f9d",
    Reason.SHED: "#73c2ad",
    Outcome.FAILED: palette.RED,
    Outcome.REJECTED_INVALID: "#5f6b7d",
}
_UNKNOWN_COLOUR = "#b3a9a0"


def colour(name: str) -> str:
    """The colour of a cause, its own for each that is known."""
    return COLOURS.get(name, _UNKNOWN_COLOUR)


__all__ = ["BY_REASON", "COLOURS", "NOT_FAILED", "colour", "words"]
