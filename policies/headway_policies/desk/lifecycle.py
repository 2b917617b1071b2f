"""What becomes of a ticket?

Each step of a ticket's life after it was counted as arrived, with the books it touches: its place or its seats, its
deadline, what was expected of it and what is learnt, and the ledger. Whoever decides that a step is taken is not asked
here why.

    step      from        to          books
    expect    nowhere     WAITING     the record, with the length it is expected to have
    sent      WAITING     RUNNING     the ledger, the forecast; the scheduler has given it its seats
    recall    RUNNING     WAITING     a place again, its old charge undone, another deadline, a suspect from now on
    settle    RUNNING     SETTLED     the outcome; the engine may still hold its seats
    refuse    WAITING     nowhere     the outcome
    close     any         nowhere     the outcome, unless it had one; what it really used
              RUNNING     SETTLED     the same, while the engine still has sequences of it
    reseat    SETTLED     nowhere     none: the last of its sequences has left the engine
    withdraw  any         nowhere     none: whoever calls it writes the outcome
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from headway_policies.desk.deadlines import Deadlines
from headway_policies.desk.forecast import Forecast
from headway_policies.desk.ledger import Ledger
from headway_policies.desk.record import Phase, Record
from headway_policies.desk.scheduler import Scheduler
from headway_policies.engine import CrashSuspects
from headway_policies.request import LEFT, Ending, Reason, Ticket, Timeouts, Usage


@dataclass(slots=True)
class Lifecycle:
    """Everybody who is in: who waits, who runs, and who has an outcome but not yet left the engine."""

    scheduler: Scheduler
    forecast: Forecast
    ledger: Ledger
    deadlines: Deadlines = field(default_factory=Deadlines)
    crash_suspects: CrashSuspects = field(default_factory=CrashSuspects)
    records: dict[int, Record] = field(default_factory=dict)

    def dispatched(self) -> Iterator[Record]:
        """Who was let through and has not left yet."""
        return (record for record in self.records.values() if record.phase is not Phase.WAITING)

    # ------------------------------------------------------------------ in

    def expect(self, ticket: Ticket, timeouts: Timeouts, queue_due_s: float | None) -> Record:
        """Enter a newcomer, with what is expected of it; it has no place yet."""
        output_tokens = self.forecast.output_tokens(ticket)
        record = self.records[ticket.id] = Record(
            ticket,
            timeouts,
            self.scheduler.lane(output_tokens, learn=True),
            ticket.class_name,
            expected_tokens=ticket.seats * (ticket.prompt_tokens + output_tokens),
            queue_due_s=queue_due_s,
        )
        return record

    def file_again(self, waiting: list[Ticket]) -> None:
        """Everybody takes a place in a new order; the books of the old one are closed."""
        for record in self.records.values():
            record.charged = False
        for ticket in waiting:
            record = self.records[ticket.id]
            self._file(record)
            self.scheduler.enter(record, ticket.arrived_s)

    # ------------------------------------------------------------------ on the way

    def sent(self, record: Record, revision: int, now_s: float) -> None:
        """It has its seats: the engine may have it."""
        self.forecast.dispatched(record, now_s)
        self.ledger.classes[record.ticket.class_name].dispatched()
        record.phase, record.dispatched_s, record.revision = Phase.RUNNING, now_s, revision

    def watch(self, record: Record) -> None:
        """Set the deadline of one that runs.

        A deadline that moves to a later time is left where it stands, and moved when it comes: dispatch and tokens
        cost nothing then.
        """
        due = record.run_due()
        if due is None:
            self.deadlines.drop(record.ticket.id)
        else:
            self.deadlines.set(record.ticket.id, due[0])

    def first_token(self, record: Record, now_s: float) -> None:
        """It shows its first token."""
        record.token_s = now_s
        self.forecast.first_token(record, now_s)
        if record.timeouts.stall_s is not None:
            self.deadlines.hasten(record.ticket.id, now_s + record.timeouts.stall_s)

    def reseat(self, record: Record, sequences: int, now_s: float) -> None:
        """The engine has so many sequences of it: none anew once it is settled."""
        if not record.seats and record.token_s is not None:
            record.token_s = now_s  # a follow-up call begins: the engine owes its first token from now on
        if record.phase is Phase.SETTLED:
            sequences = min(sequences, record.sequences)
        self._occupy(record, sequences, now_s)
        if record.left and not record.sequences:
            del self.records[record.ticket.id]
        if record.phase is Phase.RUNNING and record.timeouts.stall_s is not None:
            self.watch(record)

    def recall(self, record: Record, now_s: float) -> None:
        """The engine died under it: it waits again, a suspect."""
        ticket = record.ticket
        self.ledger.classes[ticket.class_name].recalled()
        if record.charged:
            record.lane.order.correct(ticket, record.line, -record.expected_tokens)
        record.wait_again(self.crash_suspects.crashes)
        self._file(record)
        self.scheduler.enter(record, now_s)
        self.crash_suspects.suspect(ticket.id)
        self.deadlines.drop(ticket.id)
        if record.queue_due_s is not None:
            self.deadlines.set(ticket.id, record.queue_due_s)

    # ------------------------------------------------------------------ out

    def settle(self, record: Record, reason: Reason) -> None:
        """It is given up while it runs."""
        self.ledger.classes[record.ticket.class_name].refused(reason, waiting=False)
        self._drop(record.ticket.id)
        record.phase = Phase.SETTLED

    def refuse(self, record: Record, reason: Reason) -> None:
        """It is turned away while it waits."""
        self.withdraw(record)
        self.ledger.classes[record.ticket.class_name].refused(reason, waiting=True)

    def close(self, record: Record, ending: Ending, usage: Usage | None, sequences: int, now_s: float) -> None:
        """The request is over, however it ended; the engine still has so many sequences of it, and they their seats."""
        waiting = record.phase is Phase.WAITING
        self.withdraw(record)
        if record.phase is not Phase.SETTLED:
            self.ledger.classes[record.ticket.class_name].ended(LEFT[ending][0 if waiting else 1], waiting=waiting)
        if not waiting:
            self._learn(record, ending, usage)
        self._occupy(record, min(sequences, record.sequences), now_s)
        if record.sequences:
            record.phase, record.left = Phase.SETTLED, True
            self.records[record.ticket.id] = record

    def engine_gone(self, record: Record, now_s: float) -> None:
        """The engine is gone, and every sequence of it with it."""
        self._occupy(record, 0, now_s)
        if record.left:
            del self.records[record.ticket.id]

    def withdraw(self, record: Record) -> None:
        """Take it out of everything but the seats it may still hold, and the ledger."""
        del self.records[record.ticket.id]
        self._drop(record.ticket.id)
        if record.phase is Phase.WAITING:
            self.scheduler.withdraw(record)

    # ------------------------------------------------------------------ inside

    def _drop(self, ticket_id: int) -> None:
        self.deadlines.drop(ticket_id)
        if self.crash_suspects.suspects:
            self.crash_suspects.drop(ticket_id)

    def _file(self, record: Record) -> None:
        """Find the line and the lane in which it waits under the preset in force."""
        record.line = self.scheduler.line_of(record.ticket)
        record.lane = self.scheduler.lane(self.forecast.output_tokens(record.ticket), learn=False)

    def _occupy(self, record: Record, sequences: int, now_s: float) -> None:
        if record.seats and not sequences:
            self.forecast.seats_free(record, now_s)
        self.scheduler.occupy(record, sequences, now_s)

    def _learn(self, record: Record, ending: Ending, usage: Usage | None) -> None:
        """Book what was really used; learn lengths from what ran to its end."""
        ticket = record.ticket
        if usage is None and record.token_s is not None:
            return  # it ran, and nobody knows how far: the guess stands
        used = usage or Usage(ticket.seats * ticket.prompt_tokens, 0)
        if record.charged:
            more_tokens = used.prompt_tokens + used.output_tokens - record.expected_tokens
            record.lane.order.correct(ticket, record.line, more_tokens)
        if usage is not None and ending is Ending.COMPLETED:
            self.forecast.completed(ticket, usage)
