"""The process of a group: what its children keep of it, and which API servers are asked to end what a lost one ran."""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headway.vllm_adapter.front_end import ABORT_ROUTE, KEY
from headway.vllm_adapter.front_end_group import Channel, LostServers, closing


class ApiServers:
    """Three ports that answer everything; ``asked`` are the number and the target of each request."""

    def __init__(self) -> None:
        asked: queue.Queue[tuple[int, str]] = queue.Queue()

        class Answering(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                known = self.headers["authorization"] == "Bearer the-key"
                asked.put((ports.index(self.server.server_address[1]), self.path if known else "a stranger"))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self.asked = asked
        self._servers = [ThreadingHTTPServer(("127.0.0.1", 0), Answering) for _ in range(3)]
        self.ports = ports = [one.server_port for one in self._servers]
        for one in self._servers:
            threading.Thread(target=one.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Release the ports."""
        for one in self._servers:
            one.shutdown()
            one.server_close()


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServers]:
    """They answer until the end of the test."""
    monkeypatch.setenv(KEY, "the-key")
    one = ApiServers()
    yield one
    one.close()


def test_no_lost_api_server_is_asked_to_end_what_another_one_ran(servers: ApiServers) -> None:
    """Its port still takes connections: each loss is told, and one that lives is asked, twice."""
    reading, writing = os.pipe()
    losses = LostServers(Channel(writing), servers.ports)
    for lost, asked in ((0, 1), (1, 2)):
        losses.report(lost)
        for _ in range(2):
            assert servers.asked.get(timeout=30) == (asked, f"{ABORT_ROUTE}?client={lost}")
    os.close(writing)
    with os.fdopen(reading) as lines:
        assert [json.loads(line) for line in lines] == [{"lost": 0}, {"lost": 1}]


def test_a_descriptor_is_closed_in_children_and_not_in_theirs() -> None:
    """Its number may be that of another file by then."""
    reading, writing = os.pipe()
    close = closing(writing)
    close()
    another, other_end = os.pipe()
    assert writing in (another, other_end)
    close()
    os.fstat(writing)
    for one in (reading, another, other_end):
        os.close(one)
