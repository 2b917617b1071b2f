"""Binding: which engine of a fleet a dispatched sequence goes to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from headway_policies.routing import Demand, Instance, Roster, Router
from headway_simulator.engine_model.engine import Sequence

_COMPARED = 4


class Binding(Protocol):
    """Places are the numbers of the engines, from 0 on."""

    def place(self, sequence: Sequence) -> int | None:
        """The engine for a sequence; None where it has to wait for a free seat."""
        ...

    def changed(self, place: int, running: int, kv_use: float) -> None:
        """An engine now has so many sequences, and this share of its KV cache in use."""
        ...

    def gone(self, place: int) -> None:
        """An engine died."""
        ...


class LateBinding:
    """The product's: a router chooses among the freest instances when a sequence is dispatched."""

    def __init__(self, seats: Iterable[int], router: Router) -> None:
        self._states = [Instance(str(place), number, 0) for place, number in enumerate(seats)]
        self._router = router
        self._roster = Roster()
        self._open: set[int] = set()
        for place in range(len(self._states)):
            self.open(place)

    @property
    def seats(self) -> int:
        """The seats of the instances that are open."""
        return sum(self._states[place].seats for place in self._open)

    def place(self, sequence: Sequence) -> int | None:
        """That of the router, which is asked about a few instances only, however many there are."""
        demand = Demand(sequence.prompt_tokens + sequence.output_tokens, sequence.prompt_tokens)
        name = self._router.choose(demand, self._roster.freest(_COMPARED))
        return None if name is None else int(name)

    def changed(self, place: int, running: int, kv_use: float) -> None:
        """Its free seats are others now."""
        state = self._states[place] = Instance(str(place), self._states[place].seats, running, kv_use)
        if place in self._open:
            self._roster.put(state)

    def gone(self, place: int) -> None:
        """It is not chosen again."""
        self.close(place)

    def open(self, place: int) -> None:
        """It may be chosen from now on."""
        self._open.add(place)
        self._roster.put(self._states[place])

    def close(self, place: int) -> None:
        """It is not chosen until it is opened again; what runs there goes on."""
        self._open.discard(place)
        self._roster.remove(str(place))
