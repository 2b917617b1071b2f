"""Dispatch: which tickets go to the engine now, and which have run out of time.

    suspects after a crash   one after another, and no other ticket; cleared ones run on beside them (crash_suspects)
    the bypass               tickets that may take one of the few seats beside a batch (fallback)
    all other tickets        in the order of the scheduler, as far as its strategy and the seats allow

When its turn comes, a ticket past its deadline expires instead. A ticket whose first token is expected after three
quarters of its objective (earlier in an overload that costs tickets) gives its turn to those of its class that are not
relegated, unless it takes more than half of the seats of its class at once, or its tenant demands far less than its
share (``queueing.fair_share``). The dispatcher relegates it behind them.
Relegated tickets go when no other of their class waits, the one relegated last first. Where the preset says so, a
ticket that would miss a time-out is refused, at most one before each of its class that is dispatched. A ticket is
refused for its objective only while its class is overloaded, once the objective has passed or cannot be kept any more:

    of those relegated       when another of their class has been dispatched in the same event; where tickets of less
                             urgent classes wait, those that are left when no seat is free any more
    the last not relegated   if it is late even in an idle engine, others were refused shortly before, and no less
                             urgent ticket waits or was dispatched since it arrived
    in other orders          (these cannot relegate) after each dispatch the next ticket, if it is of the same class

A ticket that a less urgent one has passed beside its order (a suspect, the bypass, the batch of another bin, or while
tickets are aside) is not refused for its objective. A ticket is set aside whose adapter the engine could not begin with
(``queueing.adapters``).
"""

from __future__ import annotations

from itertools import islice

from headway_policies.desk.books.record import Record
from headway_policies.desk.books.transitions import Phase
from headway_policies.desk.forecast import Forecast
from headway_policies.desk.lifecycle import Lifecycle
from headway_policies.desk.mode import Mode
from headway_policies.desk.objectives import Objectives
from headway_policies.desk.room import Room
from headway_policies.desk.scheduler import Scheduler
from headway_policies.fallback import Rung
from headway_policies.queueing import Lane
from headway_policies.request import Reason, Ticket

#: The longest time that reading what came in a standstill is waited for.
_MOST_UNREAD_S = 30.0
SLICE = 200  # the ``patience`` of one event: about a millisecond


