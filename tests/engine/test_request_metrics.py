"""The metrics of requests on the real engine, compared with what the clients got."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import httpx
import pytest
from client_connections import CONNECTIONS
from generation_requests import body
from running_server import TINY_MODEL, RunningServer, wait_until

ROUTE = "/v1/chat/completions"
TOKENS = (1, 2, 7, 20, 40)
CLASSES = ("realtime", "batch")
OBJECTIVES = ("first_token", "inter_token", "both")


@dataclass(frozen=True, slots=True)
class Got:
    """What a client was told of one request, and how long it took, in seconds."""

    class_name: str
    prompt_tokens: int
    output_tokens: int
    finish_reason: str
    took_s: float


async def one(client: httpx.AsyncClient, server: RunningServer, class_name: str, tokens: int) -> Got:
    """One request that is not streamed."""
    began_s = time.monotonic()
    answer = await client.post(server.url + ROUTE, json=body(ROUTE, tokens), headers={"x-headway-class": class_name})
    took_s, said = time.monotonic() - began_s, answer.json()
    usage, choice = said["usage"], said["choices"][0]
    return Got(class_name, usage["prompt_tokens"], usage["completion_tokens"], choice["finish_reason"], took_s)


async def test_tokens_reasons_and_durations_are_those_of_the_clients(server: RunningServer) -> None:
    """By class: tokens in and out and finish reasons exactly, and no duration longer than a client waited."""
    server.use("throughput")
    before = await asyncio.to_thread(server.scrape)
    async with httpx.AsyncClient(timeout=300, limits=CONNECTIONS) as client:
        got = await asyncio.gather(*(one(client, server, name, tokens) for tokens in TOKENS for name in CLASSES))
    await asyncio.to_thread(server.settle)
    after = await asyncio.to_thread(server.scrape)

    def added(name: str, **labels: str) -> float:
        return after(name, **labels) - before(name, **labels)

    for class_name in CLASSES:
        own, only = [each for each in got if each.class_name == class_name], {"class": class_name}
        assert added("headway_prompt_tokens_total", **only) == sum(each.prompt_tokens for each in own)
        assert added("headway_output_tokens_total", **only) == sum(each.output_tokens for each in own)
        for reason in {each.finish_reason for each in own}:
            counted = added("headway_finish_reasons_total", finish_reason=reason, **only)
            assert counted == sum(each.finish_reason == reason for each in own)
        for name in ("queue_wait", "time_to_first_token", "prefill", "decode", "end_to_end"):
            assert added(f"headway_{name}_seconds_count", **only) == len(own)
        assert added("headway_inter_token_seconds_count", **only) == sum(each.output_tokens > 1 for each in own)
        assert 0 < added("headway_end_to_end_seconds_sum", **only) <= sum(each.took_s for each in own)
        parts_s = sum(added(f"headway_{name}_seconds_sum", **only) for name in ("queue_wait", "prefill", "decode"))
        assert parts_s == pytest.approx(added("headway_end_to_end_seconds_sum", **only), rel=0.05, abs=0.02)
        assert after("headway_longest_seconds", of="end_to_end", **only) > 0
        judged = {
            objective: added("headway_objective_judged_total", objective=objective, **only) for objective in OBJECTIVES
        }
        met = {objective: added("headway_objective_met_total", objective=objective, **only) for objective in OBJECTIVES}
        stated = after("headway_objective_seconds", objective="first_token", **only) > 0
        assert judged["both"] == (len(own) if stated else 0)
        assert all(met[objective] <= judged[objective] for objective in OBJECTIVES)


def test_the_machine_is_shown(server: RunningServer) -> None:
    """Shares of the processors between 0 and 1, the engine's part above 0, and more memory than is used."""
    scrape = server.scrape()
    shares = {
        name: scrape("headway_processor_busy_ratio", process=name) for name in ("api_server", "engine", "machine")
    }
    assert all(0 <= share <= 1 for share in shares.values())
    assert scrape("headway_memory_limit_bytes") > scrape("headway_process_resident_bytes") > 0


def test_the_memory_of_the_engine_is_shown_by_component(server: RunningServer) -> None:
    """The weights of the model's file, and a KV cache of the size that the engine was told to take."""
    wait_until(
        lambda: server.scrape()("headway_engine_memory_bytes", component="weights") > 0, "its memory is known", 60
    )
    scrape = server.scrape()
    weights, kv_cache = (scrape("headway_engine_memory_bytes", component=one) for one in ("weights", "kv_cache"))
    files = sum(one.stat().st_size for one in TINY_MODEL.glob("*.safetensors"))
    assert 0.5 * files < weights < 3 * files
    assert kv_cache > 0
    assert weights + kv_cache < scrape("headway_memory_limit_bytes")
