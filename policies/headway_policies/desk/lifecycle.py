"""The lifecycle of a ticket: the one writer of its record, and of the books that follow it.

Each step takes its transition from the table, changes the record, keeps the books (the queue, the seats, deadlines,
what is expected and learnt, the ledger), and adds the effect that the shell must carry out. Other modules decide that
a step is taken.

    step              transition            effect
    refuse_arrival   no record is made      Reject
    enqueue           to WAITING            none
    relegate          WAITING               none
    seat_arrival      to RUNNING            as dispatch
    dispatch          WAITING -> RUNNING    Dispatch, and Degrade before it where it gets less than it asked for
    refuse            WAITING -> ENDED      Reject, or Expire where its time ran out
    requeue           RUNNING -> WAITING    Requeue
    recall            RUNNING -> WAITING    Recall
    abort             RUNNING -> SETTLED    Abort
    leave             any -> ENDED          none; SETTLED instead, while the engine still has sequences of it
    reseat            SETTLED -> ENDED      none; only when the last of these sequences has left the engine
    engine_gone       the same              none
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headway_policies.desk.books.deadlines import Deadlines
from headway_policies.desk.books.ledger import Ledger
from headway_policies.desk.books.record import Record
from headway_policies.desk.books.transitions import Event, Phase, after
from headway_policies.desk.effects import Abort, Degrade, Dispatch, Effect, Expire, Recall, Reject, Requeue
from headway_policies.desk.forecast import Forecast
from headway_policies.desk.mode import Mode, Stages
from headway_policies.desk.objectives import Objectives
from headway_policies.desk.retry_after import DrainRate
from headway_policies.desk.scheduler import Scheduler
from headway_policies.engine import CrashSuspects
from headway_policies.fallback import capped_tokens
from headway_policies.request import LEFT, Decision, Ending, Reason, Ticket, Usage

#: The state of an arrival that was queued, when its event ends.
_DECISIONS = {Phase.RUNNING: Decision.SEATED, Phase.WAITING: Decision.QUEUED, Phase.ENDED: Decision.REJECTED}


class Lifecycle:
    """All tickets that are here: those that wait, those that run, and those that ended and still occupy seats.

    ``effects`` belongs to the event under way: the desk opens it empty, each step adds to it, and the desk hands it
    over when the event is done. ``unstarted`` are those that were dispatched and have no token yet, in that order;
    ``sent_tokens`` counts the prompt tokens of all that were dispatched.
    """

    def __init__(
        self, mode: Mode, scheduler: Scheduler, forecast: Forecast, objectives: Objectives, ledger: Ledger
    ) -> None:
        self.records: dict[int, Record] = {}
        self.unstarted: dict[int, Record] = {}
        self.sent_tokens = 0
        self.effects: list[Effect] = []
        self.deadlines = Deadlines()
        self.crash_suspects = CrashSuspects()
        self._drain_rate = DrainRate()
        self._mode = mode
        self._capacity = scheduler.capacity
        self._scheduler = scheduler
        self._seats = scheduler.seats
        self._forecast = forecast
        self._objectives = objectives
        self._ledger = ledger

    def dispatched(self) -> Iterator[Record]:
        """The records of tickets that were dispatched and are still here."""
        return (record for record in self.records.values() if record.phase is not Phase.WAITING)

    def retry_after_s(self, now_s: float) -> int:
        """Whole seconds after which a refused client may be served."""
        freed_per_s = self._forecast.turnover_per_s(self._capacity.limit)
        return self._drain_rate.retry_after_s(self._scheduler.queue.total.seats, freed_per_s, now_s)

    # ------------------------------------------------------------------ arrival

    def refuse_arrival(self, ticket: Ticket, reason: Reason, now_s: float) -> None:
        """Refuse the ticket on arrival."""
        self._note_lack()
        self._ledger.classes[ticket.class_name].refused_on_arrival(reason)
        self.effects.append(Reject(ticket.id, reason, self.retry_after_s(now_s)))

    def enqueue(self, ticket: Ticket, stages: Stages, queue_due_s: float | None, now_s: float) -> Record:
        """A new ticket takes its place in the queue."""
        counts = self._ledger.classes[ticket.class_name]
        counts.arrived += 1
        counts.queued += 1
        record = self._expect(ticket, stages, queue_due_s)
        self._join(record, now_s)
        return record

    def relegate(self, record: Record, now_s: float) -> bool:
        """Put the ticket behind all of its class whose first tokens can still be in time; False: impossible."""
        record.late = self._scheduler.queue.relegate(record.ticket, record.queue_class, record.lane, now_s)
        return record.late

    def seat_arrival(self, ticket: Ticket, stages: Stages, queue_due_s: float | None, now_s: float) -> None:
        """A new ticket gets its seats at once. The queue is empty: only the order has to book the ticket."""
        self._ledger.classes[ticket.class_name].seated()
        self._scheduler.open_batch(now_s)
        record = self._expect(ticket, stages, queue_due_s, Phase.RUNNING)
        order = record.lane.order
        order.push(ticket, record.queue_class, record.expected_tokens, now_s)
        self._take_seats(record)
        order.remove(ticket.id)
        self._start(record, now_s)
        if stages.first_s is not None:
            self.deadlines.set(ticket.id, ticket.arrived_s + stages.first_s)

    def answered(self, record: Record, now_s: float) -> None:
        """The event in which a ticket was queued ends: set the deadline of its run, or where it has not gone that of
        its wait; it is refused instead where its client will not wait.
        """
        if record.phase is Phase.WAITING and not record.ticket.may_wait:
            self._note_lack()
            self.refuse(record, Reason.NO_FREE_SEAT, now_s)
        if record.phase is Phase.RUNNING:
            self.deadlines.watch(record)
        elif record.phase is Phase.WAITING:
            if self._mode.open:
                record.predicted_wait_s = self._scheduler.predicted_wait_s(record.ticket)
            self.deadlines.renew(record)
        self._ledger.classes[record.ticket.class_name].decisions[_DECISIONS[record.phase]] += 1

    def enqueue_again(self, waiting: Iterable[Ticket]) -> None:
        """Give every waiting ticket a place in a new order; the books of the old one are closed."""
        for record in self.records.values():
            record.charged = False
        for ticket in waiting:
            record = self.records[ticket.id]
            record.late = False
            self._place(record)
            self._push(record, ticket.arrived_s)

    # ------------------------------------------------------------------ on the way

    def dispatch(self, record: Record, now_s: float, *, beside: bool = False) -> None:
        """Move the ticket from its place in the queue to its seats; ``beside`` a batch to seats of the bypass."""
        ticket = record.ticket
        self._take_seats(record, beside=beside)
        self._scheduler.queue.remove(record.ticket, record.queue_class, record.lane, now_s)
        record.phase = after(record.phase, Event.DISPATCH)
        if record.predicted_wait_s is not None:
            self._forecast.waited(record.predicted_wait_s, now_s - ticket.arrived_s)
        self._ledger.classes[ticket.class_name].dispatched()
        self._drain_rate.departed(record.seats, now_s)
        self._start(record, now_s)

    def first_token(self, record: Record, now_s: float) -> None:
        """Note the first token of a request."""
        record.first_s = record.token_s = now_s
        self.unstarted.pop(record.ticket.id, None)
        self._forecast.first_token(record, now_s)
        if record.crash is None:
            slo_s = self._objectives.resolved(self._scheduler.class_of(record.ticket)).ttft_s
            self._scheduler.first_token(now_s - record.ticket.arrived_s, slo_s)
        if record.timeouts.stall_s is not None:
            self.deadlines.hasten(record.ticket.id, now_s + record.timeouts.stall_s)

    def token(self, record: Record, now_s: float) -> None:
        """More tokens are here. Only noted: the stall time-out is checked when it is due."""
        record.token_s = now_s

    def reseat(self, record: Record, sequences: int, now_s: float) -> None:
        """The engine has so many sequences of it: no more than before once it is settled. Without any it is no suspect:
        the engine has survived it.
        """
        if not record.seats and record.token_s is not None:
            record.token_s = now_s  # a follow-up call begins: the engine owes its first token from now on
        if record.phase is Phase.SETTLED:
            sequences = min(sequences, record.sequences)
        self._occupy(record, sequences, now_s)
        if not sequences:
            self.crash_suspects.drop(record.ticket.id)
        if record.phase is Phase.RUNNING and record.timeouts.stall_s is not None:
            self.deadlines.watch(record)

    def engine_gone(self, record: Record, now_s: float) -> None:
        """The engine is gone, and every sequence of it with it."""
        self._occupy(record, 0, now_s)

    def requeue(self, record: Record, now_s: float) -> None:
        """The engine died under it: it waits again as if it had sent no output, a suspect, and any turn will do."""
        ticket = record.ticket
        record.phase = after(record.phase, Event.REQUEUE)
        self._ledger.classes[ticket.class_name].requeued()
        record.uncharge()
        record.crash = self.crash_suspects.crashes
        record.token_s = record.predicted_wait_s = None
        record.late = False
        self.unstarted.pop(ticket.id, None)
        left = record.run_due()
        record.queue_due_s = None if left is None else left[0]
        self._place(record)
        self._join(record, now_s)
        self.crash_suspects.suspect(ticket.id)
        self.deadlines.renew(record)
        self.effects.append(Requeue(ticket.id))

    def recall(self, record: Record, now_s: float) -> None:
        """Take back the ticket's seats before its first token; it waits in its own place again, with its own deadline.

        The engine may compute its prompt for a moment longer: its seats are free at once all the same.
        """
        ticket = record.ticket
        record.phase = after(record.phase, Event.RECALL)
        self._ledger.classes[ticket.class_name].recalled()
        record.uncharge()
        record.recalled, record.late, record.predicted_wait_s = True, False, None
        self._forget_seats(record)
        self._place(record)  # a switch may have replaced the order from which it was dispatched
        patience_s = record.timeouts.before_first_token_s()
        record.queue_due_s = None if patience_s is None else ticket.arrived_s + patience_s
        if not self._scheduler.queue.total.requests:
            self._drain_rate.began(now_s)
        self._scheduler.queue.restore(ticket, record.queue_class, record.lane, record.expected_tokens, now_s)
        self.deadlines.renew(record)
        self.effects.append(Recall(ticket.id))

    # ------------------------------------------------------------------ out

    def refuse_all(self, tickets: Iterable[Ticket], reason: Reason, now_s: float) -> None:
        """Refuse these waiting tickets, all with the same Retry-After."""
        retry_after_s = self.retry_after_s(now_s)
        for ticket in tickets:
            self._end_waiting(self.records[ticket.id], reason, now_s)
            self.effects.append(Reject(ticket.id, reason, retry_after_s))

    def refuse(self, record: Record, reason: Reason, now_s: float) -> None:
        """Refuse a waiting ticket."""
        self._end_waiting(record, reason, now_s)
        how = Expire if reason is Reason.QUEUE_TIMEOUT else Reject
        self.effects.append(how(record.ticket.id, reason, self.retry_after_s(now_s)))

    def abort(self, record: Record, reason: Reason) -> None:
        """Give up a running ticket. The engine may still occupy its seats."""
        record.phase = after(record.phase, Event.ABORT)
        self._ledger.classes[record.ticket.class_name].refused(reason, waiting=False)
        self._drop(record.ticket.id)
        self.effects.append(Abort(record.ticket.id, reason))

    def leave(self, record: Record, ending: Ending, usage: Usage | None, sequences: int, now_s: float) -> None:
        """The request is over, however it ended; the engine still has so many sequences of it, and they their seats."""
        ticket, phase = record.ticket, record.phase
        waiting = phase is Phase.WAITING
        del self.records[ticket.id]
        self._drop(ticket.id)
        if waiting:
            self._scheduler.queue.remove(record.ticket, record.queue_class, record.lane, now_s)
        if phase is not Phase.SETTLED:
            self._ledger.classes[ticket.class_name].ended(LEFT[ending][0 if waiting else 1], waiting=waiting)
        if not waiting:
            record.settle(usage)
            if usage is not None and ending is Ending.COMPLETED:
                self._forecast.completed(record, usage, now_s)
            self._occupy(record, min(sequences, record.sequences), now_s)
        record.phase = after(phase, Event.LEAVE_EARLY if record.sequences else Event.LEAVE)
        if record.sequences:
            record.left = True
            self.records[ticket.id] = record

    # ------------------------------------------------------------------ inside

    def _expect(self, ticket: Ticket, stages: Stages, due_s: float | None, phase: Phase = Phase.WAITING) -> Record:
        """Make the record of a new ticket without a place, with its expected tokens."""
        output_tokens = self._forecast.lengths.output_tokens(ticket)
        record = self.records[ticket.id] = Record(
            ticket,
            stages.timeouts,
            self._scheduler.lane(output_tokens, learn=True),
            ticket.class_name,
            ticket.seats * (ticket.prompt_tokens + output_tokens),
            due_s,
            phase,
        )
        return record

    def _place(self, record: Record) -> None:
        """Find the ticket's class and lane under the preset in force."""
        record.queue_class = self._scheduler.class_of(record.ticket)
        record.lane = self._scheduler.lane(self._forecast.lengths.output_tokens(record.ticket), learn=False)

    def _join(self, record: Record, now_s: float) -> None:
        """Put the ticket in its place in the queue, perhaps as the first."""
        if not self._scheduler.queue.total.requests:
            self._drain_rate.began(now_s)
        self._push(record, now_s)

    def _push(self, record: Record, now_s: float) -> None:
        place = record.ticket, record.queue_class, record.lane, record.expected_tokens
        self._scheduler.queue.push(*place, now_s, dispatched_before=record.recalled or record.crash is not None)

    def _take_seats(self, record: Record, *, beside: bool = False) -> None:
        """Give a ticket seats of the limit, or of the bypass, and charge its order."""
        ticket, queue_class = record.ticket, record.queue_class
        record.charge()
        granted = ticket.seats if beside else self._seats.needed(queue_class, ticket.seats, self._capacity.limit)
        record.granted, record.beside = granted, beside
        self._has(record, granted, ticket.seats)
        if not beside:
            self._scheduler.batch_seats += granted

    def _has(self, record: Record, seats: int, sequences: int) -> None:
        """Book its seats, and its sequences in the engine."""
        books, more = self._seats, seats - record.seats
        books.overflow += sequences - record.sequences - more
        if record.beside:
            books.beside += more
        elif more:
            books.take(record.queue_class, more, record.ticket.total_tokens * (bool(seats) - bool(record.seats)))
        if record.ticket.adapter is not None and bool(sequences) != bool(record.sequences):
            self._scheduler.queue.adapters.has(record.ticket.adapter, 1 if sequences else -1)
        record.seats, record.sequences = seats, sequences

    def _start(self, record: Record, now_s: float) -> None:
        """Give the ticket its seats: the engine may have it."""
        ticket, mode, pacer = record.ticket, self._mode, self._capacity.pacer
        record.dispatched_s = record.seated_s = now_s
        record.seat_s, record.freed_s, record.again, record.revision = 0.0, None, False, mode.revision
        self.unstarted[ticket.id] = record
        tokens = ticket.seats * ticket.prompt_tokens
        self.sent_tokens += tokens
        if pacer is not None:
            pacer.sent(ticket.id, tokens, ticket.seats, now_s, alone=self._seats.taken == record.seats)
        self._objectives.dispatched(record, now_s)
        if mode.in_force:
            most_tokens = capped_tokens(ticket, mode.terms(ticket), mode.in_force)
            if most_tokens is not None:
                self.effects.append(Degrade(ticket.id, most_tokens))
        batch = 0 if record.beside else self._scheduler.batch
        self.effects.append(Dispatch(ticket.id, mode.revision, batch, record.beside))

    def _occupy(self, record: Record, sequences: int, now_s: float) -> None:
        """The engine has so many sequences of a dispatched ticket from now on.

        A ticket wider than the limit occupies no more seats than it was given: the others overflow into the engine's
        own queue.
        """
        if sequences == record.sequences:
            return
        before = record.seats
        if sequences and not before:
            record.seated(now_s)
        if before and not sequences:
            record.freed(now_s)
            self._forecast.seats_free(record, now_s)
            self._unpace(record)
        seats = min(sequences, record.granted) if record.ticket.seats > record.granted else sequences
        self._has(record, seats, sequences)
        if seats != before and not record.beside:
            self._scheduler.seats_freed(now_s)
        if record.left and not sequences:  # only its sequences were left, and the last of them is gone
            record.phase = after(record.phase, Event.RELEASE)
            del self.records[record.ticket.id]

    def _note_lack(self) -> None:
        """A new ticket is refused: where no seat is free, it lacked one."""
        if self._seats.taken >= self._capacity.limit:
            self._capacity.lacked()

    def _end_waiting(self, record: Record, reason: Reason, now_s: float) -> None:
        record.phase = after(record.phase, Event.REFUSE)
        del self.records[record.ticket.id]
        self._drop(record.ticket.id)
        self._scheduler.queue.remove(record.ticket, record.queue_class, record.lane, now_s)
        self._ledger.classes[record.ticket.class_name].refused(reason, waiting=True)

    def _forget_seats(self, record: Record) -> None:
        """Take the ticket's seats off the books; nothing is learnt from how long it had them."""
        self.unstarted.pop(record.ticket.id, None)
        self._unpace(record)
        self._has(record, 0, 0)

    def _unpace(self, record: Record) -> None:
        """The engine computes its prompt no more."""
        if self._capacity.pacer is not None:
            self._capacity.pacer.gone(record.ticket.id)

    def _drop(self, ticket_id: int) -> None:
        self.unstarted.pop(ticket_id, None)
        self.deadlines.drop(ticket_id)
        if self.crash_suspects.suspects:
            self.crash_suspects.drop(ticket_id)
