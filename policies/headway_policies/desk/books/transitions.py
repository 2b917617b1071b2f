"""The phases of a ticket, the events that move it, and the table of its transitions.

The diagram of the documentation is drawn from this table; ``lifecycle`` alone applies it.
"""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """The stage of a ticket. ``SETTLED``: it has its outcome, and the engine may still occupy seats for it."""

    WAITING = "waiting"
    RUNNING = "running"
    SETTLED = "settled"
    ENDED = "ended"


class Event(StrEnum):
    """An event in the life of a ticket that is here."""

    DISPATCH = "dispatch"  # it gets its seats
    REFUSE = "refuse"  # it is refused while it waits: its time is up, it is evicted or shed, a drain, no engine
    REQUEUE = "requeue"  # its engine is gone, and it may be retried
    RECALL = "recall"  # it gives its seats to a more urgent ticket before its first token, and waits again
    ABORT = "abort"  # it is given up while it runs: a time-out, or its engine is gone
    LEAVE = "leave"  # the request is over, and the engine has nothing of it
    LEAVE_EARLY = "leave_early"  # the request is over, and the engine still has sequences of it
    RELEASE = "release"  # the last of these sequences has left the engine


#: Where each event leads; what is not here must not happen.
NEXT: dict[tuple[Phase, Event], Phase] = {
    (Phase.WAITING, Event.DISPATCH): Phase.RUNNING,
    (Phase.WAITING, Event.REFUSE): Phase.ENDED,
    (Phase.WAITING, Event.LEAVE): Phase.ENDED,
    (Phase.RUNNING, Event.REQUEUE): Phase.WAITING,
    (Phase.RUNNING, Event.RECALL): Phase.WAITING,
    (Phase.RUNNING, Event.ABORT): Phase.SETTLED,
    (Phase.RUNNING, Event.LEAVE): Phase.ENDED,
    (Phase.RUNNING, Event.LEAVE_EARLY): Phase.SETTLED,
    (Phase.SETTLED, Event.LEAVE): Phase.ENDED,
    (Phase.SETTLED, Event.LEAVE_EARLY): Phase.SETTLED,
    (Phase.SETTLED, Event.RELEASE): Phase.ENDED,
}


class IllegalTransitionError(AssertionError):
    """An event that cannot happen to a ticket in its phase: a fault of the desk itself."""


def after(phase: Phase, event: Event) -> Phase:
    """The phase that follows. Raises IllegalTransitionError where the table has none."""
    try:
        return NEXT[phase, event]
    except KeyError:
        raise IllegalTransitionError(f"{event} cannot happen to a ticket that is {phase}") from None
