"""A splitter of a byte stream into whole server-sent events.

Bytes come in any pieces; an event ends with an empty line. Each forwarded piece ends with such a line, so that the next
event, also an error event of Headway, is an event of its own. However small the pieces are, each byte is read at most a
fixed number of times.
"""

from __future__ import annotations

import re

_ENDS = (b"\r\n\r\n", b"\n\n", b"\r\r")
_LONGEST_END = max(map(len, _ENDS))
_DONE = re.compile(rb"(?:^|[\r\n])data: ?\[DONE\][\r\n]")


class EventTooLargeError(Exception):
    """The event is larger than the bound."""


class SseEvents:
    """A splitter: returns whole events and keeps the beginning of the next one, at most ``most_bytes`` of it."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._kept = bytearray()
        self.done = False

    def add(self, piece: bytes) -> bytes:
        """Add a piece; returns the whole events, none while an event goes on. Raises EventTooLargeError."""
        looked = max(0, len(self._kept) - _LONGEST_END + 1)
        self._kept += piece
        found = [(self._kept.rfind(end, looked), len(end)) for end in _ENDS]
        length = max((at + size for at, size in found if at >= 0), default=0)
        whole = bytes(memoryview(self._kept)[:length])
        del self._kept[:length]
        if len(self._kept) > self._most_bytes:
            raise EventTooLargeError
        self.done = self.done or _DONE.search(whole) is not None
        return whole
