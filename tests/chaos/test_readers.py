"""Slow and absent readers (C4, C6): they hold no seat, and mass disconnects leave no state."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import ExitStack, suppress
from threading import Event

from client_accounting import ClientGroup, mixed
from engine_parts import ROUNDS
from running_server import RunningServer, wait_until

HALF_OPEN = 200


def _ask_and_never_read(server: RunningServer, max_tokens: int, *, timeout_s: int = 150) -> socket.socket:
    """A stream on a socket with the smallest possible window, of which no byte is read."""
    body = json.dumps({"model": "tiny", "prompt": "x", "max_tokens": max_tokens, "ignore_eos": True, "stream": True})
    head = (
        "POST /v1/completions HTTP/1.1",
        "host: localhost",
        "content-type: application/json",
        f"x-request-timeout-seconds: {timeout_s}",
        f"content-length: {len(body)}",
    )
    silent = socket.socket()
    silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    silent.connect(("127.0.0.1", server.port))
    silent.sendall(("\r\n".join(head) + "\r\n\r\n" + body).encode())
    return silent


def _begin_and_never_end(server: RunningServer) -> socket.socket:
    """A connection on which half a request was sent, and nothing more."""
    half = socket.create_connection(("127.0.0.1", server.port))
    half.sendall(b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 400\r\n\r\n{")
    return half


def _sip(slow: list[socket.socket], until: Event) -> None:
    """Read from each ten bytes a second."""
    while not until.wait(1):
        for one in slow:
            with suppress(BlockingIOError):
                one.recv(10, socket.MSG_DONTWAIT)


async def test_an_absent_reader_holds_no_seat(chaos: RunningServer) -> None:
    """On four seats: clients that never read and such that read ten bytes a second, and beside them many that never
    finish asking. The engine finishes with all of them while they are connected, and those that read are served."""
    before = chaos.scrape()("vllm:request_success_total")
    with ExitStack() as stack:
        for _ in range(HALF_OPEN):
            stack.enter_context(_begin_and_never_end(chaos))
        silent = [stack.enter_context(_ask_and_never_read(chaos, 300)) for _ in range(8)]
        enough = Event()
        sipping = asyncio.create_task(asyncio.to_thread(_sip, silent[::2], enough))
        stack.callback(enough.set)
        good = ClientGroup(chaos, mixed(8, sizes=(20,)))
        await good.run()
        assert good.verdicts() == {"completed": 8}
        wait_until(lambda: chaos.scrape()("vllm:request_success_total") == before + 16, "the engine is done", 120)
        wait_until(lambda: chaos.status()["seats_taken"] == 0, "all seats are free, though nothing was read")
        enough.set()
        await sipping
    chaos.settle()
    assert chaos.scrape().unbalanced() == []


def test_a_stalled_stream_ends_at_its_cap(chaos: RunningServer) -> None:
    """The client is still there and reads nothing: when its time is over it is settled, and its task ends."""
    before = chaos.scrape()
    with _ask_and_never_read(chaos, 1500, timeout_s=2):
        wait_until(lambda: chaos.status()["in_flight"] == 1, "it runs")
        wait_until(lambda: chaos.status()["in_flight"] == 0, "it is settled")
        chaos.settle()
        now = chaos.scrape()
    ended = now("headway_outcomes_total") - before("headway_outcomes_total")
    assert ended == 1
    assert now("headway_outcomes_total", outcome="completed") == before("headway_outcomes_total", outcome="completed")


def test_mass_disconnects_leave_no_state(chaos: RunningServer) -> None:
    """Sixty-four clients that send and disconnect, running and waiting: queue and engine are empty, none counts as
    completed."""
    before = chaos.scrape()
    for _ in range(ROUNDS):
        with ExitStack() as stack:
            for _ in range(64):
                stack.enter_context(_ask_and_never_read(chaos, 1500))
            wait_until(lambda: chaos.status()["in_flight"] + chaos.status()["queued"] == 64, "all are in", 60)
        chaos.settle()
    now = chaos.scrape()
    ended = {how: now("headway_outcomes_total", outcome=how) - before("headway_outcomes_total", outcome=how)
             for how in ("cancelled_running", "cancelled_queued", "completed", "failed")}  # fmt: skip
    assert ended["completed"] == ended["failed"] == 0
    assert ended["cancelled_running"] + ended["cancelled_queued"] == 64 * ROUNDS
    assert now.unbalanced() == []
