"""Dispatch: which tickets go to the engine now, and which have run out of time.

    suspects after a crash   one after another, nothing beside them (crash_suspects)
    the bypass               tickets that may take one of the few seats beside a batch (fallback)
    all other tickets        in the order of the scheduler, as far as its strategy and the seats allow

When its turn comes, a ticket past its deadline expires instead, and one that could no longer have a first token in
time, or within its objective while its queue stands, is refused in favour of the next.
"""

from __future__ import annotations

from headway_policies.desk.forecast import Forecast
from headway_policies.desk.lifecycle import Lifecycle
from headway_policies.desk.mode import Mode, Stages
from headway_policies.desk.objectives import Objectives
from headway_policies.desk.record import Record
from headway_policies.desk.scheduler import Scheduler
from headway_policies.desk.transitions import Phase
from headway_policies.fallback import Rung
from headway_policies.queueing import Lane
from headway_policies.request import Reason, Ticket

SLICE = 200  # deadlines settled in one event: about a millisecond
#: Refused by prediction for each that goes, for their objective; for a deadline it is one. A wrong prediction must not
#: empty the queue before a free seat.
_MAX_SHED = 4


class Dispatcher:
    """Decides which tickets are dispatched. ``patience`` is how much more may be settled within this event."""

    def __init__(
        self,
        mode: Mode,
        scheduler: Scheduler,
        lifecycle: Lifecycle,
        forecast: Forecast,
        objectives: Objectives,
        ceiling: int | None,
    ) -> None:
        self.patience = SLICE
        self._mode = mode
        self._scheduler = scheduler
        self._lifecycle = lifecycle
        self._forecast = forecast
        self._objectives = objectives
        self._ceiling = ceiling

    def enter(self, ticket: Ticket, stages: Stages, due_s: float | None, now_s: float, *, at_once: bool) -> None:
        """Seat a new ticket that goes at once; queue another, and refuse it if it is still there and will not wait."""
        scheduler, lifecycle = self._scheduler, self._lifecycle
        if at_once and not scheduler.queue.total.requests:
            lifecycle.seat_arrival(ticket, stages, due_s, now_s)
            return
        record = lifecycle.enqueue(ticket, stages, due_s, now_s)
        self.fill(now_s)
        if not ticket.may_wait and record.phase is Phase.WAITING:
            scheduler.limited = scheduler.limited or scheduler.seats.taken >= scheduler.limit
            lifecycle.refuse(record, Reason.NO_FREE_SEAT, now_s)
        lifecycle.answered(record)

    def settle_due(self, now_s: float) -> None:
        """Settle the tickets whose time has run out, a slice at a time, and dispatch those behind them."""
        lifecycle = self._lifecycle
        while self.patience and (ticket_id := lifecycle.deadlines.pop_due(now_s)) is not None:
            self.patience -= 1
            self._time_is_up(lifecycle.records[ticket_id], now_s)
        cleared = lifecycle.crash_suspects.cleared_s is not None and lifecycle.crash_suspects.update(now_s)
        if cleared:
            self._objectives.reopened(now_s)
        if lifecycle.effects or cleared:
            self.fill(now_s)

    def fill(self, now_s: float) -> None:
        """Dispatch what may go: from one lane only where a batch has to end before the next one begins."""
        mode, scheduler = self._mode, self._scheduler
        if not mode.open:
            return
        if self._lifecycle.crash_suspects.suspects:
            self._send_alone(now_s)
            return
        if Rung.BYPASS in mode.in_force:
            self._send_beside(now_s)
        for lane, most_seats in scheduler.leaving(now_s):
            if self._send(lane, most_seats, now_s) and scheduler.strategy.barrier:
                return

    # ------------------------------------------------------------------ inside

    def _send(self, lane: Lane, most_seats: int, now_s: float) -> bool:
        """Dispatch from the head of a lane as far as the seats go. Whether any ticket went."""
        scheduler, lifecycle = self._scheduler, self._lifecycle
        scheduler.open_batch(now_s)
        sheds = _MAX_SHED
        while scheduler.batch_seats < most_seats and self.patience:
            ticket = scheduler.next(lane, now_s)
            if ticket is None:
                break
            record = lifecycle.records[ticket.id]
            if self._too_late(record, now_s):
                self.patience -= 1
            elif self._misses_objective(record, 0.0, now_s):
                self._refuse(record, Reason.OBJECTIVE_UNREACHABLE, now_s)
            elif sheds and (hopeless := self._hopeless(record, now_s)) is not None:
                self._refuse(record, hopeless, now_s)
                sheds = sheds - 1 if hopeless is Reason.OBJECTIVE_UNREACHABLE else 0
            else:
                lifecycle.dispatch(record, now_s)
                sheds = _MAX_SHED
        return scheduler.batch_seats > 0

    def _refuse(self, record: Record, reason: Reason, now_s: float) -> None:
        """Refuse a ticket whose first token would come too late."""
        self._lifecycle.refuse_all((record.ticket,), reason, now_s)
        self.patience -= 1
        if reason is Reason.OBJECTIVE_UNREACHABLE:
            self._objectives.cut(record.queue_class, now_s)

    def _send_beside(self, now_s: float) -> None:
        """Dispatch what may go beside the batch, as far as the seats of the bypass go."""
        scheduler, in_force = self._scheduler, self._mode.in_force
        while self.patience and (ticket := scheduler.next_beside(in_force, self._ceiling, now_s)) is not None:
            self.patience -= 1
            record = self._lifecycle.records[ticket.id]
            if not self._too_late(record, now_s):
                self._lifecycle.dispatch_beside(record, now_s)

    def _send_alone(self, now_s: float) -> None:
        """Dispatch the next suspect, when no other runs alone; all other tickets once there is none left."""
        crash_suspects, scheduler = self._lifecycle.crash_suspects, self._scheduler
        while (ticket_id := crash_suspects.next()) is not None:
            record = self._lifecycle.records[ticket_id]
            if self._too_late(record, now_s):
                continue
            if not scheduler.fits(record.ticket):  # one that was cleared runs on
                return
            scheduler.open_batch(now_s)
            self._lifecycle.dispatch(record, now_s)
            crash_suspects.sent(ticket_id, now_s + self._mode.preset.recovery.probation_s)
            return
        if not crash_suspects.suspects:
            self.fill(now_s)

    def _hopeless(self, record: Record, now_s: float) -> Reason | None:
        """Why its first token would come too late by prediction: then another ticket makes better use of the seat."""
        least_s = self._forecast.first_token_s(record.ticket)
        likely_s = self._forecast.likely_first_token_s(record.ticket)
        if least_s is None or likely_s is None:
            return None
        sheds = self._mode.preset.queue.shed_unreachable and self._scheduler.queue.total.requests > 1
        if sheds and self._misses_deadline(record, now_s + least_s):
            return Reason.DEADLINE_UNREACHABLE
        return Reason.OBJECTIVE_UNREACHABLE if self._misses_objective(record, likely_s, now_s) else None

    def _misses_deadline(self, record: Record, token_s: float) -> bool:
        """Whether a first token at that time would be too late for one of its time-outs."""
        if record.queue_due_s is None or token_s <= record.queue_due_s:
            return False
        due = record.run_due()
        return due is not None and token_s > due[0]

    def _misses_objective(self, record: Record, delay_s: float, now_s: float) -> bool:
        """Whether its queue stands, and a first token after ``delay_s`` would miss its objective."""
        alone = self._scheduler.queue.total.requests == 1
        return self._objectives.unreachable(record, delay_s, now_s, alone=alone)

    def _too_late(self, record: Record, now_s: float) -> bool:
        """Whether it has waited too long: then it expires."""
        if record.queue_due_s is None or record.queue_due_s > now_s:
            return False
        self._time_is_up(record, now_s)
        return True

    def _time_is_up(self, record: Record, now_s: float) -> None:
        """A deadline has come: a waiting ticket expires, a running one is given up unless tokens came meanwhile."""
        if record.phase is Phase.WAITING:
            self._lifecycle.refuse(record, Reason.QUEUE_TIMEOUT, now_s)
        elif (due := record.run_due()) is not None and due[0] <= now_s:
            self._lifecycle.abort(record, due[1])
        else:
            self._lifecycle.watch(record)
