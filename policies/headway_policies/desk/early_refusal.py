"""Who is turned away, when, and when may they come back?

On arrival: who finds no room, and who by the predicted wait would run out of time in the queue.
At dispatch: who could no longer have a first token in time. Both predictions lean to letting people in.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headway_policies.desk.forecast import Forecast
from headway_policies.desk.record import Record
from headway_policies.desk.retry_after import DrainRate
from headway_policies.desk.scheduler import Scheduler
from headway_policies.request import Reason, Ticket


@dataclass(slots=True)
class EarlyRefusal:
    """The questions the desk asks before it lets somebody in or through. ``scheduler.room.queue`` holds the rules."""

    scheduler: Scheduler
    forecast: Forecast
    _drain_rate: DrainRate = field(default_factory=DrainRate)

    def refusal(self, ticket: Ticket, due_s: float | None, now_s: float, *, opened: bool) -> Reason | None:
        """Why a newcomer may not wait; ``opened`` says whether anybody is let through now."""
        full = self.scheduler.room.refusal(ticket)
        if full is None and opened and self._infeasible(ticket, due_s, now_s):
            return Reason.DEADLINE_INFEASIBLE
        return full

    def may_evict(self, ticket: Ticket, due_s: float | None, now_s: float) -> bool:
        """Whether somebody less urgent should make room for this newcomer: not when that would not help it."""
        room = self.scheduler.room
        if not (room.queue.evict and ticket.may_wait and room.could_evict_for(ticket)):
            return False
        return not self._infeasible(ticket, due_s, now_s)

    def predicted_wait_s(self, ticket: Ticket, more_seats: int = 0) -> float | None:
        """How long this ticket waits behind all who surely go before it, and ``more_seats``; None where unknown."""
        scheduler = self.scheduler
        if scheduler.strategy.barrier:
            return None
        return self.forecast.wait_s(scheduler.seats_ahead(ticket) + more_seats, scheduler.seats.taken, scheduler.limit)

    def hopeless(self, record: Record, now_s: float) -> bool:
        """Whether its first token would come too late, and somebody else waits who may make better use of the seat.

        The last one waiting always goes: a prediction that turned everybody away would never learn that it is wrong.
        """
        room = self.scheduler.room
        if not room.queue.shed_unreachable or len(room) == 1:
            return False
        return self.forecast.token_comes_too_late(record, now_s)

    def departed(self, now_s: float) -> None:
        """Somebody left the queue for the engine."""
        self._drain_rate.departed(now_s)

    def retry_after_s(self, now_s: float) -> int:
        """Whole seconds until a refused client may hope."""
        return self._drain_rate.retry_after_s(len(self.scheduler.room), now_s)

    def _infeasible(self, ticket: Ticket, due_s: float | None, now_s: float) -> bool:
        """Whether the predicted wait is longer than the newcomer has."""
        if due_s is None or not self.scheduler.room.queue.refuse_infeasible:
            return False
        wait_s = self.predicted_wait_s(ticket, ticket.seats)
        return wait_s is not None and now_s + wait_s > due_s
