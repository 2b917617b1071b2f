"""What is a newcomer answered: refused, given a seat, or a place in the queue?

1. refused    nobody may come in, its class is shed, or its time is over
2. seated     nobody before it may go, and its seats are free
3. refused    there is no room for it, or it would wait too long (early_refusal)
4. evicts     somebody less urgent makes room, where the preset says so and it helps
5. queued     it waits, with a deadline, unless it will not
"""

from __future__ import annotations

from dataclasses import dataclass

from headway_policies.desk.dispatch import Dispatcher
from headway_policies.desk.early_refusal import EarlyRefusal
from headway_policies.desk.effects import Effect, Reject
from headway_policies.desk.lifecycle import Lifecycle
from headway_policies.desk.mode import Mode
from headway_policies.desk.record import Phase, Record
from headway_policies.desk.scheduler import Scheduler
from headway_policies.request import Decision, Reason, Ticket


@dataclass(slots=True)
class Admission:
    """Lets tickets in."""

    mode: Mode
    scheduler: Scheduler
    lifecycle: Lifecycle
    early_refusal: EarlyRefusal
    departures: Dispatcher

    def arrive(self, ticket: Ticket, now_s: float, effects: list[Effect]) -> None:
        """Answer one newcomer, and count the answer."""
        lifecycle = self.lifecycle
        counts = lifecycle.ledger.classes[ticket.class_name]
        counts.arrived += 1
        counts.queued += 1
        self.scheduler.window.arrived(ticket.seats, now_s)
        timeouts = self.mode.timeouts[ticket.class_name].shortened_by(ticket.asked)
        patience_s = timeouts.before_first_token_s()
        due_s = None if patience_s is None else ticket.arrived_s + patience_s
        refusal = self.mode.closed_to(ticket)
        if refusal is None and due_s is not None and due_s <= now_s:
            refusal = Reason.QUEUE_TIMEOUT
        opened = refusal is None and self.mode.open and not lifecycle.crash_suspects.suspects
        at_once = opened and self.scheduler.goes_at_once(ticket, now_s)
        if refusal is None and not at_once:
            refusal = self._no_room(ticket, due_s, now_s, effects, opened=opened)
        if refusal is None:
            record = lifecycle.expect(ticket, timeouts, due_s)
            refusal = self._let_in(record, now_s, effects, at_once=at_once)
        if refusal is not None:
            self.scheduler.limited = self.scheduler.limited or self.scheduler.seats.taken >= self.scheduler.limit
            counts.refused(refusal, waiting=True)
            effects.append(Reject(ticket.id, refusal, self.early_refusal.retry_after_s(now_s)))
        counts.decisions[self._decision(ticket.id)] += 1

    def _no_room(
        self, ticket: Ticket, due_s: float | None, now_s: float, effects: list[Effect], *, opened: bool
    ) -> Reason | None:
        """Why a newcomer may not wait; None where there is room, or room was made."""
        refusal = self.early_refusal.refusal(ticket, due_s, now_s, opened=opened)
        evicted = refusal is Reason.QUEUE_FULL and self._evict_for(ticket, due_s, now_s, effects)
        return None if evicted else refusal

    def _evict_for(self, ticket: Ticket, due_s: float | None, now_s: float, effects: list[Effect]) -> bool:
        """Push out who is less urgent until the newcomer has room; nobody, when that would not help it."""
        if not self.early_refusal.may_evict(ticket, due_s, now_s):
            return False
        room = self.scheduler.room
        while room.refusal(ticket) is not None and (worst := room.worst_below(ticket.class_name)) is not None:
            self.departures.turn_away((worst,), Reason.EVICTED, now_s, effects)
        return True

    def _let_in(self, record: Record, now_s: float, effects: list[Effect], *, at_once: bool) -> Reason | None:
        """Give a newcomer its place, and a seat if one is free; a refusal for one that will not wait."""
        ticket, lifecycle = record.ticket, self.lifecycle
        if at_once and not self.scheduler.room.total.requests:
            self.departures.send_newcomer(record, now_s, effects)
        else:
            self.scheduler.enter(record, now_s)
            self.departures.fill(now_s, effects)
        if record.phase is not Phase.WAITING:
            lifecycle.watch(record)
        elif ticket.id in lifecycle.records:
            if not ticket.may_wait:
                lifecycle.withdraw(record)
                return Reason.NO_FREE_SEAT
            if self.mode.open:
                record.predicted_wait_s = self.early_refusal.predicted_wait_s(ticket)
            if record.queue_due_s is not None:
                lifecycle.deadlines.set(ticket.id, record.queue_due_s)
        return None

    def _decision(self, ticket_id: int) -> Decision:
        """What a newcomer was answered."""
        record = self.lifecycle.records.get(ticket_id)
        if record is None:
            return Decision.REJECTED
        return Decision.QUEUED if record.phase is Phase.WAITING else Decision.SEATED
