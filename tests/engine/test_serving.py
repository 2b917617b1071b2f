"""Served requests as the client sees them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx
import openai
import pytest
from engine_parts import long_form
from generation_requests import ROUTES, body
from running_server import OFFLINE, TINY_MODEL, RunningServer


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("route", ROUTES)
def test_every_route_says_how_it_was_served(server: RunningServer, route: str, stream: bool) -> None:
    """A served request names its class, its wait and the preset in its headers."""
    headers = {"x-headway-class": "realtime"}
    answer = httpx.post(server.url + route, json=body(route, 4, stream=stream), headers=headers, timeout=60)
    assert answer.status_code == 200, answer.text
    assert answer.headers["x-headway-class"] == "realtime"
    assert answer.headers["x-headway-preset"] == "balanced"
    assert int(answer.headers["x-headway-queue-ms"]) >= 0


def test_the_openai_sdk_works_unmodified(server: RunningServer) -> None:
    """The SDK's chat call works, streaming and not, and gives the same text at temperature 0."""
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
    with client:
        messages = [{"role": "user", "content": "Count to five."}]
        whole = client.chat.completions.create(model="tiny", messages=messages, max_tokens=12, temperature=0)
        stream = client.chat.completions.create(
            model="tiny", messages=messages, max_tokens=12, temperature=0, stream=True
        )
        text = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert whole.choices[0].message.content == text != ""


@long_form("the OpenAI SDK and plain HTTP ask the same routes; that client changes with vLLM alone")
def test_vllm_bench_serve_works_unmodified(server: RunningServer) -> None:
    """vLLM's own benchmark client runs against the server and every one of its requests succeeds."""
    vllm = str(Path(sys.executable).with_name("vllm"))
    host, port = "127.0.0.1", str(server.port)
    shape = ["--dataset-name", "random", "--random-input-len", "32", "--random-output-len", "16", "--ignore-eos"]
    command = [vllm, "bench", "serve", "--backend", "openai", "--host", host, "--port", port, "--model", "tiny"]
    command += ["--tokenizer", str(TINY_MODEL), *shape, "--num-prompts", "24", "--max-concurrency", "8"]
    environment = {**os.environ, **OFFLINE}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    counts = re.findall(r"(Successful|Failed) requests:\s+(\d+)", done.stdout)
    assert dict(counts) == {"Successful": "24", "Failed": "0"}, done.stdout[-2000:]


@pytest.mark.parametrize(
    "extra",
    [{"n": 3}, {"prompt": ["a", "b"]}, {"use_beam_search": True, "n": 2}, {"logprobs": 2}],
    ids=["n", "two-prompts", "beam-search", "logprobs"],
)
def test_one_request_is_one_ticket(server: RunningServer, extra: dict[str, object]) -> None:
    """However many engine calls a request makes, it is one arrival and one completion."""
    before = server.scrape()
    answer = httpx.post(f"{server.url}/v1/completions", json=body("/v1/completions", 3) | extra, timeout=120)
    assert answer.status_code == 200, answer.text
    server.settle()
    after = server.scrape()
    assert after("headway_arrivals_total") - before("headway_arrivals_total") == 1
    completed = {"outcome": "completed"}
    assert after("headway_outcomes_total", **completed) - before("headway_outcomes_total", **completed) == 1


def test_a_request_vllm_refuses_is_settled_as_invalid(server: RunningServer) -> None:
    """A request that fails vLLM's own validation after its reservation leaves no seat taken."""
    before = server.scrape()("headway_outcomes_total", outcome="rejected_invalid")
    asked = body("/v1/completions", 4) | {"prompt": "word " * 4000}
    assert httpx.post(f"{server.url}/v1/completions", json=asked, timeout=60).status_code == 400
    server.settle()
    assert server.scrape()("headway_outcomes_total", outcome="rejected_invalid") == before + 1


def test_client_priority_numbers_do_not_reach_the_engine(server: RunningServer) -> None:
    """vLLM's own priority, from header or body, is no way around the classes."""
    asked = body("/v1/chat/completions", 2) | {"priority": -9}
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=asked, headers={"X-Vllm-Priority": "-99"}, timeout=60)
    assert (answer.status_code, answer.headers["x-headway-class"]) == (200, "normal")
