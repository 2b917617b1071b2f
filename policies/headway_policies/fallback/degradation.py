"""The degradation of a request by each rung of the fallback ladder.

Only as its class allows (``PriorityClass``), and never beyond what the request asked for.

    rung in force   classes                          effect
    cap             fallback_max_tokens is set       answers end there, unless the request asked for less
    bypass          may_bypass                       it runs beside the batch, on a few seats in total
    shed            sheddable                        it is refused
    divert          may_divert                       another model or a fixed reply answers, where one is configured
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum

from headway_policies.fallback.rungs import Rung
from headway_policies.request import PriorityClass, Reason, Ticket

#: Refusals that another model would not change: out of time, the server drains, or a request that crashes engines.
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
    """The kind of degradation of a request: the label of ``headway_degraded_total``."""

    MAX_TOKENS = "max_tokens"
    ORDER = "order"
    REFUSED = "refused"
    MODEL = "model"
    FIXED_REPLY = "fixed_reply"


def capped_tokens(ticket: Ticket, terms: PriorityClass, in_force: Collection[Rung]) -> int | None:
    """The reduced ``max_tokens`` of each answer; None where the request's own stays."""
    max_tokens = terms.fallback_max_tokens if Rung.CAP in in_force else None
    if max_tokens is None or (ticket.max_tokens is not None and ticket.max_tokens <= max_tokens):
        return None
    return max_tokens


def sheds(terms: PriorityClass, in_force: Collection[Rung]) -> bool:
    """Whether requests of this class are refused now."""
    return terms.sheddable and Rung.SHED in in_force


def diverts(terms: PriorityClass, in_force: Collection[Rung], refused: Reason | None = None) -> bool:
    """Whether another model should answer a request of this class now: an arrival, or one refused for ``refused``."""
    return terms.may_divert and Rung.DIVERT in in_force and refused not in _REFUSED_ANYWHERE


def bypasses(ticket: Ticket, terms: PriorityClass, in_force: Collection[Rung], free_seats: int) -> bool:
    """Whether a ticket may run beside the batch now, with so many bypass seats free."""
    return terms.may_bypass and Rung.BYPASS in in_force and ticket.seats <= free_seats


def pauses(in_force: Collection[Rung]) -> bool:
    """Whether dispatching is suspended now."""
    return Rung.PAUSE in in_force


def queue_age_s(oldest_wait_s: Mapping[str, float], classes: Mapping[str, PriorityClass]) -> float:
    """The longest wait over the classes that are not sheddable; over all where every class is sheddable."""
    kept = [name for name, terms in classes.items() if not terms.sheddable]
    return max((oldest_wait_s.get(name, 0.0) for name in kept or classes), default=0.0)
