"""The tries of one request, in front of instances and of a fleet on Ray Serve.

A request during which two instances were lost is not tried a third time: it may be the cause.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from headway.router.forwarding.forwarded import Piece, media_type

MOST_LOST: Final = 2
#: Reasons of an instance with Headway that serves no request at the moment.
AWAY: Final = frozenset({"draining", "not_ready", "engine_lost", "out_of_memory"})
_MAX_HELD_BYTES: Final = 8 * 1024 * 1024


def reason_of(first: Piece) -> str | None:
    """The reason of a refusal by Headway; None for any other response."""
    return next((value for name, value in first.headers if name == "x-headway-reason"), None)


class Held:
    """A store of the pieces of a JSON body until all are there: until then another instance can be asked."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._bytes = 0
        self._holds = False

    def add(self, piece: Piece) -> list[Piece]:
        """Add a piece; returns the pieces to be sent now."""
        if piece.status is not None:
            self._holds = media_type(piece.headers) == "application/json"
        self._pieces.append(piece)
        self._bytes += len(piece.body)
        if self._holds and not piece.last and self._bytes <= _MAX_HELD_BYTES:
            return []
        whole, self._holds = self._holds and piece.last, False
        pieces, self._pieces = self._pieces, []
        if not whole:
            return pieces
        body = b"".join(part.body for part in pieces)
        return [replace(piece, body=body, status=pieces[0].status, headers=pieces[0].headers)]
