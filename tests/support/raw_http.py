"""HTTP/1.1 as raw bytes: what no client library would send, and what comes back."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import BinaryIO


def status(port: int, parts: Iterable[bytes]) -> int:
    """The status that a request is answered with; 0 where the connection is closed without an answer."""
    first = _exchange(port, parts, lambda answer: answer.readline())
    return int(first.split()[1]) if first else 0


def answers(port: int, parts: Iterable[bytes]) -> bytes:
    """All that comes back until the server closes the connection."""
    return _exchange(port, parts, lambda answer: answer.read())


def _exchange(port: int, parts: Iterable[bytes], read: Callable[[BinaryIO], bytes]) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        with suppress(ConnectionError):  # refused before all was sent; the answer may be here
            for part in parts:
                connection.sendall(part)
        with suppress(ConnectionError), connection.makefile("rb") as answer:
            return read(answer)
    return b""
