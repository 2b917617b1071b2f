"""Memory of the requests that wait at a server: Headway's queue against vLLM's own.

Two servers on the tiny model, one after the other, each with its engine paused; what all its processes together grow by
is divided by the number of requests that wait.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
from goal import Goal
from own_server import START_S, running
from serving.client import TINY

from headway_tools.demo.children import Family

WAITING, TOGETHER, WARM, SETTLE_S = 1000, 50, 300, 3.0
WORDS = (20, 1000)
_FLAGS = ("--host", "127.0.0.1", "--max-model-len", "2048", "--enforce-eager", "--disable-uvicorn-access-log")
_TOKEN = "t" * 32
_ENVIRONMENT = {"HEADWAY_ALLOW_DEV_MODE": "1", "VLLM_SERVER_DEV_MODE": "1", "HEADWAY_ADMIN_TOKEN": _TOKEN}  # for /pause


def waiting() -> Iterator[Goal]:
    """Memory: all processes of a server while 1000 HTTP requests wait"""
    for words in WORDS:
        ours, bare = (asyncio.run(_bytes_each(words, plain=plain)) for plain in (False, True))
        note = f"{ours / 1000:.1f} KB : {bare / 1000:.1f} KB"
        figure = f"memory of a waiting request of {words} words, Headway : vLLM alone"
        yield Goal("memory", figure, 1.2, ours / bare, most=True, note=note)


async def _bytes_each(words: int, *, plain: bool) -> float:
    """What a server's processes grow by for each request that waits."""
    headway = [sys.executable, "-m", "headway", "serve", str(TINY), "--preset", "offline", "--no-warmup"]
    command = [str(Path(sys.executable).with_name("vllm")), "serve", str(TINY)] if plain else headway
    environment = {**_ENVIRONMENT, **({"VLLM_PLUGINS": ""} if plain else {})}
    async with running([*command, *_FLAGS], environment, ready="/health") as (family, port):
        return await _growth(family, port, words, queued=not plain)


async def _growth(family: Family, port: int, words: int, *, queued: bool) -> float:
    body = json.dumps({"model": str(TINY), "prompt": "word " * words, "max_tokens": 4, "ignore_eos": True}).encode()
    opened: list[asyncio.StreamWriter] = []
    headers = {"Content-Type": "application/json"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=START_S) as http:
        sent = (http.post("/v1/completions", content=body) for _ in range(WARM))
        for answer in await asyncio.gather(*sent):
            answer.raise_for_status()
        operator = {"Authorization": f"Bearer {_TOKEN}"}
        (await http.post("/pause", params={"mode": "keep"}, headers=operator)).raise_for_status()
        await asyncio.sleep(SETTLE_S)
        before = _used(family)
        for _ in range(WAITING // TOGETHER):
            opened += await asyncio.gather(*(_send(port, body) for _ in range(TOGETHER)))
            await asyncio.sleep(0.2)
        await asyncio.sleep(SETTLE_S)
        grown = _used(family) - before
        if queued and f'headway_queue_depth{{class="batch"}} {WAITING}.0' not in (await http.get("/metrics")).text:
            raise RuntimeError("not all requests wait in the queue")
    for one in opened:
        one.close()
    return grown / WAITING


async def _send(port: int, body: bytes) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    headers = ("Host: x", "Content-Type: application/json", f"Content-Length: {len(body)}")
    head = "\r\n".join(("POST /v1/completions HTTP/1.1", *headers, "", ""))
    writer.write(head.encode() + body)
    await writer.drain()
    return writer


def _used(family: Family) -> int:
    """Bytes that are the server's own (USS), over all its processes."""
    server = psutil.Process(family.children[0].process.pid)
    return sum(one.memory_full_info().uss for one in (server, *server.children(recursive=True)))
