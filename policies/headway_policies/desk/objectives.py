"""The objectives of the classes: which tickets are refused while a queue stands, and which seats are held for a class.

Nothing is refused for an objective while the queue of its class is short, or long for a moment only. While it stands
(``ControlledDelay``), a ticket whose first token is expected after three quarters of the objective is refused on
arrival: of those that are expected just in time, every other one would be late. Then and shortly afterwards one that
can no longer have its first token in time is refused when its turn comes, in favour of the next, which may still be on
its way: on a small engine a late ticket is often the last one that waits. So what is served is served within the
objective, and what is not is refused soon; outside of an overload every ticket is served.
A queue is as old as the oldest ticket in it: where tenants share, one of them may have a queue that stands, and another
none. Each is judged by its own turn.

Where a preset leaves the ``reserved_seats`` of a class with an objective out, seats are held as its demand requires: as
many as it fills on average plus the square root of that (the square-root staffing rule; Halfin and Whitt, Operations
Research 1981), less those that come free within the target anyway, and never more than its share. For the most urgent
class a sixteenth of the seats is held before there is any demand, so that long answers cannot take them all. Under a
strategy with a barrier none are held: they would stay empty for a whole batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, inf, sqrt

from headway_policies.desk.forecast import Forecast
from headway_policies.desk.record import Record
from headway_policies.desk.scheduler import Scheduler
from headway_policies.preset import Preset
from headway_policies.queueing import ControlledDelay, shares
from headway_policies.request import Ticket

HOLD_EVERY_S = 1.0
_SURE_RATIO = 0.75
_IDLE_RATIO = 1 / 16
_MIN_SEATS = 8
#: A demand that fades never ends; no seat is held for less than this.
_NEGLIGIBLE_SEATS = 0.05


class Objectives:
    """The objectives of one preset, by class; what is known of a class's queue outlives a switch that keeps its own."""

    def __init__(self, preset: Preset, scheduler: Scheduler, forecast: Forecast) -> None:
        self._scheduler = scheduler
        self._forecast = forecast
        self._delays: dict[str, ControlledDelay] = {}
        self.hold_again_s = 0.0
        self.adopt(preset, 0.0)

    def adopt(self, preset: Preset, now_s: float) -> None:
        """Put the objectives of a preset in force."""
        before, self._delays = self._delays, {}
        for name, terms in preset.classes.items():
            if terms.ttft_slo_s is not None:
                known, new = before.get(name), ControlledDelay(terms.ttft_slo_s, now_s, burst_s=terms.burst_s)
                same = known is not None and (known.slo_s, known.interval_s) == (new.slo_s, new.interval_s)
                self._delays[name] = known if known is not None and same else new
        self._shares = shares(preset.classes)
        ranked, gathers = preset.by_urgency(), preset.batching.strategy != "continuous"
        self._first = ranked[0]
        self._following = tuple(
            name
            for name in ranked[:-1]
            if name in self._delays and preset.classes[name].reserved_seats is None and not gathers
        )
        self.hold_again_s = now_s if self._following else inf

    def standing(self, now_s: float) -> Iterator[str]:
        """The classes whose queue stands."""
        by_class = self._scheduler.queue.by_class
        return (name for name, delay in self._delays.items() if by_class[name].requests and delay.stands(now_s))

    # ------------------------------------------------------------------ events

    def arrived(self, ticket: Ticket, now_s: float) -> None:
        """A ticket arrived: its class demands seats, whether it gets them or not."""
        self._forecast.demand.arrived(ticket.class_name, ticket.seats, now_s)
        delay = self._delays.get(ticket.class_name)
        if delay is None:
            return
        if not self._scheduler.queue.by_class[ticket.class_name].requests:
            delay.empty(now_s)

    def dispatched(self, record: Record, now_s: float) -> None:
        """A ticket left the queue. One that was running before, on an engine that died, says nothing of the queue."""
        delay = self._delays.get(record.queue_class)
        if delay is None or record.crash is not None:
            return
        oldest_s = self._scheduler.oldest_s(record.queue_class)
        arrived_s = record.ticket.arrived_s
        delay.dispatched(now_s - (arrived_s if oldest_s is None else min(arrived_s, oldest_s)), now_s)

    def cut(self, class_name: str, now_s: float) -> None:
        """A ticket of a class was refused for its objective. The last one to wait is no sign that more will come."""
        delay = self._delays.get(class_name)
        if delay is not None and self._scheduler.queue.total.requests:
            delay.cut(now_s)

    def reopened(self, now_s: float) -> None:
        """Tickets are dispatched again: the queue has grown for another cause than the load."""
        for delay in self._delays.values():
            delay.reopened(now_s)

    # ------------------------------------------------------------------ questions

    def infeasible(self, ticket: Ticket, now_s: float) -> bool:
        """Whether the first token of a new ticket would probably come too late, in a standing queue."""
        delay = self._delays.get(ticket.class_name)
        if delay is None or not delay.stands(now_s):
            return False
        wait_s = self._scheduler.expected_wait_s(ticket)
        if wait_s is None:
            return False
        return wait_s + (self._forecast.likely_first_token_s(ticket) or 0.0) > _SURE_RATIO * delay.slo_s

    def unreachable(self, record: Record, first_token_s: float, now_s: float, *, alone: bool) -> bool:
        """Whether a ticket whose first token would come after ``first_token_s`` is too late, and its queue stands or
        stood shortly before.

        One that is ``alone`` in the queue goes unless it has waited beyond the target (a prediction that refused every
        ticket would never learn that it is wrong), and its queue has cost another one shortly before.
        """
        delay = self._delays.get(record.queue_class)
        if delay is None or record.crash is not None:
            return False
        waited_s = now_s - record.ticket.arrived_s
        if waited_s + first_token_s <= delay.slo_s:
            return False
        if alone:
            return waited_s > delay.target_s and delay.contested(now_s)
        return delay.overloaded(now_s)

    # ------------------------------------------------------------------ the seats that are held

    @property
    def moving(self) -> bool:
        """Whether seats are held for a demand: time alone may open them to other classes."""
        held = self._scheduler.seats.held()
        return any(held[name] > self._at_least(name) for name in self._following)

    def hold(self, now_s: float) -> bool:
        """Hold the seats that each class needs now; due at ``hold_again_s``. Whether any number has changed."""
        self.hold_again_s = now_s + HOLD_EVERY_S if self._following else inf
        seats, changed = self._scheduler.seats, False
        before = seats.held()
        for name in self._following:
            needed = max(self._at_least(name), self._needed(name, now_s))
            if needed != before[name]:
                seats.hold(name, needed)
                changed = True
        return changed

    def _at_least(self, class_name: str) -> int:
        """The seats that are held without any demand: some for the most urgent class, unless there are few in all."""
        limit = self._scheduler.limit
        return max(1, int(_IDLE_RATIO * limit)) if class_name == self._first and limit >= _MIN_SEATS else 0

    def _needed(self, class_name: str, now_s: float) -> int:
        limit, offered = self._scheduler.limit, self._forecast.demand.seats(class_name, now_s)
        if offered < _NEGLIGIBLE_SEATS:
            return 0
        freed = self._forecast.freed_per_s(limit) * self._delays[class_name].target_s
        return min(ceil(offered + sqrt(offered)) - int(freed), int(self._shares[class_name] * limit))
