"""Fixtures of the dashboard's tests: a stub server, and servers that misbehave."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

import pytest
from stub_server import StubServer


@pytest.fixture
def stub() -> Iterator[StubServer]:
    """A stub server whose state a test changes by hand."""
    with StubServer() as server:
        yield server


@pytest.fixture
def black_hole() -> Iterator[str]:
    """An address that accepts connections and never answers."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(16)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def nobody() -> str:
    """An address on which no server listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    """Wait until a condition holds; fail after a minute."""

    def wait(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
        ends_s = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < ends_s, "the condition never held"
            time.sleep(0.02)

    return wait
