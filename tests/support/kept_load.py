"""A load on a real server that goes on beside a test: clients that each send their next request after a pause."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
from client_connections import CONNECTIONS, drop_connections


@dataclass(frozen=True, slots=True)
class Clients:
    """So many clients of a class, for answers of so many tokens with a pause between; the rest is for headers."""

    number: int
    class_name: str
    tokens: int
    queue_timeout_s: float | None = None
    waits: bool = True
    pause_s: float = 0.3

    @property
    def headers(self) -> dict[str, str]:
        """What each request says."""
        found = {"x-headway-class": self.class_name}
        if self.queue_timeout_s is not None:
            found["x-headway-queue-timeout-seconds"] = f"{self.queue_timeout_s:g}"
        return found if self.waits else found | {"x-headway-queue": "no"}


@contextmanager
def kept_load(url: str, groups: Sequence[Clients]) -> Iterator[None]:
    """Keep these clients busy until the block ends; then each request is read to its end."""
    over = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_run(url, groups, over)), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(120)
        drop_connections()


async def _run(url: str, groups: Sequence[Clients], over: threading.Event) -> None:
    async with httpx.AsyncClient(timeout=300, limits=CONNECTIONS) as http, asyncio.TaskGroup() as tasks:
        for group in groups:
            for _ in range(group.number):
                tasks.create_task(_client(http, url, group, over))


async def _client(http: httpx.AsyncClient, url: str, group: Clients, over: threading.Event) -> None:
    body = {"model": "tiny", "prompt": "Say something.", "max_tokens": group.tokens, "ignore_eos": True, "stream": True}
    while not over.is_set():
        await http.post(f"{url}/v1/completions", json=body, headers=group.headers)
        await asyncio.sleep(group.pause_s)
