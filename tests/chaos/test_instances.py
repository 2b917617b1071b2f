"""Two real servers behind `headway route`, one with Headway and one of plain vLLM: one is killed under load."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from client_connections import CONNECTIONS, drop_connections
from running_router import RunningRouter
from running_server import TINY_MODEL, RunningServer, wait_until

REQUESTS, TOKENS = 24, 100


@pytest.fixture
def bare(real_engine: None, tmp_path: Path) -> Iterator[RunningServer]:
    """vLLM without Headway: nothing of it is loaded."""
    vllm = str(Path(sys.executable).with_name("vllm"))
    command = [vllm, "serve", str(TINY_MODEL), "--served-model-name", "tiny", "--max-num-seqs", "8"]
    server = BareServer(command, tmp_path / "vllm.log", {"VLLM_PLUGINS": "none"})
    with server:
        yield server


class BareServer(RunningServer):
    """Ready when vLLM's own health route says so."""

    ready_path = "/health"


@pytest.fixture
def router(shared_server: RunningServer, bare: RunningServer, tmp_path: Path) -> Iterator[RunningRouter]:
    """In front of both."""
    shared_server.use("balanced")
    shared_server.settle()
    with RunningRouter.before(tmp_path / "router.log", [bare.url, shared_server.url], "--seats", "8") as router:
        yield router
    drop_connections()
    shared_server.settle()
    assert shared_server.scrape().unbalanced() == []


async def ask(client: httpx.AsyncClient, router: RunningRouter, number: int) -> tuple[int, str]:
    """One request whose answer repeats its own prompt."""
    content = {"model": "tiny", "prompt": f"nonce-{number:04}", "max_tokens": TOKENS, "echo": True, "ignore_eos": True}
    answer = await client.post(f"{router.url}/v1/completions", json=content)
    return answer.status_code, answer.json()["choices"][0]["text"] if answer.is_success else answer.text


async def test_the_death_of_a_real_server_loses_and_doubles_nothing(router: RunningRouter, bare: RunningServer) -> None:
    """Killed with its engine while it has requests: each one is answered once, with its own prompt, and the
    ledger of the router is balanced."""
    name = f"127.0.0.1:{bare.port}"
    for one in bare.children:
        one.suspend()  # its API server answers on, and what it is sent is still there when it is killed
    async with httpx.AsyncClient(timeout=300, limits=CONNECTIONS) as client:
        asked = [asyncio.create_task(ask(client, router, number)) for number in range(REQUESTS)]

        def runs() -> bool:
            return router.scrape()("headway_instance_running", instance_name=name, sent_by="router") > 0

        await asyncio.to_thread(wait_until, runs, "the server that will die runs some")
        assert bare.process is not None
        for one in [bare.process, *bare.children]:
            one.kill()
        answers = await asyncio.gather(*asked)
    assert [status for status, _ in answers] == [200] * REQUESTS
    assert all(text.startswith(f"nonce-{number:04}") for number, (_, text) in enumerate(answers))
    router.settle()
    scrape = router.scrape()
    assert scrape.unbalanced() == []
    assert scrape("headway_outcomes_total", outcome="completed") == REQUESTS
    assert scrape("headway_instance_up", instance_name=name) == 0
    assert scrape("headway_instance_exchanges_total", instance_name=name, ended="lost") > 0
    assert scrape("headway_instance_retries_total") > 0
