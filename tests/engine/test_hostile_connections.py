"""Hostile connections against the real server: half-open, dripping, pipelined and oversized ones, beside good traffic.

Each gets its refusal or waits for its time limit. In the meantime every good request is answered; how fast, is a ratio
within one run and asserted in the long form alone.
"""

from __future__ import annotations

import gzip
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from itertools import cycle
from statistics import quantiles

import pytest
import raw_http
import requests
from engine_parts import resident_bytes
from generation_requests import body
from running_server import RunningServer

LONG = bool(os.environ.get("HEADWAY_LONG_TESTS"))
MIB = 1024 * 1024
HELD = 200
ROUNDS, REQUESTS = (6, 100) if LONG else (1, 20)
MORE_BYTES = 32 * MIB
#: The p99 of good requests beside hostile ones, as a ratio to the p99 without them.
MORE_TIME = 1.5
PAUSE_S = 0.25

CHAT = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"


def _chunks() -> bytes:
    piece = b"%x\r\n" % MIB + b"a" * MIB + b"\r\n"
    return f"{CHAT}transfer-encoding: chunked\r\n\r\n".encode() + piece * 64


def _bomb() -> bytes:
    bomb = gzip.compress(b"0" * 64 * MIB)
    return f"{CHAT}content-encoding: gzip\r\ncontent-length: {len(bomb)}\r\n\r\n".encode() + bomb


#: What makes the bytes of one connection, and the statuses that it may be answered with.
OVERSIZED: dict[str, tuple[Callable[[], bytes], set[int]]] = {
    "64 MiB in chunks": (_chunks, {400, 413}),
    "64 MiB declared": (lambda: f"{CHAT}content-length: {64 * MIB}\r\n\r\n".encode(), {413}),
    "a gzip bomb": (_bomb, {400, 415}),
    "a header of 1 MiB": (lambda: f"{CHAT}x-a: {'1' * MIB}\r\n\r\n".encode(), {431}),
    "10,000 headers": (lambda: CHAT.encode() + b"x-a: b\r\n" * 10_000 + b"\r\n", {431}),
    "a long target": (lambda: f"GET /{'a' * 20_000} HTTP/1.1\r\nhost: x\r\n\r\n".encode(), {414}),
}


@contextmanager
def held(server: RunningServer) -> Iterator[list[socket.socket]]:
    """Connections that never complete a request: half of them in its head, half in a chunked body."""
    heads = (
        "POST /v1/completions HTTP/1.1\r\nhost: x\r\nx-a: ",
        f"{CHAT}transfer-encoding: chunked\r\n\r\n1\r\n{{\r\n",
    )
    with ExitStack() as stack:
        connections = []
        for _, head in zip(range(2 * HELD), cycle(heads), strict=False):
            one = stack.enter_context(closing(socket.create_connection(("127.0.0.1", server.port), timeout=60)))
            one.sendall(head.encode())
            connections.append(one)
        yield connections


@contextmanager
def attacked(server: RunningServer) -> Iterator[dict[str, set[int]]]:
    """All of it at once, until the end; gives the statuses that have come so far."""
    seen: dict[str, set[int]] = {name: set() for name in OVERSIZED}
    over = threading.Event()

    def drip(connections: list[socket.socket]) -> None:
        while not over.wait(1.0):
            for number, connection in enumerate(connections):
                with suppress(OSError):  # its time was over
                    connection.sendall(b"1\r\na\r\n" if number % 2 else b"a")

    def send() -> None:
        for name, content in cycle([(name, make()) for name, (make, _) in OVERSIZED.items()]):
            if over.wait(PAUSE_S):
                return
            seen[name].add(raw_http.status(server.port, [content]))

    with held(server) as connections:
        threads = [threading.Thread(target=drip, args=(connections,)), threading.Thread(target=send)]
        for thread in threads:
            thread.start()
        try:
            yield seen
        finally:
            over.set()
            for thread in threads:
                thread.join()


def times_s(server: RunningServer) -> list[float]:
    """Of good requests, one after the other; each must be answered."""
    found = []
    with requests.Session() as session:
        for _ in range(REQUESTS):
            before_s = time.perf_counter()
            answer = session.post(f"{server.url}/v1/completions", json=body("/v1/completions", 8), timeout=120)
            found.append(time.perf_counter() - before_s)
            assert answer.status_code == 200, answer.text
    return found


@pytest.mark.parametrize("name", list(OVERSIZED))
def test_an_oversized_request_gets_its_status_and_leaves_no_memory(server: RunningServer, name: str) -> None:
    """Also when it comes ten times: a compressed body is never unpacked."""
    make, statuses = OVERSIZED[name]
    content = make()
    assert raw_http.status(server.port, [content]) in statuses
    before_bytes = resident_bytes(server)
    assert {raw_http.status(server.port, [content]) for _ in range(9)} <= statuses
    assert resident_bytes(server) - before_bytes <= MORE_BYTES


def test_pipelined_requests_are_answered_in_their_order(server: RunningServer) -> None:
    """A hundred at once on one connection: each has one answer, and a wrong one ends none of the others."""
    targets = ("/headway/healthz", "/nowhere", "/v1/models")
    asked = [f"GET {target} HTTP/1.1\r\nhost: x\r\n" for _, target in zip(range(99), cycle(targets), strict=False)]
    last = "GET /headway/healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
    answer = raw_http.answers(server.port, ["".join(f"{one}\r\n" for one in (*asked, last)).encode()])
    statuses = [int(part.split(b" ", 1)[0]) for part in answer.split(b"HTTP/1.1 ")[1:]]
    models = requests.get(f"{server.url}/v1/models", timeout=20).status_code
    assert statuses == [status for _, status in zip(range(99), cycle((200, 404, models)), strict=False)] + [200]


def test_good_requests_are_answered_beside_hostile_ones(server: RunningServer) -> None:
    """400 connections that never complete a request, and one oversized request after the other."""
    times_s(server)
    before_bytes = resident_bytes(server)
    quiet, beside = list[float](), list[float]()
    for _ in range(ROUNDS):
        quiet += times_s(server)
        with attacked(server) as seen:
            beside += times_s(server)
    if LONG:
        assert all(statuses and statuses <= OVERSIZED[name][1] for name, statuses in seen.items()), seen
        p99, p99_beside = (quantiles(one, n=100)[-1] for one in (quiet, beside))
        assert p99_beside <= MORE_TIME * p99, (p99, p99_beside)
    assert resident_bytes(server) - before_bytes <= MORE_BYTES