class Dispatcher:
    """Decides which tickets are dispatched.

    ``patience`` is how many more deadlines, refusals, relegations, recalls, returns of tickets that were set aside and
    dispatches beside a batch this event may handle; at 0 the desk asks to be woken again at once.
    """

    def __init__(
        self, mode: Mode, scheduler: Scheduler, lifecycle: Lifecycle, forecast: Forecast, objectives: Objectives
    ) -> None:
        self._room = Room(mode, scheduler, lifecycle, forecast)
        self.patience = SLICE
        self._shed: dict[str, int] = {}  # by class: 1 from a refusal for a time-out to the next dispatch
        self._mode = mode
        self._capacity = scheduler.capacity
        self._scheduler = scheduler
        self._lifecycle = lifecycle
        self._forecast = forecast
        self._objectives = objectives
        self._unread_until_s = 0.0

    def stood_still(self, for_s: float, now_s: float) -> None:
        """The shell stood still for so long: about as long it reads what the engine sent meanwhile."""
        self._unread_until_s = max(self._unread_until_s, now_s + min(for_s, _MOST_UNREAD_S))

    def settle_due(self, now_s: float) -> None:
        """Before an event: settle the deadlines that have come, a slice at a time; clear the suspect that has run long
        enough; dispatch what may go after that.
        """
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
        """Dispatch what may go: one batch of one lane under a barrier; under other strategies there is one lane."""
        mode, scheduler = self._mode, self._scheduler
        if not mode.open:
            return
        if self._lifecycle.crash_suspects.suspects:
            self._send_alone(now_s)
            return
        if Rung.BYPASS in mode.in_force:
            self._send_beside(now_s)
        if not scheduler.queue.total.requests:
            return
        if scheduler.queue.adapters.lines:  # those that an event before this one left over
            for adapter in scheduler.queue.adapters.returning():
                self._return(adapter, now_s)
        if scheduler.strategy.barrier:
            self._send_batch(now_s)
            return
        full = scheduler.seats.taken >= self._capacity.limit
        if full:
            self._capacity.lacked()
            self._capacity.paced = False
        if not full or scheduler.next_beyond(scheduler.queue.lanes[0], now_s) is not None:
            self._send(scheduler.queue.lanes[0], self._capacity.limit, now_s)
        if scheduler.queue.total.requests and self._make_room(now_s):
            self.fill(now_s)  # the one that made room may have had more seats

    # ------------------------------------------------------------------ inside

    def _send_batch(self, now_s: float) -> None:
        """Dispatch the first batch that may leave and has a ticket to go."""
        if not self._scheduler.seats.taken:  # each adapter has a place again
            for adapter in [*reversed(self._scheduler.queue.adapters.lines)]:
                self._return(adapter, now_s)
            if self._scheduler.queue.adapters.lines:
                return
        found = self._scheduler.leaving(now_s)
        if any(gathered.full for _, gathered, _ in found):
            self._capacity.lacked()
        for lane, _, most_seats in found:
            if self._send(lane, most_seats, now_s):
                return

    def _make_room(self, now_s: float) -> bool:
        """Give the seats of a running ticket that has no token yet to a more urgent one, unless that leaves its turn to
        others of its class. Whether either has changed what goes next.
        """
        pair = self._room.make(now_s) if self.patience else None
        if pair is None:
            return False
        urgent, victim = pair
        self.patience -= 1
        if not self._gives_way(urgent, now_s):
            self._room.made(victim)
            self._lifecycle.recall(victim, now_s)
            self._lifecycle.dispatch(urgent, now_s)
        return True

    def _send(self, lane: Lane, most_seats: int, now_s: float) -> bool:
        """Dispatch from the head of a lane while seats are free. Whether any ticket went."""
        scheduler, cut_when_full = self._scheduler, dict[str, Record]()
        scheduler.open_batch(now_s)
        while scheduler.batch_seats < most_seats and self.patience:
            ticket, lacks = scheduler.next(lane, now_s)
            if lacks:
                self._capacity.lacked(lacks)
            if ticket is None:
                break
            record = self._lifecycle.records[ticket.id]
            if not scheduler.queue.adapters.may_go(ticket):
                scheduler.queue.set_aside(ticket, record.queue_class, record.lane, now_s)
                self.patience -= 1
                continue
            if self._too_late(record, now_s) or self._gives_way(record, now_s):
                self.patience -= 1
                continue
            if scheduler.queue.adapters.lines:
                self._objectives.passed(record.queue_class, now_s)
                self._rejoin(ticket, now_s)
            self._lifecycle.dispatch(record, now_s)
            self._shed[record.queue_class] = 0
            if self._objectives.below_waits(record.queue_class):
                # a late ticket of this class gets the next seat before a less urgent one does: cut when none is left
                cut_when_full[record.queue_class] = record
            else:
                self._cut(record, now_s)
        for name, record in cut_when_full.items():
            if scheduler.closed_to(name) or scheduler.batch_seats >= most_seats:
                self._cut(record, now_s)
        return scheduler.batch_seats > 0

    def _rejoin(self, ticket: Ticket, now_s: float) -> None:
        """Where a ticket was set aside, put those of its adapter back into their places, this one at the head."""
        if ticket.adapter is not None and self._scheduler.queue.adapters.holds(ticket):
            self._return(ticket.adapter, now_s, but=ticket.id)
            self._put_back(self._lifecycle.records[ticket.id], now_s)

    def _return(self, adapter: str, now_s: float, but: int | None = None) -> None:
        """Put those of an adapter that were set aside back into their places, ``but`` one, as far as the slice goes.

        The last goes first where each is put before all that are here: the first of those left aside, which may be
        claimed meanwhile, are before them. A custom policy gets them in the order in which they were set aside.
        """
        queue = self._scheduler.queue
        line = queue.adapters.lines[adapter]
        others = (ticket_id for ticket_id in (reversed(line) if queue.restores else line) if ticket_id != but)
        for ticket_id in [*islice(others, self.patience)]:
            self.patience -= 1
            self._put_back(self._lifecycle.records[ticket_id], now_s)

    def _put_back(self, record: Record, now_s: float) -> None:
        """Put a ticket that was set aside back into its place; a late one is behind the others of its class again."""
        queue = self._scheduler.queue
        queue.rejoin(record.ticket, record.queue_class, record.lane, record.expected_tokens, now_s)
        if record.late:
            self._lifecycle.relegate(record, now_s)

    def _gives_way(self, record: Record, now_s: float) -> bool:
        """Whether a ticket leaves its turn: it is relegated, or refused. False: it is dispatched.

        A ticket that needs more than half of the seats of its class is not relegated: others would take the seats that
        it has waited for, for as long as any come.
        """
        if record.late or self._scheduler.queue.adapters.holds(record.ticket):
            return False
        if not self._others_in_time(record):
            return self._is_last_and_lost(record, now_s)
        if self._mode.preset.queue.shed_unreachable and self._misses_deadline(record, now_s):
            return self._shed_once(record, Reason.DEADLINE_UNREACHABLE, now_s)
        if self._scheduler.is_wide(record.ticket):
            return False
        likely_s = self._forecast.likely_first_token_s(record.ticket) or 0.0
        if not self._objectives.gives_way(record, likely_s, now_s):
            return False
        if self._scheduler.queue.owed(record.ticket, record.lane):
            return False
        return self._lifecycle.relegate(record, now_s)

    def _is_last_and_lost(self, record: Record, now_s: float) -> bool:
        """Whether the last of its class that is not relegated is refused: its first token is too late in any case, in
        an overload of its class that has cost others, and no less urgent ticket gets its seat, now or since it arrived.
        """
        objectives, name = self._objectives, record.queue_class
        if not objectives.contested(name, now_s) or not objectives.lost(record, now_s):
            return False
        if not objectives.used_up(name, now_s):
            return False
        if objectives.below_waits(name) or objectives.below_sent(name, record.ticket.arrived_s):
            return False
        self._refuse(record, Reason.OBJECTIVE_UNREACHABLE, now_s)
        return True

    def _others_in_time(self, record: Record) -> bool:
        """Whether other tickets of its class wait that have not been relegated."""
        queue, lane, name = self._scheduler.queue, record.lane, record.queue_class
        return lane.order.waiting(name) - queue.late(name, lane) > 1

    def _shed_once(self, record: Record, reason: Reason, now_s: float) -> bool:
        """Refuse a ticket in favour of the next of its class, which goes in any case. Whether it was refused."""
        if self._shed.get(record.queue_class):
            return False
        self._shed[record.queue_class] = 1
        self._refuse(record, reason, now_s)
        return True

    def _cut(self, sent: Record, now_s: float) -> None:
        """A ticket went: in an overload those of its class are refused that wait behind all others and are too late.
        None is while the class has not been given what its share guarantees it.
        """
        queue, lane, name = self._scheduler.queue, sent.lane, sent.queue_class
        if sent.late or not self._objectives.overloaded(name, now_s) or not self._objectives.used_up(name, now_s):
            return
        if not queue.relegates(lane):
            self._cut_next(sent, now_s)
            return
        while self.patience and (ticket := queue.first_late(name, lane)) is not None:
            if not self._cut_if_late(self._lifecycle.records[ticket.id], now_s):
                return

    def _cut_next(self, sent: Record, now_s: float) -> None:
        """The same where no ticket is relegated: the next of the lane, if it is of that class."""
        ticket = self._scheduler.head(sent.lane, now_s)
        record = None if ticket is None else self._lifecycle.records[ticket.id]
        if record is not None and record.queue_class == sent.queue_class:
            self._cut_if_late(record, now_s)

    def _cut_if_late(self, record: Record, now_s: float) -> bool:
        """Refuse a ticket whose objective has passed, unless a less urgent one passed it beside the order between the
        classes. Whether it was refused.
        """
        passed = self._objectives.passed_over(record.queue_class, record.ticket.arrived_s)
        if passed or not self._objectives.late(record, 0.0, now_s):
            return False
        self._refuse(record, Reason.OBJECTIVE_UNREACHABLE, now_s)
        return True

    def _refuse(self, record: Record, reason: Reason, now_s: float) -> None:
        """Refuse a ticket whose first token would come too late."""
        self._lifecycle.refuse_all((record.ticket,), reason, now_s)
        self.patience -= 1
        if reason is Reason.OBJECTIVE_UNREACHABLE:
            self._objectives.cut(record.queue_class, now_s)

    def _send_beside(self, now_s: float) -> None:
        """Dispatch to the bypass, beside the batch, while it has free seats."""
        scheduler, in_force = self._scheduler, self._mode.in_force
        while self.patience and (ticket := scheduler.next_beside(in_force, now_s)) is not None:
            self.patience -= 1
            record = self._lifecycle.records[ticket.id]
            if not self._too_late(record, now_s):
                self._lifecycle.dispatch(record, now_s, beside=True)

    def _send_alone(self, now_s: float) -> None:
        """Dispatch the next suspect if no other suspect runs, and all other tickets after the last suspect."""
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

    def _misses_deadline(self, record: Record, now_s: float) -> bool:
        """Whether the earliest expected first token is too late for a time-out of the ticket."""
        least_s = self._forecast.first_token_s(record.ticket)
        if least_s is None or record.queue_due_s is None or now_s + least_s <= record.queue_due_s:
            return False
        due = record.run_due()
        return due is not None and now_s + least_s > due[0]

    def _too_late(self, record: Record, now_s: float) -> bool:
        """Whether a ticket has waited too long: then it expires."""
        if record.queue_due_s is None or record.queue_due_s > now_s:
            return False
        self._time_is_up(record, now_s)
        return True

    def _time_is_up(self, record: Record, now_s: float) -> None:
        """A deadline has come: a waiting ticket expires, a running one is given up unless tokens came meanwhile.

        Whether they came is known once the shell has read all that was sent while it stood still.
        """
        if record.phase is Phase.WAITING:
            self._lifecycle.refuse(record, Reason.QUEUE_TIMEOUT, now_s)
        elif (due := record.run_due()) is not None and due[0] <= now_s:
            if now_s < self._unread_until_s:
                self._lifecycle.deadlines.set(record.ticket.id, self._unread_until_s)
            else:
                self._lifecycle.abort(record, due[1])
        else:
            self._lifecycle.deadlines.watch(record)
