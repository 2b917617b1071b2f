"""Which part of a stream is made of whole server-sent events?

Bytes come in any pieces; an event ends with an empty line. What is handed on ends with one, so that whatever follows,
an error of ours included, begins an event of its own.
"""

from __future__ import annotations

import re

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_DONE = re.compile(rb"(?:^|[\r\n])data: ?\[DONE\][\r\n]")
_LONGEST_END = 4


class EventTooLargeError(Exception):
    """One event is larger than the bound."""


class Events:
    """Hands on whole events and keeps the beginning of the next one, at most ``most_bytes`` of it."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._kept = b""
        self.done = False

    def add(self, piece: bytes) -> bytes:
        """All that is whole now; empty while the event goes on. Raises EventTooLargeError."""
        looked = max(0, len(self._kept) - _LONGEST_END)
        text = self._kept + piece
        end = max((found.end() for found in _END.finditer(text, looked)), default=0)
        whole, self._kept = text[:end], text[end:]
        if len(self._kept) > self._most_bytes:
            raise EventTooLargeError
        self.done = self.done or _DONE.search(whole) is not None
        return whole
