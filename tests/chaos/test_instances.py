"""A real server with Headway and another instance behind `headway route`: the other one is killed under load.

In the long form that is a real server of plain vLLM as well, in the short form a stand-in.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest
from client_connections import CONNECTIONS, drop_connections
from engine_parts import long_form
from running_router import RunningRouter, StandIn
from running_server import TINY_MODEL, RunningServer, wait_until

REQUESTS, TOKENS = 24, 100


class BareServer(RunningServer):
    """Ready when vLLM's own health route says so."""

    ready_path = "/health"


@dataclass(frozen=True, slots=True)
class Mortal:
    """The instance that is killed: where it is, and the processes of which it is killed."""

    url: str
    processes: Sequence[psutil.Process]


@pytest.fixture(params=["a stand-in", pytest.param("plain vLLM", marks=long_form("a stand-in takes its place"))])
def mortal(request: pytest.FixtureRequest, real_engine: None, tmp_path: Path) -> Iterator[Mortal]:
    """Without Headway: nothing of it is loaded. What it is sent is still there when it is killed."""
    if request.param == "a stand-in":
        with StandIn(step_s=1000.0) as other:
            assert other.process is not None
            yield Mortal(other.url, [psutil.Process(other.process.pid)])
        return
    vllm = str(Path(sys.executable).with_name("vllm"))
    command = [vllm, "serve", str(TINY_MODEL), "--served-model-name", "tiny", "--max-num-seqs", "8"]
    with BareServer(command, tmp_path / "vllm.log", {"VLLM_PLUGINS": "none"}) as server:
        assert server.process is not None
        for one in server.children:
            one.suspend()  # its API server answers on
        yield Mortal(server.url, [psutil.Process(server.process.pid), *server.children])


@pytest.fixture
def router(shared_server: RunningServer, mortal: Mortal, tmp_path: Path) -> Iterator[RunningRouter]:
    """In front of both."""
    shared_server.use("balanced")
    shared_server.settle()
    with RunningRouter.before(tmp_path / "router.log", [mortal.url, shared_server.url], "--seats", "8") as router:
        yield router
    drop_connections()
    shared_server.settle()
    assert shared_server.scrape().unbalanced() == []


async def ask(client: httpx.AsyncClient, router: RunningRouter, number: int) -> tuple[int, str]:
    """One request whose answer repeats its own prompt."""
    content = {"model": "tiny", "prompt": f"nonce-{number:04}", "max_tokens": TOKENS, "echo": True, "ignore_eos": True}
    answer = await client.post(f"{router.url}/v1/completions", json=content)
    return answer.status_code, answer.json()["choices"][0]["text"] if answer.is_success else answer.text


@long_form("tests/plugin/router/test_routing kills one of two as well")
async def test_the_death_of_an_instance_loses_and_doubles_nothing(router: RunningRouter, mortal: Mortal) -> None:
    """Killed while it has requests, a real one with its engine: each one is answered once, with its own prompt, and the
    ledger of the router is balanced."""
    name = mortal.url.removeprefix("http://")
    async with httpx.AsyncClient(timeout=300, limits=CONNECTIONS) as client:
        asked = [asyncio.create_task(ask(client, router, number)) for number in range(REQUESTS)]

        def runs() -> bool:
            return router.scrape()("headway_instance_running", instance_name=name, sent_by="router") > 0

        await asyncio.to_thread(wait_until, runs, "the server that will die runs some")
        for process in mortal.processes:
            process.kill()
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
