"""Who goes to the engine now, and whose time is up?

    suspects after a crash   one after another, nobody beside them (quarantine)
    the bypass               who may, on the few seats beside a batch (fallback)
    everybody else           in the order of the floor, as far as its strategy and the seats allow

At the moment it would go, whoever is past its deadline expires instead, and whoever could no longer have a first token
in time makes room for somebody who can.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headway_policies.admission import Admission
from headway_policies.degrading import capped_tokens
from headway_policies.effects import Abort, Degrade, Dispatch, Effect, Expire, Reject
from headway_policies.entry import Entry, Phase
from headway_policies.fallback import Rung
from headway_policies.floor import Floor
from headway_policies.outcome import Reason
from headway_policies.regime import Regime
from headway_policies.register import Register
from headway_policies.ticket import Ticket
from headway_policies.waiting import Lane

SLICE = 200  # deadlines settled in one event: about a millisecond


@dataclass(slots=True)
class Departures:
    """Sends tickets off. ``patience`` is how much more may be settled within this event."""

    regime: Regime
    floor: Floor
    register: Register
    admission: Admission
    ceiling: int | None
    patience: int = SLICE

    def settle_due(self, now_s: float, effects: list[Effect]) -> None:
        """Let time take those it has run out for, a slice at a time, and whoever stood behind them go."""
        register = self.register
        self.patience = SLICE
        while self.patience and (ticket_id := register.deadlines.pop_due(now_s)) is not None:
            self.patience -= 1
            self._time_is_up(register.entries[ticket_id], now_s, effects)
        cleared = register.quarantine.cleared_s is not None and register.quarantine.look(now_s)
        if effects or cleared:
            self.fill(now_s, effects)

    def fill(self, now_s: float, effects: list[Effect]) -> None:
        """Send whoever may go: from one lane only where a batch has to end before the next one begins."""
        if not self.regime.open:
            return
        if self.register.quarantine.suspects:
            self._send_alone(now_s, effects)
            return
        if Rung.BYPASS in self.regime.in_force:
            self._send_beside(now_s, effects)
        for lane, most_seats in self.floor.leaving(now_s):
            if self._send(lane, most_seats, now_s, effects) and self.floor.strategy.barrier:
                return

    def send_newcomer(self, entry: Entry, now_s: float, effects: list[Effect]) -> None:
        """Send one that goes at once, past an empty queue."""
        self.floor.open_batch(now_s)
        self.floor.dispatch_newcomer(entry, now_s)
        self._gone(entry, now_s, effects)

    def turn_away(self, tickets: Iterable[Ticket], reason: Reason, now_s: float, effects: list[Effect]) -> None:
        """Refuse these, who wait; all are told the same time to come back."""
        retry_after_s = self.admission.retry_after_s(now_s)
        for ticket in tickets:
            self.register.refuse(self.register.entries[ticket.id], reason)
            effects.append(Reject(ticket.id, reason, retry_after_s))

    def give_up(self, entry: Entry, reason: Reason, effects: list[Effect]) -> None:
        """End one that runs."""
        self.register.settle(entry, reason)
        effects.append(Abort(entry.ticket.id, reason))

    # ------------------------------------------------------------------ inside

    def _send(self, lane: Lane, most_seats: int, now_s: float, effects: list[Effect]) -> bool:
        """Dispatch from the head of a lane as far as the seats go. Whether anybody went."""
        floor = self.floor
        floor.open_batch(now_s)
        sheds = True
        while floor.batch_seats < most_seats and self.patience:
            ticket = floor.next(lane, now_s)
            if ticket is None:
                break
            entry = self.register.entries[ticket.id]
            if self._too_late(entry, now_s, effects):
                self.patience -= 1
            elif sheds and self.admission.hopeless(entry, now_s):
                self.turn_away((ticket,), Reason.DEADLINE_UNREACHABLE, now_s, effects)
                sheds = False  # one for each that goes: a wrong prediction must not empty the queue before a free seat
            else:
                floor.dispatch(entry)
                self._gone(entry, now_s, effects)
                sheds = True
        return floor.batch_seats > 0

    def _send_beside(self, now_s: float, effects: list[Effect]) -> None:
        """Dispatch who may go beside the batch, as far as the seats of the bypass go."""
        floor, in_force = self.floor, self.regime.in_force
        while self.patience and (ticket := floor.next_beside(in_force, self.ceiling, now_s)) is not None:
            self.patience -= 1
            entry = self.register.entries[ticket.id]
            if not self._too_late(entry, now_s, effects):
                floor.dispatch_beside(entry)
                self._gone(entry, now_s, effects)

    def _send_alone(self, now_s: float, effects: list[Effect]) -> None:
        """Dispatch the next suspect, when nobody else runs alone; everybody else once there is none left."""
        quarantine, floor = self.register.quarantine, self.floor
        while (ticket_id := quarantine.next()) is not None:
            entry = self.register.entries[ticket_id]
            if self._too_late(entry, now_s, effects):
                continue
            if not floor.fits(entry.ticket):  # one that was cleared runs on
                return
            floor.open_batch(now_s)
            floor.dispatch(entry)
            self._gone(entry, now_s, effects)
            quarantine.sent(ticket_id, now_s + self.regime.preset.recovery.alone_s)
            return
        if not quarantine.suspects:
            self.fill(now_s, effects)

    def _gone(self, entry: Entry, now_s: float, effects: list[Effect]) -> None:
        """A ticket has its seats: the engine may have it."""
        self.register.sent(entry, self.regime.revision, now_s)
        self.admission.departed(now_s)
        ticket, in_force = entry.ticket, self.regime.in_force
        if in_force:
            most_tokens = capped_tokens(ticket, self.regime.terms(ticket), in_force)
            if most_tokens is not None:
                effects.append(Degrade(ticket.id, most_tokens))
        batch = 0 if entry.beside else self.floor.batch
        effects.append(Dispatch(ticket.id, self.regime.revision, batch, entry.beside))

    def _too_late(self, entry: Entry, now_s: float, effects: list[Effect]) -> bool:
        """Whether it has waited too long: then it expires."""
        if entry.queue_due_s is None or entry.queue_due_s > now_s:
            return False
        self._time_is_up(entry, now_s, effects)
        return True

    def _time_is_up(self, entry: Entry, now_s: float, effects: list[Effect]) -> None:
        """A deadline has come: a waiting ticket expires, a running one is given up unless tokens came meanwhile."""
        if entry.phase is Phase.WAITING:
            self.register.refuse(entry, Reason.QUEUE_TIMEOUT)
            effects.append(Expire(entry.ticket.id, Reason.QUEUE_TIMEOUT, self.admission.retry_after_s(now_s)))
        elif (due := entry.run_due()) is not None and due[0] <= now_s:
            self.give_up(entry, due[1], effects)
        else:
            self.register.watch(entry)
