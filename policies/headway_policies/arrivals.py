"""What is a newcomer answered: refused, given a seat, or a place in the queue?

1. refused    nobody may come in, its class is shed, or its time is over
2. seated     nobody before it may go, and its seats are free
3. refused    there is no room for it, or it would wait too long (admission)
4. evicts     somebody less urgent makes room, where the preset says so and it helps
5. queued     it waits, with a deadline, unless it will not
"""

from __future__ import annotations

from dataclasses import dataclass

from headway_policies.admission import Admission
from headway_policies.departures import Departures
from headway_policies.effects import Effect, Reject
from headway_policies.entry import Entry, Phase
from headway_policies.floor import Floor
from headway_policies.outcome import Decision, Reason
from headway_policies.regime import Regime
from headway_policies.register import Register
from headway_policies.ticket import Ticket


@dataclass(slots=True)
class Arrivals:
    """Lets tickets in."""

    regime: Regime
    floor: Floor
    register: Register
    admission: Admission
    departures: Departures

    def arrive(self, ticket: Ticket, now_s: float, effects: list[Effect]) -> None:
        """Answer one newcomer, and count the answer."""
        register = self.register
        counts = register.ledger.classes[ticket.class_name]
        counts.arrived += 1
        counts.queued += 1
        self.floor.window.arrived(ticket.seats, now_s)
        timeouts = self.regime.timeouts[ticket.class_name].shortened_by(ticket.asked)
        patience_s = timeouts.before_first_token_s()
        due_s = None if patience_s is None else ticket.arrived_s + patience_s
        refusal = self.regime.closed_to(ticket)
        if refusal is None and due_s is not None and due_s <= now_s:
            refusal = Reason.QUEUE_TIMEOUT
        opened = refusal is None and self.regime.open and not register.quarantine.suspects
        at_once = opened and self.floor.goes_at_once(ticket, now_s)
        if refusal is None and not at_once:
            refusal = self._no_room(ticket, due_s, now_s, effects, opened=opened)
        if refusal is None:
            entry = register.expect(ticket, timeouts, due_s)
            refusal = self._let_in(entry, now_s, effects, at_once=at_once)
        if refusal is not None:
            self.floor.limited = self.floor.limited or self.floor.seats.taken >= self.floor.limit
            counts.refused(refusal, waiting=True)
            effects.append(Reject(ticket.id, refusal, self.admission.retry_after_s(now_s)))
        counts.decisions[self._decision(ticket.id)] += 1

    def _no_room(
        self, ticket: Ticket, due_s: float | None, now_s: float, effects: list[Effect], *, opened: bool
    ) -> Reason | None:
        """Why a newcomer may not wait; None where there is room, or room was made."""
        refusal = self.admission.refusal(ticket, due_s, now_s, opened=opened)
        evicted = refusal is Reason.QUEUE_FULL and self._evict_for(ticket, due_s, now_s, effects)
        return None if evicted else refusal

    def _evict_for(self, ticket: Ticket, due_s: float | None, now_s: float, effects: list[Effect]) -> bool:
        """Push out who is less urgent until the newcomer has room; nobody, when that would not help it."""
        if not self.admission.may_evict(ticket, due_s, now_s):
            return False
        room = self.floor.room
        while room.refusal(ticket) is not None and (worst := room.worst_below(ticket.class_name)) is not None:
            self.departures.turn_away((worst,), Reason.EVICTED, now_s, effects)
        return True

    def _let_in(self, entry: Entry, now_s: float, effects: list[Effect], *, at_once: bool) -> Reason | None:
        """Give a newcomer its place, and a seat if one is free; a refusal for one that will not wait."""
        ticket, register = entry.ticket, self.register
        if at_once and not self.floor.room.total.requests:
            self.departures.send_newcomer(entry, now_s, effects)
        else:
            self.floor.enter(entry, now_s)
            self.departures.fill(now_s, effects)
        if entry.phase is not Phase.WAITING:
            register.watch(entry)
        elif ticket.id in register.entries:
            if not ticket.may_wait:
                register.withdraw(entry)
                return Reason.NO_FREE_SEAT
            if self.regime.open:
                entry.predicted_wait_s = self.admission.predicted_wait_s(ticket)
            if entry.queue_due_s is not None:
                register.deadlines.set(ticket.id, entry.queue_due_s)
        return None

    def _decision(self, ticket_id: int) -> Decision:
        """What a newcomer was answered."""
        entry = self.register.entries.get(ticket_id)
        if entry is None:
            return Decision.REJECTED
        return Decision.QUEUED if entry.phase is Phase.WAITING else Decision.SEATED
