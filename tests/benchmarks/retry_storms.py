"""Retry storms: what an overloaded server serves in time, with clients that retry and with clients that do not.

One server on the tiny model and the SDK of OpenAI as its client, which retries by itself and waits as it is told. Twice
as many requests arrive as can be served, at the same times in every block; the numbers of retries play in turn, there
and back. Goodput counts the answers whose last try waited no longer than the objective of its class, which may be a
multiple of what the first token takes alone: that is measured first.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from random import Random
from statistics import mean, median
from typing import Any

import httpx
import openai
from goal import Goal
from own_server import running
from prometheus_client.parser import text_string_to_metric_families
from serving.client import TINY, ended

from headway_policies import bundled_presets
from headway_policies.request import resolve

LOAD, RETRIES = 2.0, (0, 2, 5)
CAPACITY_LEAD_S, CAPACITY_S = 4.0, 10.0
_ALONE = 5
#: An overload is known after some seconds, and the advice to come again is up to 30 s: before, nothing is retried.
LEAD_S, LENGTH_S = 45.0, 40.0
#: What makes it a storm: with fewer arrivals for each first try the goodput says nothing of retries.
LEAST_ARRIVALS = 1.1
_PRESET = bundled_presets()["balanced"]
_CLIENTS, _OBJECTIVE = _PRESET.batching.seats, _PRESET.classes[_PRESET.default_class].ttft_slo_s
_ANSWER_TOKENS, _PROMPT = (100, 300), "word " * 32
_FLAGS = ("--host", "127.0.0.1", "--max-model-len", "1024", "--enforce-eager", "--disable-uvicorn-access-log")


@dataclass(frozen=True, slots=True)
class Served:
    """One answer: when it ended, on the clock of its block, and how long its last try waited in the queue."""

    ended_s: float
    queued_s: float


@dataclass(frozen=True, slots=True)
class Block:
    """One number of retries for a while: answers a second within the objective, and arrivals for each first try."""

    goodput_per_s: float
    arrivals_ratio: float


def retry_storms() -> Iterator[Goal]:
    """Storms: goodput at twice the capacity, with SDKs that retry : without"""
    blocks = asyncio.run(_blocks())
    found = {
        retries: (mean(one.goodput_per_s for one in played), mean(one.arrivals_ratio for one in played))
        for retries, played in blocks.items()
    }
    calm, _ = found[0]
    for retries in RETRIES[1:]:
        goodput, arrivals = found[retries]
        note = f"{goodput:.1f} : {calm:.1f} a second; {arrivals:.2f} arrivals for each first try"
        yield Goal("storms", f"arrivals for each first try, {retries} retries", LEAST_ARRIVALS, arrivals)
        yield Goal("storms", f"goodput at load {LOAD:g}, {retries} retries : none", 0.95, goodput / calm, note=note)


def goodput_per_s(served: Sequence[Served], since_s: float, length_s: float, objective_s: float) -> float:
    """The answers that ended in this time and waited no longer than the objective, a second."""
    counted = [one for one in served if since_s <= one.ended_s < since_s + length_s]
    return sum(one.queued_s <= objective_s for one in counted) / length_s


async def _blocks() -> dict[int, list[Block]]:
    found: dict[int, list[Block]] = {retries: [] for retries in RETRIES}
    command = [sys.executable, "-m", "headway", "serve", str(TINY), "--preset", _PRESET.name, *_FLAGS]
    async with running(command, {}) as (_, port), httpx.AsyncClient(base_url=_url(port), timeout=20) as http:
        url = _url(port)
        objective_s = await _objective_s(url)
        rate_per_s = LOAD * await _capacity_per_s(url)
        for retries in (*RETRIES, *RETRIES[::-1]):
            await _at_rest(http)
            found[retries].append(await _block(url, http, retries, rate_per_s, objective_s))
    return found


async def _block(url: str, http: httpx.AsyncClient, retries: int, rate_per_s: float, objective_s: float) -> Block:
    """Poisson arrivals, the same ones for the same rate; what still runs at the end is cut off."""
    now_s, random, served = asyncio.get_running_loop().time, Random(1), list[Served]()
    before, begin_s, at_s = await _arrived(http), now_s(), 0.0
    tasks = list[asyncio.Task[None]]()
    async with _sdk(url, retries) as client:
        while (at_s := at_s + random.expovariate(rate_per_s)) < LEAD_S + LENGTH_S:
            await asyncio.sleep(max(0.0, begin_s + at_s - now_s()))
            tasks.append(asyncio.create_task(_ask(client, random.randint(*_ANSWER_TOKENS), served, begin_s)))
        await asyncio.sleep(max(0.0, begin_s + LEAD_S + LENGTH_S - now_s()))
        arrived = await _arrived(http) - before
        await ended(tasks)
    return Block(goodput_per_s(served, LEAD_S, LENGTH_S, objective_s), arrived / len(tasks))


async def _objective_s(url: str) -> float:
    """The objective of the default class for these prompts, by the first token of one request alone."""
    if not isinstance(_OBJECTIVE, str):
        return inf if _OBJECTIVE is None else _OBJECTIVE
    times_s, now_s = list[float](), asyncio.get_running_loop().time
    async with _sdk(url, 0) as client:
        for _ in range(_ALONE):
            began_s = now_s()
            await _complete(client, 1)
            times_s.append(now_s() - began_s)
    return resolve(_OBJECTIVE, median(times_s))


async def _capacity_per_s(url: str) -> float:
    """Answers a second with one client for each seat."""
    now_s, served = asyncio.get_running_loop().time, list[Served]()
    begin_s = now_s()

    async def client(number: int) -> None:
        random = Random(number)
        while True:
            await _ask(sdk, random.randint(*_ANSWER_TOKENS), served, begin_s)

    async with _sdk(url, 0) as sdk:
        tasks = [asyncio.create_task(client(number)) for number in range(_CLIENTS)]
        await asyncio.sleep(CAPACITY_LEAD_S + CAPACITY_S)
        await ended(tasks)
    return sum(one.ended_s >= CAPACITY_LEAD_S for one in served) / CAPACITY_S


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def _sdk(url: str, retries: int) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=retries, timeout=120.0)


async def _ask(client: openai.AsyncOpenAI, tokens: int, served: list[Served], begin_s: float) -> None:
    """One request with all its tries. A connection that is closed just as it is used again is a request not served."""
    with suppress(openai.APIStatusError, openai.APIConnectionError):
        answer = await _complete(client, tokens)
        queued_s = int(answer.headers["x-headway-queue-ms"]) / 1000
        served.append(Served(asyncio.get_running_loop().time() - begin_s, queued_s))


async def _complete(client: openai.AsyncOpenAI, tokens: int) -> Any:
    return await client.completions.with_raw_response.create(
        model=str(TINY), prompt=_PROMPT, max_tokens=tokens, extra_body={"ignore_eos": True}
    )


async def _sum(http: httpx.AsyncClient, *names: str) -> float:
    """The sum of all samples of these names."""
    families = text_string_to_metric_families((await http.get("/metrics")).text)
    return sum(sample.value for family in families for sample in family.samples if sample.name in names)


async def _arrived(http: httpx.AsyncClient) -> float:
    return await _sum(http, "headway_arrivals_total")


async def _at_rest(http: httpx.AsyncClient) -> None:
    async with asyncio.timeout(60.0):
        while await _sum(http, "headway_queue_depth", "headway_in_flight", "headway_seats_taken"):  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.2)
