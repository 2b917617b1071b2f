"""The router: which instance takes the request that leaves the queue next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from headway_policies.routing.instance import Instance


@dataclass(frozen=True, slots=True)
class Demand:
    """A request as a router sees it: ``seats`` sequences, ``tokens`` in all of them, those of its prompt, and the
    hashes of the beginnings of its prompt (``request/prefix``), and its class.
    """

    tokens: int
    prompt_tokens: int = 0
    prefix: tuple[int, ...] = ()
    seats: int = 1
    class_name: str = ""


class Router(Protocol):
    """Chooses an instance for the request that leaves the queue next. Pure: the same arguments, the same answer."""

    def choose(self, demand: Demand, instances: Sequence[Instance]) -> str | None:
        """The name of a healthy instance with a free seat; None without one: it waits on.

        A request of several sequences is never split. Such a request may be given an instance with fewer free seats
        than it has sequences, if there is no better one; the others then queue inside that engine. So whenever the free
        seats of all instances add up to those of the request, there is an instance for it.
        """
        ...
