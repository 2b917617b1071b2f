"""`headway route` as a process in front of stand-ins for servers of other makers: what it knows of them, and serves.

The stand-ins run in the loop of the test, so whatever waits for the router does so in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from client_connections import CONNECTIONS
from other_servers import LlamaCpp, OtherServer, RustVllm, Sglang, Tgi, standing_in
from running_router import RunningRouter
from running_server import PRESETS, wait_until
from tiers import long_form

pytestmark = pytest.mark.slow

PATHS = ("/v1/completions", "/v1/chat/completions")
IN_WORDS = long_form("test_reading, test_engine and test_fault_table have what each maker says")
ALL = ["load", "KV use", "KV space", "progress", "time between tokens"]
#: By kind: the maker, and what is not known.
KNOWN: dict[type[OtherServer], tuple[str, list[str]]] = {
    RustVllm: ("vLLM", ["KV space", "seats"]),
    Sglang: ("SGLang", []),
    Tgi: ("TGI", []),
    LlamaCpp: ("llama.cpp", ["KV use", "KV space"]),
    OtherServer: ("", [*ALL, "seats", "context"]),
}


class Fleet:
    """A router before two servers of one kind."""

    def __init__(self, router: RunningRouter, servers: list[OtherServer], client: httpx.AsyncClient) -> None:
        self.router, self.servers, self.client = router, servers, client

    async def ask(self, path: str = "/v1/completions", tokens: int | None = 8, **fields: Any) -> httpx.Response:
        """One request."""
        what = {"messages": [{"role": "user", "content": "a"}]} if "chat" in path else {"prompt": "a"}
        limit = {} if tokens is None else {"max_tokens": tokens}
        return await self.client.post(self.router.url + path, json={"model": "tiny", **what, **limit, **fields})

    async def until(self, holds: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """The status of the router, once this holds of it."""

        def found() -> dict[str, Any] | None:
            status = self.router.status()
            return status if holds(status) else None

        status: dict[str, Any] = await asyncio.to_thread(wait_until, found, what)
        return status

    async def series(self, name: str, **labels: str) -> list[float]:
        """A metric of each instance."""
        scrape = await asyncio.to_thread(self.router.scrape)
        return [scrape(name, instance_name=server.url.removeprefix("http://"), **labels) for server in self.servers]


@asynccontextmanager
async def before(
    tmp_path: Path, *servers: OtherServer, seats: int = 16, preset: str = "throughput", **environment: str
) -> AsyncIterator[Fleet]:
    """The router, which is ready, for the length of a block."""
    async with standing_in(*servers):
        flags = ("--seats", str(seats), "--preset", preset)
        router = RunningRouter.before(tmp_path / "router.log", [one.url for one in servers], *flags, **environment)
        await asyncio.to_thread(router.start)
        try:
            async with httpx.AsyncClient(timeout=60, limits=CONNECTIONS) as client:
                yield Fleet(router, list(servers), client)
        finally:
            await asyncio.to_thread(router.__exit__, None, None, None)


@pytest.mark.parametrize(
    "kind", [Sglang, OtherServer, *(pytest.param(one, marks=IN_WORDS) for one in (RustVllm, Tgi, LlamaCpp))]
)
async def test_servers_of_any_maker(tmp_path: Path, kind: type[OtherServer]) -> None:
    """Servers are used, known as far as they say it, spared while they are full or not ready, and used again then."""
    async with before(tmp_path, kind(), kind(seats=2)) as fleet:
        await is_known(fleet, *KNOWN[kind])
        await is_served(fleet)
        await has_its_refusals_tried_elsewhere(fleet)
        await is_spared_while_it_loads(fleet)


async def is_known(fleet: Fleet, maker: str, lacks: list[str]) -> None:
    """With its seats from the first line of the log; what it does not say is in the status."""
    says = "seats" not in lacks
    for words in ("4 seats\n", "2 seats\n") if says else ("16 seats assumed, as it has not said its own\n",):
        assert f"is healthy: {words}" in fleet.router.log()
    status = await fleet.until(
        lambda status: [sorted(one["lacks"]) for one in status["instances"]] == [sorted(lacks)] * 2, f"all but {lacks}"
    )
    assert {one["maker"] for one in status["instances"]} == {maker}
    assert [one["seats"] for one in status["instances"]] == ([4, 2] if says else [16, 16])
    assert status["limit"]["ceiling"] == (6 if says else 32)
    models = await fleet.client.get(f"{fleet.router.url}/v1/models")
    assert models.json()["data"][0]["owned_by"] == fleet.servers[0].owner


async def is_served(fleet: Fleet) -> None:
    """On both routes, whole and as a stream, and no more at once than it has seats."""
    asked = [fleet.ask(path, stream=stream) for path in PATHS for stream in (False, True) for _ in range(6)]
    answers = await asyncio.gather(*asked)
    assert [(answer.status_code, answer.text.count("word ")) for answer in answers] == [(200, 8)] * 24
    assert min(len(server.bodies) for server in fleet.servers) > 0
    status = await asyncio.to_thread(fleet.router.status)
    assert sum(one["outcomes"].get("completed", 0) for one in status["classes"]) == 24


async def has_its_refusals_tried_elsewhere(fleet: Fleet) -> None:
    """However its maker refuses, also in a stream whose status is 200; the last refusal is passed on as it came."""
    first, second = fleet.servers
    if isinstance(first, LlamaCpp):
        return  # it refuses nothing for its load
    before_it, first.full = len(first.bodies), True
    answers = await asyncio.gather(*(fleet.ask(stream=stream) for stream in (False, True) for _ in range(4)))
    assert [(answer.status_code, answer.text.count("word ")) for answer in answers] == [(200, 8)] * 8
    assert len(first.bodies) > before_it
    second.full = True
    whole, stream = await fleet.ask(), await fleet.ask(stream=True)
    assert whole.status_code >= 429
    assert ("error" in stream.text, "word" in stream.text) == (True, False)
    first.full = second.full = False


async def is_spared_while_it_loads(fleet: Fleet) -> None:
    """By the route and the status with which its maker says so; one that says nothing of it is asked for its models."""
    first = fleet.servers[0]
    first.loading = True
    await fleet.until(lambda status: [one["up"] for one in status["instances"]] == [False, True], "one is down")
    before_it = len(first.bodies)
    assert {answer.status_code for answer in await asyncio.gather(*(fleet.ask() for _ in range(8)))} == {200}
    assert len(first.bodies) == before_it
    first.loading = False
    await fleet.until(lambda status: [one["up"] for one in status["instances"]] == [True, True], "both are up")


async def test_what_llama_cpp_says_of_a_stream_is_counted_and_who_leaves_is_told(tmp_path: Path) -> None:
    """Its stream ends with its timings; the connection of a client that leaves is closed, which every maker notices."""
    server = LlamaCpp(step_s=1.0)
    async with before(tmp_path, server) as fleet:
        await is_counted(fleet, PATHS[1])
        asked = [asyncio.create_task(fleet.ask(tokens=1000, stream=stream)) for stream in (False, True)]
        await asyncio.to_thread(wait_until, lambda: server.running == 2, "both run")
        for one in asked:
            one.cancel()
        await asyncio.to_thread(wait_until, lambda: server.left == 2 and server.running == 0, "both are gone")


@IN_WORDS
async def test_what_tgi_says_of_a_stream_is_counted(tmp_path: Path) -> None:
    """Before the first token there is a comment, which is none."""
    async with before(tmp_path, Tgi(step_s=1.0)) as fleet:
        await is_counted(fleet, PATHS[0])


async def is_counted(fleet: Fleet, path: str) -> None:
    """Both tokens, one of them the first."""
    answer = await fleet.ask(path, 2, stream=True)
    assert answer.text.startswith("data: "), "the comment is dropped"
    scrape = await asyncio.to_thread(fleet.router.scrape)
    assert scrape("headway_output_tokens_total", **{"class": "normal"}) == 2
    assert scrape("headway_time_to_first_token_seconds_count", **{"class": "normal"}) == 1


async def test_the_limit_follows_servers_that_say_nothing(tmp_path: Path) -> None:
    """By their streams alone: it grows from the seats of the preset."""
    servers = OtherServer(step_s=0.05, seats=64), OtherServer(step_s=0.05, seats=64)
    environment = {"HEADWAY_WARMUP": "1", "HEADWAY_PRESET_DIR": str(PRESETS)}
    async with before(tmp_path, *servers, seats=64, preset="model-loose", **environment) as fleet:
        status = await asyncio.to_thread(fleet.router.status)
        most, start = 0, status["limit"]["live"]
        for _ in range(20):
            await asyncio.gather(*(fleet.ask(tokens=30, stream=True) for _ in range(2 * start)))
            most = max(most, (await asyncio.to_thread(fleet.router.status))["limit"]["live"])
            if most > start:
                break
        assert most > start
