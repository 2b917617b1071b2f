"""Features of vLLM with the real engine, a server for each: what Headway keeps with it is what the page says."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from concurrent_requests import scrapes_while, send_all
from engine_parts import engine_core, long_form, ready
from generation_requests import body
from long_prompts import beside_prompts
from running_server import RunningServer, Scrape, wait_until
from tiny_adapter import write_adapter

from headway.vllm_adapter.process.progress import VARIABLE
from headway.vllm_adapter.process.step_ring import StepRingReader

pytestmark = [
    long_form("a server for each feature; the parts that a feature changes have tests without an engine"),
    pytest.mark.usefixtures("real_engine"),
]

SEATS, CLASSES = 4, ("realtime", "normal", "batch")
UNSHAPED = "vLLM shapes its steps itself: "
#: Of two workers: vLLM looks for a NUMA node for each otherwise.
CORES = "|".join(map(str, (sorted(os.sched_getaffinity(0)) * 2)[:2]))
#: The tiny model has three attention heads, which no two workers can divide.
FOUR_HEADS = ("--load-format", "dummy", "--hf-overrides", '{"num_attention_heads": 4, "num_key_value_heads": 2}')


@contextmanager
def serving(folder: Path, *flags: str, cores: str = "", processes: int = 3) -> Iterator[RunningServer]:
    """A server with four seats and these flags, its workers on these cores; so many of its processes import vLLM."""
    server = RunningServer.headway(folder / "server.log", "--preset", "continuous4", *flags)
    server.start_s *= max(1, processes - 3)
    if cores:
        server.environment["VLLM_CPU_OMP_THREADS_BIND"] = cores
    with server:
        yield server


async def admits_and_limits(server: RunningServer) -> None:
    """Twelve requests of three classes: all are served, four at a time, and the books balance at every scrape."""
    server.use("continuous4")
    before = server.scrape()
    plan = [(name, 40, stream) for name in CLASSES for stream in (False, True) * 2]
    work = asyncio.create_task(send_all(server, plan))
    scrapes = await scrapes_while(server, work)
    assert [(one.status, one.complete) for one in work.result()] == [(200, True)] * len(plan)
    assert 0 < max(scrape("vllm:num_requests_running") for scrape in scrapes) <= SEATS
    assert [line for scrape in scrapes for line in scrape.unbalanced()] == []
    await asyncio.to_thread(server.settle)
    assert completed(server, before) == dict.fromkeys(CLASSES, len(plan) / len(CLASSES))


def completed(server: RunningServer, before: Scrape) -> dict[str, float]:
    """The requests of each class that were completed since a scrape."""
    after, count = server.scrape(), "headway_outcomes_total"
    labels = [{"outcome": "completed", "class": name} for name in CLASSES]
    return {one["class"]: after(count, **one) - before(count, **one) for one in labels}


async def shapes_steps(server: RunningServer) -> None:
    """Steps beside long prompts are planned, and every sequence has all of its tokens."""
    server.use("shaped")
    found = await beside_prompts(server.url, streams=4, prompts=2, tokens=100)
    assert (found.tokens, found.prompts) == ([100] * 4, [1] * 2)
    server.settle()


def planned(server: RunningServer) -> int:
    """The planned steps."""
    return int((server.status()["engine"]["steps"] or {}).get("planned", 0))


def written_steps(server: RunningServer) -> int:
    """The steps that EngineCore has in its ring."""
    return len(StepRingReader(Path(engine_core(server).environ()[VARIABLE]), 1).read())


def recycles(server: RunningServer) -> None:
    """The engine is replaced by command, and the new one serves."""
    assert server.admin("POST", "recycle", json={"reason": "test"}).status_code == requests.codes.accepted
    wait_until(lambda: server.status()["engine"]["deaths"]["recycle"] == 1, "the engine is replaced", 240)
    wait_until(lambda: ready(server) and not server.status()["memory"]["recycling"], "it is ready", server.start_s)
    assert completion(server, "tiny")["usage"]["completion_tokens"] == 8


def completion(server: RunningServer, model: str, tokens: int = 8, **headers: str) -> dict[str, Any]:
    """A completion of so many tokens by a model."""
    whole = body("/v1/completions", tokens) | {"model": model, "temperature": 0}
    answer = requests.post(f"{server.url}/v1/completions", json=whole, headers=headers, timeout=120)
    assert answer.status_code == requests.codes.ok, answer.text
    return dict(answer.json())


async def works_in_full(server: RunningServer) -> None:
    """Admission, limit, ring, step policy and recycle."""
    await admits_and_limits(server)
    assert written_steps(server) > 0
    await shapes_steps(server)
    wait_until(lambda: planned(server) > 0, "steps are planned")
    assert UNSHAPED not in server.log()
    recycles(server)


async def keeps_places(server: RunningServer) -> None:
    """While an adapter has the only place, requests of another wait on no seat, and those of the model pass them."""

    def waits() -> bool:
        return server.status()["limit"]["reason"] == "adapter"

    first = asyncio.create_task(asyncio.to_thread(completion, server, "one", 1500))
    await asyncio.to_thread(wait_until, lambda: server.status()["in_flight"] == 1, "an adapter runs")
    others = [asyncio.create_task(asyncio.to_thread(completion, server, "two")) for _ in range(2)]
    await asyncio.to_thread(wait_until, lambda: waits() and server.status()["queued"] == len(others), "another waits")
    assert (await asyncio.to_thread(completion, server, "tiny"))["usage"]["completion_tokens"] == 8
    assert (first.done(), server.scrape()("vllm:num_requests_waiting"), server.status()["queued"]) == (False, 0, 2)
    assert [answer["usage"]["completion_tokens"] for answer in await asyncio.gather(first, *others)] == [1500, 8, 8]
    server.settle()


def two_adapters(folder: Path) -> list[str]:
    """The flags for two LoRA adapters of which one fits beside the model at a time."""
    found = [f"{name}={write_adapter(folder / name, seed)}" for seed, name in enumerate(("one", "two"))]
    return ["--enable-lora", "--max-loras", "1", "--max-lora-rank", "8", "--lora-modules", *found]


async def test_adapters_have_the_classes_of_their_requests(tmp_path: Path) -> None:
    """Two LoRA adapters of which one fits beside the model at a time: both are served, each with its own weights, and
    their requests count for the classes and tenants of their clients.
    """
    with serving(tmp_path, *two_adapters(tmp_path)) as server:
        alone = completion(server, "tiny")  # on the CPU vLLM computes it with an adapter's weights beside one
        server.settle()
        before = server.scrape()
        asked = [("one", "realtime"), ("two", "batch"), ("one", "batch"), ("two", "normal"), ("two", "batch")]
        threads = [
            asyncio.to_thread(completion, server, model, **{"x-headway-class": name, "x-headway-tenant": model})
            for model, name in asked
        ]
        answers = await asyncio.gather(*threads)
        assert [answer["usage"]["completion_tokens"] for answer in answers] == [8] * len(asked)
        texts = [answer["choices"][0]["text"] for answer in (alone, *answers)]
        assert len({*texts}) == len({"tiny", "one", "two"})
        server.settle()
        assert completed(server, before) == {"realtime": 1, "normal": 1, "batch": 3}
        await keeps_places(server)
        await works_in_full(server)
        assert completion(server, "two")["choices"][0]["text"] == texts[2]


async def test_adapters_behind_two_api_servers(tmp_path: Path) -> None:
    """The queue in front of several API servers knows the bound on adapters and the names of the model."""
    with serving(tmp_path, *two_adapters(tmp_path), "--api-server-count", "2", processes=5) as server:
        await keeps_places(server)


async def test_two_api_servers(tmp_path: Path) -> None:
    """The parts of one process hold behind the queue in front of several; another engine comes after the old one."""
    with serving(tmp_path, "--api-server-count", "2", processes=5) as server:
        await works_in_full(server)
        assert server.status()["memory"]["recycle_form"].startswith("after the old engine ended")


async def test_two_workers_with_half_of_each_layer(tmp_path: Path) -> None:
    """Tensor parallelism: one engine with two workers, which are replaced with it."""
    with serving(tmp_path, "--tensor-parallel-size", "2", *FOUR_HEADS, cores=CORES) as server:
        await works_in_full(server)


async def test_drafts_by_n_grams(tmp_path: Path) -> None:
    """Speculative decoding: a step gives a sequence up to four tokens, and nothing else changes."""
    drafts = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3, "prompt_lookup_min": 2}
    with serving(tmp_path, "--speculative-config", json.dumps(drafts)) as server:
        await works_in_full(server)
        assert server.scrape()("vllm:spec_decode_num_draft_tokens_total") > 0


async def test_a_kv_cache_of_eight_bits(tmp_path: Path) -> None:
    """Quantised KV: the bound by the KV cache is made with the tokens that fit now."""
    with serving(tmp_path, "--kv-cache-dtype", "fp8") as server:
        status = server.status()
        assert status["engine"]["kv_cache_dtype"] == "fp8"
        assert status["engine"]["kv_cache_tokens"] > 0
        await works_in_full(server)


@pytest.mark.parametrize("flag", ["--async-scheduling", "--no-async-scheduling"])
async def test_steps_that_are_scheduled_ahead_or_one_after_the_other(tmp_path: Path, flag: str) -> None:
    """Asynchronous scheduling: all holds with it and without."""
    with serving(tmp_path, flag) as server:
        await works_in_full(server)


async def test_kv_blocks_of_a_connector(tmp_path: Path) -> None:
    """A connector that keeps KV blocks outside the engine: steps are left to vLLM, and a new engine starts only after
    the end of the old one.
    """
    kept = {"shared_storage_path": str(tmp_path / "kv")}
    config = {"kv_connector": "ExampleConnector", "kv_role": "kv_both", "kv_connector_extra_config": kept}
    with serving(tmp_path, "--kv-transfer-config", json.dumps(config)) as server:
        await admits_and_limits(server)
        assert written_steps(server) > 0
        await shapes_steps(server)
        wait_until(lambda: f"{UNSHAPED}KV blocks come from elsewhere" in server.log(), "the log says why")
        recycles(server)
        assert server.status()["memory"]["recycle_form"].startswith("after the old engine ended: the engine's KV cache")


def test_embeddings_and_scores_pass_the_queue(tmp_path: Path) -> None:
    """A model that generates nothing: all its routes are admitted and counted by class."""
    asked: dict[str, dict[str, Any]] = {
        "/v1/embeddings": {"input": ["a question", "an answer"]},
        "/pooling": {"input": "a question"},
        "/score": {"text_1": "a question", "text_2": ["an answer"]},
        "/rerank": {"query": "a question", "documents": ["an answer", "a question"]},
    }
    with serving(tmp_path, "--runner", "pooling") as server:
        before = server.scrape()
        for path, more in asked.items():
            headers = {"x-headway-class": "batch"}
            answer = requests.post(server.url + path, json={"model": "tiny", **more}, headers=headers, timeout=120)
            assert answer.status_code == requests.codes.ok, answer.text
        server.settle()
        assert completed(server, before) == {"realtime": 0, "normal": 0, "batch": len(asked)}
        assert server.scrape().unbalanced() == []
        assert written_steps(server) > 0
