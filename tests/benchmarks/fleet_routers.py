"""Routers that choose an instance for a request when it arrives, to compare late binding with.

Each instance has a line of its own, first come, first served: the engine's. ``ROUTERS`` are

round robin    each instance in turn
two choices    the emptier of two instances that are drawn at random (Mitzenmacher 2001)
shortest wait  with full information: what each request before it will still generate is known; no real router knows it
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from heapq import heapify, heapreplace
from itertools import count
from random import Random
from typing import cast

from simulated_fleet import Fleet

from headway_simulator import Bare, EngineModel, Result
from headway_simulator.engine_model.engine import Engine, Sequence
from headway_simulator.run.shell import Shell
from headway_simulator.traffic.clients import Clients
from headway_simulator.traffic.workload import Request

Choice = Callable[[Fleet], int]


def round_robin() -> Choice:
    """Each in turn."""
    turns = count()
    return lambda fleet: next(turns) % len(fleet.engines)


def two_choices() -> Choice:
    """The emptier of two drawn at random."""
    random = Random(1)
    return lambda fleet: min(random.sample(range(len(fleet.engines)), 2), key=lambda place: len(fleet.held[place]))


def shortest_wait() -> Choice:
    """Where the first token would come first."""
    return lambda fleet: min(range(len(fleet.engines)), key=lambda place: _first_token_s(fleet, place))


def _first_token_s(fleet: Fleet, place: int) -> float:
    """When the seat of one more request comes free, first come, first served, and a step after that."""
    engine = fleet.engines[place]
    seats = engine.model.max_num_seqs
    left_tokens = [one.output_tokens - engine.made_tokens(one) for one in fleet.held[place]]
    seated, behind = left_tokens[:seats], left_tokens[seats:]
    heapify(seated)
    for tokens in behind:
        heapreplace(seated, seated[0] + tokens)
    steps = seated[0] if len(seated) == seats else 0
    return (steps + 1) * engine.model.step_s(min(len(left_tokens) + 1, seats))


ROUTERS: dict[str, Callable[[], Choice]] = {
    "round robin": round_robin,
    "two choices": two_choices,
    "shortest wait": shortest_wait,
}


class OnArrival:
    """The binding of a request that is sent on as it arrives."""

    def __init__(self, choice: Choice, models: Iterable[EngineModel]) -> None:
        self._choice = choice
        self.fleet = Fleet(models, self)

    def place(self, sequence: Sequence) -> int:
        """That of the router."""
        return self._choice(self.fleet)

    def changed(self, place: int, running: int, kv_use: float) -> None:
        """The router looks at the engines by itself."""


def simulate_on_arrival(router: str, requests: Iterable[Request], models: Iterable[EngineModel], seats: int) -> Result:
    """Serve these requests by engines with so many seats each, under a router of ``ROUTERS``."""
    binding = OnArrival(ROUTERS[router](), [replace(model, max_num_seqs=seats) for model in models])
    return Shell(Bare(), cast(Engine, binding.fleet), Clients(), Random(0), one_by_one=False).run(requests, (), None)


def with_slow(model: EngineModel, number: int, factor: float) -> list[EngineModel]:
    """So many engines, the last of which takes ``factor`` times as long for everything."""
    slow = replace(
        model, base_s=model.base_s * factor, seat_s=model.seat_s * factor, prefill_s=model.prefill_s * factor
    )
    return [*[model] * (number - 1), slow]
