"""Concurrent requests of several classes to a real server, and the response to each."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

import httpx
from client_connections import CONNECTIONS
from generation_requests import body
from running_server import RunningServer, Scrape


@dataclass(frozen=True, slots=True)
class Answer:
    """The response that one client received."""

    class_name: str
    stream: bool
    status: int
    headers: httpx.Headers
    complete: bool


async def ask(
    client: httpx.AsyncClient, server: RunningServer, class_name: str, max_tokens: int, stream: bool
) -> Answer:
    """Send one chat request and read the response to its end."""
    route = "/v1/chat/completions"
    answer = await client.post(
        server.url + route,
        json=body(route, max_tokens, stream=stream),
        headers={"x-headway-class": class_name},
    )
    complete = answer.text.rstrip().endswith("data: [DONE]") if stream else "choices" in answer.text
    return Answer(class_name, stream, answer.status_code, answer.headers, complete and '"error":' not in answer.text)


async def send_all(server: RunningServer, plan: list[tuple[str, int, bool]]) -> list[Answer]:
    """Send all requests of a plan (class, max_tokens, stream) concurrently."""
    async with httpx.AsyncClient(timeout=300, limits=CONNECTIONS) as client:
        return list(await asyncio.gather(*(ask(client, server, *one) for one in plan)))


async def scrapes_while(server: RunningServer, work: asyncio.Task[list[Answer]]) -> list[Scrape]:
    """Scrape repeatedly until the work is done."""
    taken = []
    while not work.done():
        taken.append(await asyncio.to_thread(server.scrape))
        await asyncio.wait({work}, timeout=0.1)
    return taken


def statuses(answers: list[Answer]) -> Counter[int]:
    """The number of answers by status."""
    return Counter(answer.status for answer in answers)
