"""What the front and the replicas send each other for one request.

front -> replica   Forwarded
replica -> front   Accepted, then Head, then the body in pieces (bytes); Lost in place of what is missing
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headway.router.forwarded import Headers


@dataclass(frozen=True, slots=True)
class Forwarded:
    """A client's request. ``tried`` are the replicas that were lost while they had it, or could not serve it."""

    method: str
    target: str
    headers: Headers
    body: bytes = field(repr=False)
    tried: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Accepted:
    """The replica has the request."""

    replica: str


@dataclass(frozen=True, slots=True)
class Head:
    """Status and headers of the server's response."""

    status: int
    headers: Headers

    def header(self, name: str) -> str:
        """The first header of this name, in lower case; empty where there is none."""
        return next((value for key, value in self.headers if key.lower() == name), "")


@dataclass(frozen=True, slots=True)
class Lost:
    """The server has ended, or broke the response off; ``error`` says how. ``had_it``: the request had reached it."""

    error: str
    had_it: bool = True


Message = Accepted | Head | bytes | Lost
