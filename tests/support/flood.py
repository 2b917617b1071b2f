"""Traffic against a real server: many requests of several classes at once, and what became of each."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass

import httpx
from asking import body
from running_server import RunningServer, Scrape


@dataclass(frozen=True, slots=True)
class Answer:
    """What one client saw."""

    class_name: str
    stream: bool
    status: int
    headers: httpx.Headers
    complete: bool


async def ask(
    client: httpx.AsyncClient, server: RunningServer, class_name: str, max_tokens: int, stream: bool
) -> Answer:
    """One chat request, read to its end."""
    route = "/v1/chat/completions"
    answer = await client.post(
        server.url + route,
        json=body(route, max_tokens, stream=stream),
        headers={"x-headway-class": class_name},
    )
    complete = answer.text.rstrip().endswith("data: [DONE]") if stream else "choices" in answer.text
    return Answer(class_name, stream, answer.status_code, answer.headers, complete and '"error":' not in answer.text)


async def flood(server: RunningServer, plan: list[tuple[str, int, bool]]) -> list[Answer]:
    """All requests of a plan (class, max_tokens, stream) at once."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=300, limits=limits) as client:
        return list(await asyncio.gather(*(ask(client, server, *one) for one in plan)))


async def scrapes_while(server: RunningServer, work: asyncio.Task[list[Answer]]) -> list[Scrape]:
    """Scrape after scrape until the work is done."""
    taken = []
    while not work.done():
        taken.append(await asyncio.to_thread(server.scrape))
        await asyncio.wait({work}, timeout=0.1)
    return taken


def statuses(answers: list[Answer]) -> Counter[int]:
    """How many answers of each status."""
    return Counter(answer.status for answer in answers)
