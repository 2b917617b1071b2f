"""Seats taken and sequences in the engine, compared at every scrape while requests arrive, disconnect and exceed the
limits."""

from __future__ import annotations

import asyncio
import random
from http import HTTPStatus
from typing import Any

import httpx
import pytest
from client_connections import CONNECTIONS
from running_server import RunningServer, Scrape


def sequences_without_a_seat(scrape: Scrape) -> float:
    """How many more sequences vLLM has than seats are taken."""
    in_engine = scrape("vllm:num_requests_running") + scrape("vllm:num_requests_waiting")
    return in_engine - scrape("headway_seats_taken")


async def leave_after(client: httpx.AsyncClient, server: RunningServer, body: dict[str, Any], stay_s: float) -> int:
    """One client that reads its answer for a while, then disconnects. The status; 0 if it left before."""
    try:
        async with asyncio.timeout(stay_s):
            path = f"{server.url}/v1/completions"
            answer = await client.post(path, json={"model": "tiny", "ignore_eos": True, **body})
            return answer.status_code
    except TimeoutError:
        return 0


async def test_at_every_scrape_all_sequences_in_the_engine_have_a_seat(server: RunningServer) -> None:
    """Disconnects, several prompts, several answers, stop strings, requests wider than the limit: seats >=
    sequences."""
    server.use("latency")
    rng = random.Random(9)
    kinds: list[dict[str, Any]] = [
        {"prompt": "one", "max_tokens": 40},
        {"prompt": ["one", "two", "three"], "max_tokens": 30},
        {"prompt": "four answers", "n": 4, "max_tokens": 30},
        {"prompt": "wider than the limit", "n": 24, "max_tokens": 20},
        {"prompt": "ends at a letter", "max_tokens": 60, "stop": list("aeio")},
    ]
    async with httpx.AsyncClient(timeout=240, limits=CONNECTIONS) as client:
        leavers = [
            leave_after(client, server, rng.choice(kinds) | {"stream": rng.random() < 0.5}, rng.uniform(0.05, 2.0))
            for _ in range(30)
        ]

        async def all_of_them() -> None:
            await asyncio.gather(*leavers)
            for _ in range(60):  # one that certainly runs: it is refused while the others still make it late
                if await leave_after(client, server, {**kinds[3], "max_tokens": 100}, 240.0) == HTTPStatus.OK:
                    return
                await asyncio.sleep(1)
            pytest.fail("the request wider than the limit was always refused")

        work = asyncio.create_task(all_of_them())
        scrapes = []
        while not work.done():
            scrapes.append(await asyncio.to_thread(server.scrape))
        await work
    assert [short for scrape in scrapes if (short := sequences_without_a_seat(scrape)) > 0] == []
    assert max(scrape("vllm:num_requests_running") for scrape in scrapes) > 0
    assert max(scrape("headway_seats_taken") for scrape in scrapes) > 8, "no request was wider than the limit"


@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/v1/completions", {"prompt": ["a"] * 1000, "n": 64}),
        ("/v1/completions", {"prompt": ["a"] * 65}),
        ("/v1/completions", {"prompt": [[1, 2]] * 33, "n": 2}),
        ("/v1/completions", {"prompt": "a", "n": 65}),
        ("/invocations", {"prompt": ["a"] * 65}),
        ("/v1/chat/completions/batch", {"messages": [[{"role": "user", "content": "a"}]] * 65}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "n": 65}),
    ],
    ids=["prompts x n", "prompts", "tokens x n", "n", "invocations", "conversations", "chat"],
)
def test_a_request_for_more_sequences_than_the_server_has_is_refused(
    server: RunningServer, route: str, body: dict[str, Any]
) -> None:
    """400 with the number it asked for and the number there are, before anything of it reaches the engine."""
    answer = httpx.post(server.url + route, json={"model": "tiny", "max_tokens": 5, **body}, timeout=60)
    assert answer.status_code == 400, answer.text
    too_wide = "at most 64 is allowed" if body.get("n", 1) > 64 else "64 in one request"
    assert too_wide in answer.text
    scrape = server.scrape()
    assert scrape("vllm:num_requests_running") + scrape("vllm:num_requests_waiting") == 0
