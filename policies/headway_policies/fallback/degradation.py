"""What does a request lose on a rung?

Only what its class allows to be taken (``PriorityClass``), and never does it get more than it asked for.

    rung in force   from whom                        what
    cap             fallback_max_tokens is set       answers end there, unless they were to be shorter anyway
    bypass          may_bypass                       nothing: it goes beside the batch, a few seats in all
    shed            sheddable                        it is refused
    divert          may_divert                       another model answers, where one is configured
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum

from headway_policies.fallback.rungs import Rung
from headway_policies.request import PriorityClass, Reason, Ticket

#: What is over for a request wherever it goes: its time, its server's, or our trust in it.
_REFUSED_ANYWHERE = frozenset(
    {
        Reason.FIRST_TOKEN_TIMEOUT,
        Reason.STALL_TIMEOUT,
        Reason.TOTAL_TIMEOUT,
        Reason.DRAINING,
        Reason.POISON,
    }
)


class Degradation(StrEnum):
    """What a request lost: the label of ``headway_degraded_total``."""

    MAX_TOKENS = "max_tokens"
    ORDER = "order"
    REFUSED = "refused"
    MODEL = "model"


def capped_tokens(ticket: Ticket, terms: PriorityClass, in_force: Collection[Rung]) -> int | None:
    """The most tokens each answer may have now; None where what was asked for stands."""
    max_tokens = terms.fallback_max_tokens if Rung.CAP in in_force else None
    if max_tokens is None or (ticket.max_tokens is not None and ticket.max_tokens <= max_tokens):
        return None
    return max_tokens


def sheds(terms: PriorityClass, in_force: Collection[Rung]) -> bool:
    """Whether requests of this class are refused now."""
    return terms.sheddable and Rung.SHED in in_force


def diverts(terms: PriorityClass, in_force: Collection[Rung], refused: Reason | None = None) -> bool:
    """Whether another model should answer a request of this class now: a newcomer, or one refused for that reason."""
    return terms.may_divert and Rung.DIVERT in in_force and refused not in _REFUSED_ANYWHERE


def bypasses(ticket: Ticket, terms: PriorityClass, in_force: Collection[Rung], free_seats: int) -> bool:
    """Whether a ticket may go beside the batch now, with so many seats of that lane still free."""
    return terms.may_bypass and Rung.BYPASS in in_force and ticket.seats <= free_seats


def pauses(in_force: Collection[Rung]) -> bool:
    """Whether nobody may go to the engine now."""
    return Rung.PAUSE in in_force


def queue_age_s(oldest_wait_s: Mapping[str, float], classes: Mapping[str, PriorityClass]) -> float:
    """The longest wait of those for whom others give way: who may be shed is meant to wait, unless all may be."""
    kept = [name for name, terms in classes.items() if not terms.sheddable]
    return max((oldest_wait_s.get(name, 0.0) for name in kept or classes), default=0.0)
