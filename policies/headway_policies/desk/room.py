"""Making room: a more urgent ticket takes the seats of a running one that has sent no token yet.

At full seats a ticket of an urgent class would wait for the end of an answer. Where a less urgent ticket was dispatched
a moment before and has no token yet, stopping it costs no client anything but time: it goes back to its own place in
the queue, with its own deadline, and is served when its turn comes again. (vLLM preempts by priority only for want of
KV space; SMG's scheduler does so before the first byte as well, but answers 503.)

The ticket to go is of the least urgent class, and of those the one that was dispatched last: least of its prompt is
computed. A ticket makes room once at most, and only while more than half of the time that it may wait is left to it.
The prompt tokens that are dispatched in vain are at most ``_WASTED_RATIO`` of all, and those of ``_FREE_TICKETS`` usual
prompts. A class takes seats in this way up to its share of the limit and the square root of that, so the shares of the
others stand. Under ageing no room is made: what has waited may be as urgent as the class above it. Nor is any where
seats come free within a step: the engine begins with no ticket earlier, and would compute a prompt in vain.
"""

from __future__ import annotations

from headway_policies.desk.books.record import Record
from headway_policies.desk.forecast import Forecast
from headway_policies.desk.lifecycle import Lifecycle
from headway_policies.desk.mode import Mode
from headway_policies.desk.scheduler import Scheduler
from headway_policies.request import Ticket

_WASTED_RATIO = 0.03
_FREE_TICKETS = 4
_LOOKED_AT = 64


class Room:
    """Decides which running ticket gives its seats to which waiting one."""

    def __init__(self, mode: Mode, scheduler: Scheduler, lifecycle: Lifecycle, forecast: Forecast) -> None:
        self._mode = mode
        self._scheduler = scheduler
        self._lifecycle = lifecycle
        self._forecast = forecast
        self._wasted_tokens = 0.0

    def make(self, now_s: float) -> tuple[Record, Record] | None:
        """A waiting ticket for which there is no seat, and a running one that gives it its own; None where there is
        no such pair.
        """
        scheduler, lifecycle, preset = self._scheduler, self._lifecycle, self._mode.preset
        if not lifecycle.unstarted or scheduler.strategy.barrier or not preset.queue.make_room:
            return None
        if preset.ordering.between == "ageing":
            return None
        lane = scheduler.queue.lanes[0]
        for name in preset.by_urgency()[:-1]:
            if not scheduler.queue.by_class[name].requests or scheduler.seats_of_share(name) <= 0:
                continue
            ticket = scheduler.queue.first_of(name, lane, now_s)
            if ticket is None or scheduler.fits(ticket) or scheduler.held_back(now_s, name) or self._soon_free(name):
                continue
            if not scheduler.queue.adapters.may_go(ticket):
                continue
            victim = self._victim(name, ticket, now_s)
            if victim is not None:
                return lifecycle.records[ticket.id], victim
        return None

    def made(self, victim: Record) -> None:
        """A running ticket is recalled: its prompt is computed in vain."""
        self._wasted_tokens += victim.ticket.seats * victim.ticket.prompt_tokens

    def _soon_free(self, class_name: str) -> bool:
        """Whether seats for all of a class that wait probably come free within a step of the engine."""
        scheduler = self._scheduler
        capacity = scheduler.capacity
        step_s = capacity.engine.step_costs.step_s(scheduler.seats.taken, 0)
        return self._forecast.freed_per_s(capacity.limit) * step_s >= scheduler.queue.by_class[class_name].seats

    def _victim(self, class_name: str, ticket: Ticket, now_s: float) -> Record | None:
        """The running ticket that gives way: the last one of the least urgent class below this one."""
        urgency = self._mode.preset.classes[class_name].priority
        found: Record | None = None
        for record, _ in zip(reversed(self._lifecycle.unstarted.values()), range(_LOOKED_AT), strict=False):
            priority = self._mode.terms(record.ticket).priority
            lower = found is None or priority < self._mode.terms(found.ticket).priority
            wide = record.seats >= ticket.seats and self._scheduler.tokens_fit(ticket, without=record)
            if priority < urgency and lower and wide and self._may_go(record, now_s):
                found = record
        return found

    def _may_go(self, record: Record, now_s: float) -> bool:
        """Whether a running ticket may make room: once, with time left, within the budget of wasted tokens."""
        ticket, patience_s = record.ticket, record.timeouts.before_first_token_s()
        if record.recalled or record.beside or record.crash is not None:
            return False
        if patience_s is not None and now_s - ticket.arrived_s > patience_s / 2:
            return False
        usual_tokens = max(self._forecast.sizes.prompt_tokens, ticket.prompt_tokens)
        budget = _WASTED_RATIO * self._lifecycle.sent_tokens + _FREE_TICKETS * usual_tokens
        return self._wasted_tokens + ticket.seats * ticket.prompt_tokens <= budget
