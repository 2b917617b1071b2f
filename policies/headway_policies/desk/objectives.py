"""The objectives of the classes: which tickets are refused while a queue stands, and the seats reserved for a class.

Nothing is refused for an objective while the queue of its class is short, or long for a moment only. While it stands
(``ControlledDelay``), and shortly afterwards, the class is overloaded. Then a ticket whose first token is expected
after three quarters of the objective is refused on arrival (of those that are expected just in time, every other one
would be late), unless the predictions of waits have been wrong by more than half; and of those that have been relegated
because they are late some are refused when others of their class are dispatched (``dispatch``), once their objective
has passed. So most of what is served is served within the objective, and what is not is refused soon; outside of an
overload every ticket is served. Objectives that are relative to the engine follow it (``limits.resolved``); while one
is not known, or the engine could not keep it for a request alone, it refuses nothing. A queue is as old as the oldest
ticket in it: where tenants share, one of them may have a queue that stands, and another none. Each is judged by its own
turn. No class is cut before it has been given what its share guarantees it, nor while less urgent ones are served.

Where a preset leaves the ``reserved_seats`` of a class with an objective out, its demand decides on them: as
many as it fills on average, or now where an overload costs requests, or one has waited beyond the target, and that is
more, plus the square root of that (the square-root staffing rule; Halfin and Whitt, Operations Research 1981), less
those that come free within the target anyway, and never more than its share. For the most urgent class a sixteenth of
the seats is reserved before there is any demand, so that long answers cannot take them all. Under a strategy with a
barrier none are reserved: they would stay empty for a whole batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, inf, sqrt

from headway_policies.desk.books.record import Record
from headway_policies.desk.forecast import Forecast
from headway_policies.desk.scheduler import Scheduler
from headway_policies.limits import Resolved, resolved
from headway_policies.prediction import DecayingRate
from headway_policies.preset import Preset
from headway_policies.queueing import ControlledDelay, shares
from headway_policies.request import Ticket

RESERVE_EVERY_S = 1.0
SURE_RATIO = 0.75
_CONTESTED_RATIO = 0.6
_IDLE_RATIO = 1 / 16
_MIN_SEATS = 8
#: A demand that fades never ends; no seat is reserved for less than this.
_NEGLIGIBLE_SEATS = 0.05
#: The seats that classes were given count for about so long, and as the guaranteed share from this part of it on.
_SHARES_MEMORY_S = 20.0
_GIVEN_RATIO = 0.95
_NEGLIGIBLE_TOKENS_PER_S = 1e-3


class Objectives:
    """The objectives of one preset, by class; what is known of a class's queue outlives a switch that keeps its own."""

    def __init__(self, preset: Preset, scheduler: Scheduler, forecast: Forecast) -> None:
        self._capacity = scheduler.capacity
        self._scheduler = scheduler
        self._forecast = forecast
        self._engine = self._capacity.engine
        self._unloaded = self._engine.unloaded
        self._delays: dict[str, ControlledDelay] = {}
        self._sent_s: dict[str, float] = {}
        self._sent_tokens: dict[str, DecayingRate] = {}
        self._passed_s: dict[str, float] = {}
        self.reserve_again_s = 0.0
        self.adopt(preset, 0.0)

    def adopt(self, preset: Preset, now_s: float) -> None:
        """Put the objectives of a preset in force."""
        before, self._delays = self._delays, {}
        self._classes = preset.classes
        self._stated = frozenset(name for name, terms in preset.classes.items() if terms.ttft_slo_s is not None)
        for name in self._stated:
            known = before.get(name)
            new = ControlledDelay(self.typical_s(name), now_s, burst_s=preset.classes[name].burst_s)
            same = known is not None and (known.slo_s, known.interval_s) == (new.slo_s, new.interval_s)
            self._delays[name] = known if known is not None and same else new
        self._shares = shares(preset.classes)
        ranked, gathers = preset.by_urgency(), preset.batching.strategy != "continuous"
        self._first = ranked[0]
        self._below = {name: ranked[place + 1 :] for place, name in enumerate(ranked)}
        self._beside = self._below
        if preset.ordering.by_shares:
            self._beside = {name: [other for other in ranked if other != name] for name in ranked}
        self._following = tuple(
            name
            for name in ranked[:-1]
            if name in self._delays and preset.classes[name].reserved_seats is None and not gathers
        )
        self.reserve_again_s = now_s if self._following else inf

    def standing(self, now_s: float) -> Iterator[str]:
        """The classes whose queue stands."""
        by_class = self._scheduler.queue.by_class
        return (name for name, delay in self._delays.items() if by_class[name].requests and delay.stands(now_s))

    def typical_s(self, class_name: str) -> float:
        """The objective of a class for a prompt of the recent mean length; infinite without an objective."""
        return self._objective_s(class_name, self._forecast.sizes.prompt_tokens)

    # ------------------------------------------------------------------ events

    def observed(self) -> None:
        """The engine made a step: objectives that are relative to it follow."""
        if self._engine.unloaded is not self._unloaded:
            self._unloaded = self._engine.unloaded
            for name, delay in self._delays.items():
                delay.aim(self.typical_s(name))

    def arrived(self, ticket: Ticket, now_s: float) -> None:
        """A ticket arrived: its class demands seats, whether it gets them or not."""
        self._forecast.demand.arrived(ticket.class_name, ticket.seats, now_s)
        delay = self._delays.get(ticket.class_name)
        if delay is None:
            return
        if not self._scheduler.queue.by_class[ticket.class_name].requests:
            delay.empty(now_s)

    def dispatched(self, record: Record, now_s: float) -> None:
        """A ticket goes to the engine. A ticket that ran before, on an engine that died, says nothing of the queue."""
        name = record.queue_class
        self._sent_s[name] = now_s
        rate = self._sent_tokens.get(name)
        if rate is None:
            rate = self._sent_tokens[name] = DecayingRate(_SHARES_MEMORY_S, now_s)
        rate.add(record.expected_tokens, now_s)
        if record.crash is not None or record.beside or len(self._scheduler.queue.lanes) > 1:
            self.passed(name, now_s)
        delay = self._delays.get(name)
        if delay is None or record.crash is not None:
            return
        oldest_s = self._scheduler.oldest_s(name)
        arrived_s = record.ticket.arrived_s
        delay.dispatched(now_s - (arrived_s if oldest_s is None else min(arrived_s, oldest_s)), now_s)

    def passed(self, class_name: str, now_s: float) -> None:
        """A ticket of a class goes before others, and its order did not say so among all that wait."""
        self._passed_s[class_name] = now_s

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
        """Whether the first token of a new ticket would probably come too late, in a standing queue. Predictions that
        have been wrong by more than half refuse nothing.
        """
        delay = self._delays.get(ticket.class_name)
        if delay is None or not delay.overloaded(now_s) or not self._forecast.waits_known:
            return False
        wait_s = self._scheduler.expected_wait_s(ticket)
        slo_s = self._objective_s(ticket.class_name, ticket.prompt_tokens)
        return wait_s is not None and wait_s + (self._forecast.likely_first_token_s(ticket) or 0.0) > SURE_RATIO * slo_s

    def late(self, record: Record, delay_s: float, now_s: float, *, surely: float = 1.0) -> bool:
        """Whether a first token after ``delay_s`` from now would come after this part of the objective of a ticket."""
        if record.crash is not None or record.recalled or record.queue_class not in self._stated:
            return False
        slo_s = self._objective_s(record.queue_class, record.ticket.prompt_tokens)
        return now_s - record.ticket.arrived_s + delay_s > surely * slo_s

    def gives_way(self, record: Record, delay_s: float, now_s: float) -> bool:
        """Whether a ticket whose first token would come after ``delay_s`` gives way to others of its class.

        In an overload that costs tickets, those that go have waited for nearly as long as this allows. So it allows
        less then, and most of what is served is well within the objective.
        """
        surely = _CONTESTED_RATIO if self.contested(record.queue_class, now_s) else SURE_RATIO
        return self.late(record, delay_s, now_s, surely=surely)

    def lost(self, record: Record, now_s: float) -> bool:
        """Whether its first token would be too late even in an idle engine."""
        unloaded, tokens = self._engine.unloaded, record.ticket.prompt_tokens
        return self.late(record, 0.0 if unloaded is None else unloaded.first_token_s(tokens), now_s)

    def overloaded(self, class_name: str, now_s: float) -> bool:
        """Whether the queue of a class stands, or stood shortly before."""
        delay = self._delays.get(class_name)
        return delay is not None and delay.overloaded(now_s)

    def contested(self, class_name: str, now_s: float) -> bool:
        """Whether a class is overloaded and has had tickets refused for it shortly before, while others waited."""
        delay = self._delays.get(class_name)
        return delay is not None and delay.overloaded(now_s) and delay.contested(now_s)

    def below_waits(self, class_name: str) -> bool:
        """Whether a ticket of a less urgent class waits."""
        by_class = self._scheduler.queue.by_class
        return any(by_class[name].requests for name in self._below[class_name])

    def below_sent(self, class_name: str, since_s: float) -> bool:
        """Whether a ticket of a less urgent class was dispatched since then."""
        return any(self._sent_s.get(name, -inf) >= since_s for name in self._below[class_name])

    def passed_over(self, class_name: str, since_s: float) -> bool:
        """Whether a less urgent ticket has been dispatched since then beside the order between the classes."""
        return any(self._passed_s.get(name, -inf) >= since_s for name in self._below[class_name])

    def used_up(self, class_name: str, now_s: float) -> bool:
        """Whether a class has used its guaranteed share, while others wait or were dispatched lately: less urgent ones,
        or all under an order by shares.
        """
        sent, beside, by_class = self._sent_tokens, self._beside[class_name], self._scheduler.queue.by_class
        theirs = {name: sent[name].per_s(now_s) for name in beside if name in sent}
        total = sum(theirs.values())
        if total <= _NEGLIGIBLE_TOKENS_PER_S:
            return True
        present = sum(self._shares[name] for name in beside if theirs.get(name) or by_class[name].requests)
        own = sent[class_name].per_s(now_s) if class_name in sent else 0.0
        guaranteed = self._shares[class_name] / (self._shares[class_name] + present)
        return own >= _GIVEN_RATIO * guaranteed * (own + total)

    def resolved(self, class_name: str, prompt_tokens: float | None = None) -> Resolved:
        """The objectives of a class as they are now, for a prompt of this length; None: of the recent mean."""
        usual_tokens = self._forecast.sizes.prompt_tokens
        tokens = usual_tokens if prompt_tokens is None else prompt_tokens
        return resolved(self._classes[class_name], self._engine.unloaded, tokens, usual_tokens)

    def _objective_s(self, class_name: str, prompt_tokens: float) -> float:
        """The time to the first token to keep for a prompt of this length; infinite where the class states none, while
        it is not known, and where the engine could not keep it for a request alone.
        """
        if class_name not in self._stated:
            return inf
        found = self.resolved(class_name, prompt_tokens)
        return inf if found.ttft_s is None or not found.ttft_kept_alone else found.ttft_s

    # ------------------------------------------------------------------ the seats that are reserved

    @property
    def moving(self) -> bool:
        """Whether seats are reserved for a demand: time alone may open them to other classes."""
        reserved = self._scheduler.seats.reserved()
        return any(reserved[name] > self._at_least(name) for name in self._following)

    def reserve(self, now_s: float) -> bool:
        """Reserve the seats that each class needs now; due at ``reserve_again_s``. Whether any number has changed."""
        self.reserve_again_s = now_s + RESERVE_EVERY_S if self._following else inf
        seats, changed = self._scheduler.seats, False
        before = seats.reserved()
        for name in self._following:
            needed = max(self._at_least(name), self._needed(name, now_s))
            if needed != before[name]:
                seats.reserve_for(name, needed)
                changed = True
        return changed

    def _at_least(self, class_name: str) -> int:
        """The seats reserved without any demand: some for the most urgent class, unless there are few in all."""
        limit = self._capacity.limit
        return max(1, int(_IDLE_RATIO * limit)) if class_name == self._first and limit >= _MIN_SEATS else 0

    def _needed(self, class_name: str, now_s: float) -> int:
        scheduler, limit = self._scheduler, self._capacity.limit
        offered = self._forecast.demand.surely_seats(class_name, now_s)
        if self._waits_long(class_name, now_s) or any(self.contested(name, now_s) for name in self._delays):
            offered = max(offered, scheduler.seats.taken_by(class_name) + scheduler.queue.by_class[class_name].seats)
        if offered < _NEGLIGIBLE_SEATS or self._delays[class_name].target_s == inf:
            return 0
        margin = sqrt(offered)
        target_s = self._delays[class_name].target_s
        freed = min(self._forecast.freed_per_s(limit) * target_s, self._freed(class_name, target_s, margin))
        return min(ceil(offered + margin) - int(freed), int(self._shares[class_name] * limit))

    def _freed(self, class_name: str, within_s: float, margin: float) -> float:
        """The seats that come free for a class within a time: those of less urgent classes, by how long each of these
        occupies its own; and as many of its own as the margin, for its next tickets need the others again.
        """
        seats, demand = self._scheduler.seats, self._forecast.demand
        residences_s = {name: demand.residence_s(name) for name in (class_name, *self._below[class_name])}
        freed = {name: seats.taken_by(name) * within_s / one_s for name, one_s in residences_s.items() if one_s}
        return sum(freed.values()) - max(0.0, freed.get(class_name, 0.0) - margin)

    def _waits_long(self, class_name: str, now_s: float) -> bool:
        """Whether a ticket of a class has waited beyond the target: more seats were needed than it found."""
        oldest_s = self._scheduler.oldest_s(class_name)
        return oldest_s is not None and now_s - oldest_s > self._delays[class_name].target_s
