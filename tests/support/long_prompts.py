"""Sequences that decode on a server while long prompts come: the times between their tokens."""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import httpx
from client_connections import CONNECTIONS

_FIRST = 20  # tokens until the pace is that of all streams


@dataclass(frozen=True)
class Beside:
    """Seconds between tokens without the prompts and beside them; the tokens of each stream, and of each prompt."""

    alone_s: list[float]
    beside_s: list[float]
    tokens: list[int]
    prompts: list[int]

    @property
    def ratio(self) -> float:
        """The 99th percentile beside the prompts, as a multiple of that without."""
        return p99(self.beside_s) / p99(self.alone_s)


def p99(values: list[float]) -> float:
    """Of these times."""
    return sorted(values)[int(0.99 * (len(values) - 1))]


async def beside_prompts(
    url: str, *, streams: int = 8, prompts: int = 3, prompt_tokens: int = 1900, tokens: int = 400
) -> Beside:
    """So many streams, and in their middle the prompts at once, which no prefix cache knows."""
    decoding, computed = [_Stream() for _ in range(streams)], [_Stream() for _ in range(prompts)]
    async with httpx.AsyncClient(timeout=600, limits=CONNECTIONS) as client, asyncio.TaskGroup() as group:
        for one in decoding:
            group.create_task(one.read(client, url, _body(16, tokens), tokens // 4))
        for one in decoding:
            await one.begun.wait()
        began_s = time.perf_counter()
        for one in computed:
            group.create_task(one.read(client, url, _body(prompt_tokens, 1)))
    ended_s = max(one.marks_s[0] for one in computed)
    alone_s, beside_s = [], []
    for one in decoding:
        for before_s, after_s in pairwise(one.marks_s[_FIRST:]):
            (alone_s if after_s < began_s or before_s > ended_s else beside_s).append(after_s - before_s)
    return Beside(alone_s, beside_s, [one.tokens for one in decoding], [one.tokens for one in computed])


def _body(prompt_tokens: int, tokens: int) -> dict[str, Any]:
    return {
        "model": "tiny",
        "prompt": [random.randrange(300, 450) for _ in range(prompt_tokens)],
        "max_tokens": tokens,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


class _Stream:
    """One answer: when parts of it came, and its tokens as the server counts them."""

    def __init__(self) -> None:
        self.marks_s: list[float] = []
        self.tokens = 0
        self.begun = asyncio.Event()

    async def read(self, client: httpx.AsyncClient, url: str, body: dict[str, Any], parts: int = 1) -> None:
        """To its end; ``begun`` once so many parts have come."""
        async with client.stream("POST", f"{url}/v1/completions", json=body) as answer:
            assert answer.status_code == httpx.codes.OK, await answer.aread()
            async for line in answer.aiter_lines():
                if not line.startswith("data: {"):
                    continue
                part = json.loads(line.removeprefix("data: "))
                if usage := part.get("usage"):
                    self.tokens = usage["completion_tokens"]
                if not part["choices"]:
                    continue
                self.marks_s.append(time.perf_counter())
                if len(self.marks_s) >= parts:
                    self.begun.set()
