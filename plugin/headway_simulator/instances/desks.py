"""A desk for each instance: a router chooses one when a request arrives, and the request stays there.

For comparison with late binding: this is what a router before several servers does. The shell sees one desk; the fleet
has the binding of what the desks dispatch from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from heapq import heapify, heapreplace

from headway_policies import (
    ClassLedger,
    Dispatch,
    Effect,
    Ending,
    Expire,
    Ledger,
    Load,
    Preset,
    Recall,
    Reject,
    Ticket,
    WakeAt,
)
from headway_policies.request import DEFAULT_MAX_TOKENS, Usage
from headway_simulator.engine_model.engine import EngineModel, Sequence
from headway_simulator.instances.arrival import ArrivalRouter
from headway_simulator.instances.fleet import Fleet
from headway_simulator.run.warm import warm_desk


class Desks:
    """The desks, each with the same preset, and their ``fleet``.

    A dead instance is chosen no more. Every event costs O(instances).
    """

    def __init__(self, preset: Preset, models: Iterable[EngineModel], router: ArrivalRouter) -> None:
        listed = list(models)
        self.preset = preset
        self.desks = [warm_desk(preset, one) for one in listed]
        self.fleet = Fleet(listed, self)
        self._router = router
        self._alive = list(range(len(listed)))
        self._place_of: dict[int, int] = {}
        self._waiting: list[dict[int, int]] = [{} for _ in listed]
        self._tokens: dict[int, int] = {}
        self._inside = [0] * len(listed)
        self._wakes = [math.inf] * len(listed)
        self._armed_s = math.inf

    @property
    def ledger(self) -> Ledger:
        """The counts of all desks together."""
        return merged([desk.ledger for desk in self.desks])

    @property
    def limit(self) -> int:
        """The seats of those that live."""
        return sum(self.desks[place].limit for place in self._alive)

    # ------------------------------------------------------------------ what the router may ask

    def inside(self, place: int) -> int:
        """The requests that wait or run there."""
        return self._inside[place]

    def first_token_s(self, place: int) -> float:
        """When the seat of one more request comes free, first come, first served, and a step after that.

        Of those that wait the number of tokens is taken that their clients said.
        """
        seats, waiting = self.desks[place].limit, self._waiting[place]
        left_tokens = self.fleet.left_tokens(place)
        running = min(len(left_tokens) + len(waiting) + 1, seats)
        heapify(left_tokens)
        steps = 0
        if len(left_tokens) >= seats:
            for tokens in waiting.values():
                heapreplace(left_tokens, left_tokens[0] + tokens)
            steps = left_tokens[0]
        return (steps + 1) * self.fleet.step_s(place, running)

    # ------------------------------------------------------------------ events of the fleet

    def place(self, sequence: Sequence) -> int:
        """The engine that belongs to the desk it came to."""
        return self._place_of[sequence.id]

    def changed(self, place: int, running: int, kv_use: float) -> None:
        """The desk knows by itself."""

    def gone(self, place: int) -> None:
        """It is chosen no more."""
        self._alive.remove(place)

    # ------------------------------------------------------------------ events of the shell

    def arrive(self, ticket: Ticket, now_s: float) -> list[Effect]:
        """A request arrived: it gets its instance."""
        place = self._router.choose(self._alive, self)
        self._place_of[ticket.id] = place
        self._inside[place] += 1
        self._waiting[place][ticket.id] = self._tokens[ticket.id] = ticket.max_tokens or DEFAULT_MAX_TOKENS
        return self._sent(place, self.desks[place].arrive(ticket, now_s))

    def leave(self, ticket_id: int, ending: Ending, now_s: float, usage: Usage | None = None) -> list[Effect]:
        """A request is over."""
        place = self._place_of[ticket_id]
        effects = self.desks[place].leave(ticket_id, ending, now_s, usage)
        self._forget(ticket_id)
        return self._sent(place, effects)

    def first_token(self, ticket_id: int, now_s: float) -> list[Effect]:
        """Its first token came."""
        place = self._place_of[ticket_id]
        return self._sent(place, self.desks[place].first_token(ticket_id, now_s))

    def token_batch(self, ticket_id: int, now_s: float) -> list[Effect]:
        """More of its tokens came."""
        return self.desks[self._place_of[ticket_id]].token_batch(ticket_id, now_s)

    def start_failed(self, ticket_id: int, now_s: float) -> list[Effect]:
        """The engine did not take it."""
        return self.leave(ticket_id, Ending.FAILED, now_s)

    def observe(self, load: Load, now_s: float) -> list[Effect]:
        """The engine whose step ended last reports it to its desk."""
        place = self.fleet.stepped
        return self._sent(place, self.desks[place].observe(load, now_s))

    def tick(self, now_s: float) -> list[Effect]:
        """The time of some desks has come."""
        self._armed_s = math.inf
        effects: list[Effect] = []
        for place, wakes_s in enumerate(self._wakes):
            if wakes_s <= now_s:
                self._wakes[place] = math.inf
                effects += self._carried(place, self.desks[place].tick(now_s))
        return self._armed(effects)

    def drain(self, now_s: float) -> list[Effect]:
        """Refuse all that wait."""
        effects: list[Effect] = []
        for place, desk in enumerate(self.desks):
            effects += self._carried(place, desk.drain(now_s))
        return self._armed(effects)

    def engine_lost(self, place: int, now_s: float) -> list[Effect]:
        """An engine is gone for good, with all that waits at its desk."""
        return self._sent(place, self.desks[place].engine_lost(now_s))

    # ------------------------------------------------------------------ inside

    def _sent(self, place: int, effects: list[Effect]) -> list[Effect]:
        return self._armed(self._carried(place, effects))

    def _carried(self, place: int, effects: list[Effect]) -> list[Effect]:
        """The effects of one desk without its timer, which is kept here."""
        kept: list[Effect] = []
        for effect in effects:
            if isinstance(effect, WakeAt):
                self._wakes[place] = effect.at_s
                continue
            kept.append(effect)
            if isinstance(effect, Dispatch):
                del self._waiting[place][effect.ticket_id]
            elif isinstance(effect, Recall):
                self._waiting[place][effect.ticket_id] = self._tokens[effect.ticket_id]
            elif isinstance(effect, Reject | Expire):
                self._forget(effect.ticket_id)
        return kept

    def _armed(self, effects: list[Effect]) -> list[Effect]:
        """With a timer for the first desk that wants one, where that has changed."""
        first_s = min(self._wakes)
        if first_s < self._armed_s:
            self._armed_s = first_s
            effects.append(WakeAt(first_s))
        return effects

    def _forget(self, ticket_id: int) -> None:
        place = self._place_of.pop(ticket_id)
        self._inside[place] -= 1
        self._waiting[place].pop(ticket_id, None)
        self._tokens.pop(ticket_id, None)


def merged(ledgers: Iterable[Ledger]) -> Ledger:
    """The sums of several ledgers, class by class."""
    total = Ledger(())
    for ledger in ledgers:
        total.admit_classes(ledger.classes)
        for name, counts in ledger.classes.items():
            _add(total.classes[name], counts)
    return total


def _add(total: ClassLedger, counts: ClassLedger) -> None:
    total.arrived += counts.arrived
    total.queued += counts.queued
    total.in_flight += counts.in_flight
    total.retries += counts.retries
    total.recalls += counts.recalls
    total.outcomes += counts.outcomes
    total.decisions += counts.decisions
    total.refusals += counts.refusals
