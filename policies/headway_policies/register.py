"""What becomes of a ticket?

Each step of a ticket's life after it was counted as arrived, with the books it touches: its place or its seats, its
deadline, what was expected of it and what is learnt, and the ledger. Whoever decides that a step is taken is not asked
here why.

    step      from        to          books
    expect    nowhere     WAITING     the entry, with the length it is expected to have
    sent      WAITING     RUNNING     the ledger, the forecast; the floor has given it its seats
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

from headway_policies.deadlines import Deadlines
from headway_policies.entry import Entry, Phase
from headway_policies.floor import Floor
from headway_policies.forecast import Forecast
from headway_policies.ledger import Ledger
from headway_policies.outcome import LEFT, Ending, Reason
from headway_policies.quarantine import Quarantine
from headway_policies.ticket import Ticket, Timeouts, Usage


@dataclass(slots=True)
class Register:
    """Everybody who is in: who waits, who runs, and who has an outcome but not yet left the engine."""

    floor: Floor
    forecast: Forecast
    ledger: Ledger
    deadlines: Deadlines = field(default_factory=Deadlines)
    quarantine: Quarantine = field(default_factory=Quarantine)
    entries: dict[int, Entry] = field(default_factory=dict)

    def dispatched(self) -> Iterator[Entry]:
        """Who was let through and has not left yet."""
        return (entry for entry in self.entries.values() if entry.phase is not Phase.WAITING)

    # ------------------------------------------------------------------ in

    def expect(self, ticket: Ticket, timeouts: Timeouts, queue_due_s: float | None) -> Entry:
        """Enter a newcomer, with what is expected of it; it has no place yet."""
        output_tokens = self.forecast.output_tokens(ticket)
        entry = self.entries[ticket.id] = Entry(
            ticket,
            timeouts,
            self.floor.lane(output_tokens, learn=True),
            ticket.class_name,
            expected_tokens=ticket.seats * (ticket.prompt_tokens + output_tokens),
            queue_due_s=queue_due_s,
        )
        return entry

    def file_again(self, waiting: list[Ticket]) -> None:
        """Everybody takes a place in a new order; the books of the old one are closed."""
        for entry in self.entries.values():
            entry.charged = False
        for ticket in waiting:
            entry = self.entries[ticket.id]
            self._file(entry)
            self.floor.enter(entry, ticket.arrived_s)

    # ------------------------------------------------------------------ on the way

    def sent(self, entry: Entry, revision: int, now_s: float) -> None:
        """It has its seats: the engine may have it."""
        self.forecast.dispatched(entry, now_s)
        self.ledger.classes[entry.ticket.class_name].dispatched()
        entry.phase, entry.dispatched_s, entry.revision = Phase.RUNNING, now_s, revision

    def watch(self, entry: Entry) -> None:
        """Set the deadline of one that runs.

        A deadline that moves to a later time is left where it stands, and moved when it comes: dispatch and tokens
        cost nothing then.
        """
        due = entry.run_due()
        if due is None:
            self.deadlines.drop(entry.ticket.id)
        else:
            self.deadlines.set(entry.ticket.id, due[0])

    def first_token(self, entry: Entry, now_s: float) -> None:
        """It shows its first token."""
        entry.token_s = now_s
        self.forecast.first_token(entry, now_s)
        if entry.timeouts.stall_s is not None:
            self.deadlines.hasten(entry.ticket.id, now_s + entry.timeouts.stall_s)

    def reseat(self, entry: Entry, sequences: int, now_s: float) -> None:
        """The engine has so many sequences of it: none anew once it is settled."""
        if not entry.seats and entry.token_s is not None:
            entry.token_s = now_s  # a follow-up call begins: the engine owes its first token from now on
        if entry.phase is Phase.SETTLED:
            sequences = min(sequences, entry.sequences)
        self._occupy(entry, sequences, now_s)
        if entry.left and not entry.sequences:
            del self.entries[entry.ticket.id]
        if entry.phase is Phase.RUNNING and entry.timeouts.stall_s is not None:
            self.watch(entry)

    def recall(self, entry: Entry, now_s: float) -> None:
        """The engine died under it: it waits again, a suspect."""
        ticket = entry.ticket
        self.ledger.classes[ticket.class_name].recalled()
        if entry.charged:
            entry.lane.order.correct(ticket, entry.line, -entry.expected_tokens)
        entry.wait_again(self.quarantine.crashes)
        self._file(entry)
        self.floor.enter(entry, now_s)
        self.quarantine.suspect(ticket.id)
        self.deadlines.drop(ticket.id)
        if entry.queue_due_s is not None:
            self.deadlines.set(ticket.id, entry.queue_due_s)

    # ------------------------------------------------------------------ out

    def settle(self, entry: Entry, reason: Reason) -> None:
        """It is given up while it runs."""
        self.ledger.classes[entry.ticket.class_name].refused(reason, waiting=False)
        self._drop(entry.ticket.id)
        entry.phase = Phase.SETTLED

    def refuse(self, entry: Entry, reason: Reason) -> None:
        """It is turned away while it waits."""
        self.withdraw(entry)
        self.ledger.classes[entry.ticket.class_name].refused(reason, waiting=True)

    def close(self, entry: Entry, ending: Ending, usage: Usage | None, sequences: int, now_s: float) -> None:
        """The request is over, however it ended; the engine still has so many sequences of it, and they their seats."""
        waiting = entry.phase is Phase.WAITING
        self.withdraw(entry)
        if entry.phase is not Phase.SETTLED:
            self.ledger.classes[entry.ticket.class_name].ended(LEFT[ending][0 if waiting else 1], waiting=waiting)
        if not waiting:
            self._learn(entry, ending, usage)
        self._occupy(entry, min(sequences, entry.sequences), now_s)
        if entry.sequences:
            entry.phase, entry.left = Phase.SETTLED, True
            self.entries[entry.ticket.id] = entry

    def engine_gone(self, entry: Entry, now_s: float) -> None:
        """The engine is gone, and every sequence of it with it."""
        self._occupy(entry, 0, now_s)
        if entry.left:
            del self.entries[entry.ticket.id]

    def withdraw(self, entry: Entry) -> None:
        """Take it out of everything but the seats it may still hold, and the ledger."""
        del self.entries[entry.ticket.id]
        self._drop(entry.ticket.id)
        if entry.phase is Phase.WAITING:
            self.floor.withdraw(entry)

    # ------------------------------------------------------------------ inside

    def _drop(self, ticket_id: int) -> None:
        self.deadlines.drop(ticket_id)
        if self.quarantine.suspects:
            self.quarantine.drop(ticket_id)

    def _file(self, entry: Entry) -> None:
        """Find the line and the lane in which it waits under the preset in force."""
        entry.line = self.floor.line_of(entry.ticket)
        entry.lane = self.floor.lane(self.forecast.output_tokens(entry.ticket), learn=False)

    def _occupy(self, entry: Entry, sequences: int, now_s: float) -> None:
        if entry.seats and not sequences:
            self.forecast.seats_free(entry, now_s)
        self.floor.occupy(entry, sequences, now_s)

    def _learn(self, entry: Entry, ending: Ending, usage: Usage | None) -> None:
        """Book what was really used; learn lengths from what ran to its end."""
        ticket = entry.ticket
        if usage is None and entry.token_s is not None:
            return  # it ran, and nobody knows how far: the guess stands
        used = usage or Usage(ticket.seats * ticket.prompt_tokens, 0)
        if entry.charged:
            more_tokens = used.prompt_tokens + used.output_tokens - entry.expected_tokens
            entry.lane.order.correct(ticket, entry.line, more_tokens)
        if usage is not None and ending is Ending.COMPLETED:
            self.forecast.completed(ticket, usage)
