"""Who goes to the engine now, and whose time is up?

    suspects after a crash   one after another, nobody beside them (crash_suspects)
    the bypass               who may, on the few seats beside a batch (fallback)
    everybody else           in the order of the scheduler, as far as its strategy and the seats allow

At the moment it would go, whoever is past its deadline expires instead, and whoever could no longer have a first token
in time makes room for somebody who can.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headway_policies.desk.early_refusal import EarlyRefusal
from headway_policies.desk.effects import Abort, Degrade, Dispatch, Effect, Expire, Reject
from headway_policies.desk.lifecycle import Lifecycle
from headway_policies.desk.mode import Mode
from headway_policies.desk.record import Phase, Record
from headway_policies.desk.scheduler import Scheduler
from headway_policies.fallback import Rung, capped_tokens
from headway_policies.queueing import Lane
from headway_policies.request import Reason, Ticket

SLICE = 200  # deadlines settled in one event: about a millisecond


@dataclass(slots=True)
class Dispatcher:
    """Sends tickets off. ``patience`` is how much more may be settled within this event."""

    mode: Mode
    scheduler: Scheduler
    lifecycle: Lifecycle
    early_refusal: EarlyRefusal
    ceiling: int | None
    patience: int = SLICE

    def settle_due(self, now_s: float, effects: list[Effect]) -> None:
        """Let time take those it has run out for, a slice at a time, and whoever stood behind them go."""
        lifecycle = self.lifecycle
        self.patience = SLICE
        while self.patience and (ticket_id := lifecycle.deadlines.pop_due(now_s)) is not None:
            self.patience -= 1
            self._time_is_up(lifecycle.records[ticket_id], now_s, effects)
        cleared = lifecycle.crash_suspects.cleared_s is not None and lifecycle.crash_suspects.look(now_s)
        if effects or cleared:
            self.fill(now_s, effects)

    def fill(self, now_s: float, effects: list[Effect]) -> None:
        """Send whoever may go: from one lane only where a batch has to end before the next one begins."""
        if not self.mode.open:
            return
        if self.lifecycle.crash_suspects.suspects:
            self._send_alone(now_s, effects)
            return
        if Rung.BYPASS in self.mode.in_force:
            self._send_beside(now_s, effects)
        for lane, most_seats in self.scheduler.leaving(now_s):
            if self._send(lane, most_seats, now_s, effects) and self.scheduler.strategy.barrier:
                return

    def send_newcomer(self, record: Record, now_s: float, effects: list[Effect]) -> None:
        """Send one that goes at once, past an empty queue."""
        self.scheduler.open_batch(now_s)
        self.scheduler.dispatch_newcomer(record, now_s)
        self._gone(record, now_s, effects)

    def turn_away(self, tickets: Iterable[Ticket], reason: Reason, now_s: float, effects: list[Effect]) -> None:
        """Refuse these, who wait; all are told the same time to come back."""
        retry_after_s = self.early_refusal.retry_after_s(now_s)
        for ticket in tickets:
            self.lifecycle.refuse(self.lifecycle.records[ticket.id], reason)
            effects.append(Reject(ticket.id, reason, retry_after_s))

    def give_up(self, record: Record, reason: Reason, effects: list[Effect]) -> None:
        """End one that runs."""
        self.lifecycle.settle(record, reason)
        effects.append(Abort(record.ticket.id, reason))

    # ------------------------------------------------------------------ inside

    def _send(self, lane: Lane, most_seats: int, now_s: float, effects: list[Effect]) -> bool:
        """Dispatch from the head of a lane as far as the seats go. Whether anybody went."""
        scheduler = self.scheduler
        scheduler.open_batch(now_s)
        sheds = True
        while scheduler.batch_seats < most_seats and self.patience:
            ticket = scheduler.next(lane, now_s)
            if ticket is None:
                break
            record = self.lifecycle.records[ticket.id]
            if self._too_late(record, now_s, effects):
                self.patience -= 1
            elif sheds and self.early_refusal.hopeless(record, now_s):
                self.turn_away((ticket,), Reason.DEADLINE_UNREACHABLE, now_s, effects)
                sheds = False  # one for each that goes: a wrong prediction must not empty the queue before a free seat
            else:
                scheduler.dispatch(record)
                self._gone(record, now_s, effects)
                sheds = True
        return scheduler.batch_seats > 0

    def _send_beside(self, now_s: float, effects: list[Effect]) -> None:
        """Dispatch who may go beside the batch, as far as the seats of the bypass go."""
        scheduler, in_force = self.scheduler, self.mode.in_force
        while self.patience and (ticket := scheduler.next_beside(in_force, self.ceiling, now_s)) is not None:
            self.patience -= 1
            record = self.lifecycle.records[ticket.id]
            if not self._too_late(record, now_s, effects):
                scheduler.dispatch_beside(record)
                self._gone(record, now_s, effects)

    def _send_alone(self, now_s: float, effects: list[Effect]) -> None:
        """Dispatch the next suspect, when nobody else runs alone; everybody else once there is none left."""
        crash_suspects, scheduler = self.lifecycle.crash_suspects, self.scheduler
        while (ticket_id := crash_suspects.next()) is not None:
            record = self.lifecycle.records[ticket_id]
            if self._too_late(record, now_s, effects):
                continue
            if not scheduler.fits(record.ticket):  # one that was cleared runs on
                return
            scheduler.open_batch(now_s)
            scheduler.dispatch(record)
            self._gone(record, now_s, effects)
            crash_suspects.sent(ticket_id, now_s + self.mode.preset.recovery.probation_s)
            return
        if not crash_suspects.suspects:
            self.fill(now_s, effects)

    def _gone(self, record: Record, now_s: float, effects: list[Effect]) -> None:
        """A ticket has its seats: the engine may have it."""
        self.lifecycle.sent(record, self.mode.revision, now_s)
        self.early_refusal.departed(now_s)
        ticket, in_force = record.ticket, self.mode.in_force
        if in_force:
            most_tokens = capped_tokens(ticket, self.mode.terms(ticket), in_force)
            if most_tokens is not None:
                effects.append(Degrade(ticket.id, most_tokens))
        batch = 0 if record.beside else self.scheduler.batch
        effects.append(Dispatch(ticket.id, self.mode.revision, batch, record.beside))

    def _too_late(self, record: Record, now_s: float, effects: list[Effect]) -> bool:
        """Whether it has waited too long: then it expires."""
        if record.queue_due_s is None or record.queue_due_s > now_s:
            return False
        self._time_is_up(record, now_s, effects)
        return True

    def _time_is_up(self, record: Record, now_s: float, effects: list[Effect]) -> None:
        """A deadline has come: a waiting ticket expires, a running one is given up unless tokens came meanwhile."""
        if record.phase is Phase.WAITING:
            self.lifecycle.refuse(record, Reason.QUEUE_TIMEOUT)
            effects.append(Expire(record.ticket.id, Reason.QUEUE_TIMEOUT, self.early_refusal.retry_after_s(now_s)))
        elif (due := record.run_due()) is not None and due[0] <= now_s:
            self.give_up(record, due[1], effects)
        else:
            self.lifecycle.watch(record)
