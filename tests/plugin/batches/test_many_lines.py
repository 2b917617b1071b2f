"""A file of a million lines costs disk, and no memory: neither its upload, nor its check, nor its run."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from batch_server import CHAT, Engine, request, serving
from tiers import long_form

from headway.openai.batch_file import answer_line

NUMBER = 1_000_000
MOST_BYTES = 32 * 1024 * 1024
FORM = (
    b'--B\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
    b'--B\r\nContent-Disposition: form-data; name="file"; filename="in.jsonl"\r\n\r\n',
    b"\r\n--B--\r\n",
)


def resident_bytes() -> int:
    """Of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def bounded() -> Iterator[None]:
    """Look at the memory all the time: it never grows by more than a seventh of the file."""
    base, grown, done = resident_bytes(), 0, threading.Event()

    def look() -> None:
        nonlocal grown
        while not done.wait(0.02):
            grown = max(grown, resident_bytes() - base)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    assert grown < MOST_BYTES


async def form() -> AsyncIterator[bytes]:
    """The form of an upload, piece by piece."""
    yield FORM[0]
    for first in range(0, NUMBER, 500):
        yield b"".join(map(line, range(first, first + 500)))
    yield FORM[1]


def line(number: int) -> bytes:
    """A line of the file, of about 230 bytes."""
    return request(number, body={"number": number, "messages": [{"role": "user", "content": "word " * 25}]})


@long_form("the parts are bounded each: slices of lines, ids in SQLite, a quarter more lines than seats")
@pytest.mark.slow
async def test_a_million_lines_cost_no_memory(tmp_path: Path) -> None:
    """From the upload to the end, with a restart near it that finds nearly all lines in the output."""
    engine = Engine()
    engine.takes_s = 3600
    async with serving(tmp_path, engine, seats=64) as server:
        with bounded():
            kind = {"content-type": "multipart/form-data; boundary=B"}
            reply = await server.ask("POST", "/v1/files", content=form(), headers=kind, timeout=None)
        assert reply.json()["bytes"] > 200_000_000
        wanted = {"input_file_id": reply.json()["id"], "endpoint": CHAT, "completion_window": "24h"}
        with bounded():
            batch_id = (await server.ask("POST", "/v1/batches", json=wanted)).json()["id"]
            await until(lambda: len(engine.asked) >= 64)
        batch = server.batches.open[batch_id]
        assert batch.total == NUMBER
        output = server.batches.folder.file(batch.output_id)
    with output.open("ab") as written:
        for number in range(1000, NUMBER):
            written.write(answer_line(number + 1, f"r{number}", 200, "", b'{"choices":[]}'))
    engine.takes_s = 0
    async with serving(tmp_path, engine, seats=64) as server:
        with bounded():
            batch = server.batches.open[batch_id]
            await until(lambda: batch.ended)
    assert (batch.status, batch.completed, batch.failed) == ("completed", NUMBER, 0)


async def until(holds: Callable[[], bool]) -> None:
    """Wait, as long as it takes on a busy machine."""
    ends_s = time.monotonic() + 900
    while not holds():
        assert time.monotonic() < ends_s
        await asyncio.sleep(0.05)
