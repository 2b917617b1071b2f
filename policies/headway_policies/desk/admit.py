"""Admission: the answer to a new ticket.

1. refused    nothing is admitted, its class is shed, or its time is over
2. seated     no ticket before it may go, and its seats are free
3. refused    the queue is full; or its predicted wait is longer than it may wait; or its class is overloaded and its
              first token is expected after three quarters of the objective, while no less urgent ticket is dispatched
              in the same event
4. evicts     a less urgent ticket loses its place, where the preset says so and it helps
5. queued     it waits, with a deadline, unless its client will not wait
"""

from __future__ import annotations

from headway_policies.desk.dispatch import Dispatcher
from headway_policies.desk.lifecycle import Lifecycle
from headway_policies.desk.mode import Mode
from headway_policies.desk.objectives import Objectives
from headway_policies.desk.scheduler import Scheduler
from headway_policies.request import NO_TIMEOUTS, Reason, Ticket


class Admission:
    """Refuses a new ticket, or passes it on to be seated or queued."""

    def __init__(
        self,
        mode: Mode,
        scheduler: Scheduler,
        lifecycle: Lifecycle,
        dispatcher: Dispatcher,
        objectives: Objectives,
    ) -> None:
        self._mode = mode
        self._scheduler = scheduler
        self._lifecycle = lifecycle
        self._dispatcher = dispatcher
        self._objectives = objectives

    def arrive(self, ticket: Ticket, now_s: float) -> None:
        """Answer one new ticket."""
        mode, scheduler = self._mode, self._scheduler
        scheduler.window.arrived(ticket.seats, now_s)
        self._objectives.arrived(ticket, now_s)
        stages = mode.stages[ticket.class_name]
        if ticket.asked is not NO_TIMEOUTS:
            stages = stages.shortened_by(ticket.asked)
        due_s = None if stages.patience_s is None else ticket.arrived_s + stages.patience_s
        at_once, refusal = False, mode.closed
        if refusal is None and mode.in_force and mode.sheds(ticket):
            refusal = Reason.SHED
        if refusal is None and due_s is not None and due_s <= now_s:
            refusal = Reason.QUEUE_TIMEOUT
        if refusal is None:
            opened = mode.open and not self._lifecycle.crash_suspects.suspects
            at_once = opened and scheduler.goes_at_once(ticket, now_s)
            if not at_once:
                refusal = self._full(ticket, due_s, now_s, opened=opened)
        if refusal is None:
            self._dispatcher.enter(ticket, stages, due_s, now_s, at_once=at_once)
            return
        if refusal is Reason.OBJECTIVE_INFEASIBLE:
            self._objectives.cut(ticket.class_name, now_s)
        scheduler.limited = scheduler.limited or scheduler.seats.taken >= scheduler.limit
        self._lifecycle.refuse_arrival(ticket, refusal, now_s)

    def _full(self, ticket: Ticket, due_s: float | None, now_s: float, *, opened: bool) -> Reason | None:
        """Why a new ticket may not wait; None where it may, or a place was made. ``opened``: tickets are dispatched
        now.

        Evicts less urgent tickets until the new ticket has a place; none, when that would not help it.
        """
        queue, bounds = self._scheduler.queue, self._mode.preset.queue
        full = queue.refusal(ticket)
        evicts = full is Reason.QUEUE_FULL and bounds.evict and ticket.may_wait and queue.could_evict_for(ticket)
        if full is not None and not evicts:
            return full
        late = self._late(ticket, due_s, now_s, opened=opened) if opened or evicts else None
        if late is not None:
            return full or late
        while evicts and queue.refusal(ticket) and (worst := queue.worst_below(ticket.class_name)) is not None:
            self._lifecycle.refuse_all((worst,), Reason.EVICTED, now_s)
        return None

    def _late(self, ticket: Ticket, due_s: float | None, now_s: float, *, opened: bool) -> Reason | None:
        """Why a new ticket would wait longer than it may, or than its objective allows; None where it would not."""
        if due_s is not None and self._mode.preset.queue.refuse_infeasible:
            wait_s = self._scheduler.predicted_wait_s(ticket, self._scheduler.needed(ticket))
            if wait_s is not None and now_s + wait_s > due_s:
                return Reason.DEADLINE_INFEASIBLE
        infeasible = opened and self._objectives.infeasible(ticket, now_s)
        scheduler, name = self._scheduler, ticket.class_name
        if infeasible and scheduler.used_up(name, now_s) and not scheduler.below_sent(name, now_s):
            return Reason.OBJECTIVE_INFEASIBLE
        return None
