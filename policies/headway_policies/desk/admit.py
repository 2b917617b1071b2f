"""Admission: the answer to a new ticket.

1. refused    nothing is admitted, its class is shed, or its time is over
2. seated     no ticket waits, none before it may go, and its seats are free
3. queued     the same, but others wait that may not take these seats: it goes in the same event
4. refused    the queue is full; or its predicted wait is longer than it may wait; or its class is overloaded and its
              first token is expected after three quarters of the objective, while no less urgent ticket is dispatched
              in the same event
5. queued     it waits, with a deadline, unless its client will not wait. Where the queue is full, the preset says so,
              and it helps, others lose their place for it: less urgent tickets, or the newest of the tenant with the
              longest queue in its class (queueing.tenant_queues), which is refused as the arrival would have been

The answer changes nothing: the desk carries it out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from headway_policies.desk.mode import Mode
from headway_policies.desk.objectives import Objectives
from headway_policies.desk.scheduler import Scheduler
from headway_policies.engine import CrashSuspects
from headway_policies.request import Reason, Ticket


class Seat(NamedTuple):
    """The ticket goes to the engine at once."""


class Queue(NamedTuple):
    """The ticket takes a place in the queue. ``evicted`` are to be refused one by one as they come: the next one
    depends on those that are gone. ``reason`` is that of their refusal.
    """

    evicted: Iterable[Ticket] = ()
    reason: Reason = Reason.EVICTED


class Refuse(NamedTuple):
    """The ticket is refused."""

    reason: Reason


#: Made once: most answers are alike.
_SEAT, _QUEUE = Seat(), Queue()
_REFUSE = {reason: Refuse(reason) for reason in Reason}


class Admission:
    """Decides on new tickets."""

    def __init__(self, mode: Mode, scheduler: Scheduler, objectives: Objectives, suspects: CrashSuspects) -> None:
        self._mode = mode
        self._scheduler = scheduler
        self._objectives = objectives
        self._suspects = suspects

    def admit(self, ticket: Ticket, due_s: float | None, now_s: float) -> Seat | Queue | Refuse:
        """The answer to a new ticket that may wait until ``due_s``; None: for ever."""
        mode, queue, opened, made = self._mode, self._scheduler.queue, False, None
        reason = mode.closed
        if reason is None and mode.in_force and mode.sheds(ticket):
            reason = Reason.SHED
        if reason is None and due_s is not None and due_s <= now_s:
            reason = Reason.QUEUE_TIMEOUT
        if reason is None:
            opened = mode.open and not self._suspects.suspects
            if opened and self._scheduler.goes_at_once(ticket, now_s):
                return _QUEUE if queue.total.requests else _SEAT
            full = queue.refusal(ticket)
            made = None if full is None else self._made_place(ticket, full)
            reason = full if made is None else None
            if reason is None and (opened or full):
                late = self._late(ticket, due_s, now_s, opened=opened)
                reason = late and (full or late)
        if reason is not None:
            return _REFUSE[reason]
        return _QUEUE if made is None else made

    def _made_place(self, ticket: Ticket, full: Reason) -> Queue | None:
        """The place that a new ticket gets in a full queue where others lose theirs; None where that does not help, or
        the ticket would not take it.
        """
        preset, queue = self._mode.preset, self._scheduler.queue
        if not preset.queue.evict or not ticket.may_wait:
            return None
        if full is Reason.QUEUE_FULL and queue.could_evict_for(ticket):
            return Queue(queue.evicted_for(ticket))
        others = queue.giving_place_to(ticket) if preset.ordering.by_tenant else ()
        return Queue(others, full) if others else None

    def _late(self, ticket: Ticket, due_s: float | None, now_s: float, *, opened: bool) -> Reason | None:
        """The reason why a new ticket would wait longer than it may, or than its objective allows; None: it would
        not.
        """
        scheduler, name = self._scheduler, ticket.class_name
        if due_s is not None and self._mode.preset.queue.refuse_infeasible:
            wait_s = scheduler.predicted_wait_s(ticket, scheduler.needed(ticket))
            if wait_s is not None and now_s + wait_s > due_s:
                return Reason.DEADLINE_INFEASIBLE
        infeasible = opened and self._objectives.infeasible(ticket, now_s)
        cut = infeasible and self._objectives.used_up(name, now_s) and not self._objectives.below_sent(name, now_s)
        return Reason.OBJECTIVE_INFEASIBLE if cut else None
