"""Routers that choose an instance for a request when it arrives, to compare late binding with. No product policies.

round robin    each instance in turn
random         the emptier of two instances that are drawn at random (power of two choices; Mitzenmacher 2001)
jsq            the shortest wait, with full information: what each request before it will still generate is known
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Protocol


class Standings(Protocol):
    """What is known of the instances when a request arrives."""

    def inside(self, place: int) -> int:
        """The requests that wait or run there."""
        ...

    def first_token_s(self, place: int) -> float:
        """How long the first token of one more request would take there."""
        ...


class ArrivalRouter(Protocol):
    """Chooses for every request as it arrives."""

    def choose(self, places: Sequence[int], standings: Standings) -> int:
        """One of these places; there is at least one."""
        ...


class RoundRobin:
    """Each in turn."""

    def __init__(self) -> None:
        self._turn = -1

    def choose(self, places: Sequence[int], standings: Standings) -> int:
        """The next one."""
        self._turn = (self._turn + 1) % len(places)
        return places[self._turn]


class TwoChoices:
    """The emptier of two drawn at random, from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311 - to be repeatable

    def choose(self, places: Sequence[int], standings: Standings) -> int:
        """Where fewer requests are; the first drawn one where they are as many."""
        drawn = self._random.sample(places, min(2, len(places)))
        return min(drawn, key=standings.inside)


class ShortestWait:
    """Where the first token would come first."""

    def choose(self, places: Sequence[int], standings: Standings) -> int:
        """The first of the best."""
        return min(places, key=standings.first_token_s)
