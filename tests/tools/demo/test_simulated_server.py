"""The simulated server that ``headway dashboard --demo`` starts: real code, sample traffic, no model."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable

import requests
from prometheus_client.parser import text_string_to_metric_families
from running_server import wait_until
from virtual_time import on_virtual_time

from headway.api import AdminClient
from headway.http.admin import Tokens
from headway_policies import EngineState, Outcome
from headway_tools.demo.simulated_server import SimulatedServer

#: Starts the server, says where it is, and waits to be killed.
_PARENT = """
import os, sys
from headway_tools.cli.dashboard import of_simulation
found = of_simulation(os.environ)
print(found["HEADWAY_URL"], found["HEADWAY_ADMIN_TOKEN"], flush=True)
sys.stdin.read()
"""


async def _until(holds: Callable[[], bool], at_most_s: float) -> None:
    async with asyncio.timeout(at_most_s):
        while not holds():  # noqa: ASYNC110 - what it looks at has no event
            await asyncio.sleep(1.0)


@on_virtual_time
async def test_something_happens() -> None:
    """The engine is warm, requests queue in the overload, and an engine that dies is replaced; none is lost."""
    server = SimulatedServer(Tokens({}))
    desk = server.control.gateway.gate.desk
    async with server.running(server.app):
        await _until(lambda: desk.ledger.queued > 5, 200)
        assert desk.mode.engine is EngineState.UP
        server.engine.die()
        await _until(lambda: desk.mode.engine is not EngineState.UP, 60)
        await _until(lambda: desk.mode.engine is EngineState.UP, 120)
        assert all(one.balanced for one in desk.ledger.classes.values())
        assert sum(one.outcomes[Outcome.COMPLETED] for one in desk.ledger.classes.values()) > 50


def test_it_serves_the_admin_api_and_both_kinds_of_metrics_until_its_parent_ends() -> None:
    """A switch is carried out; the server is gone when the dashboard is, even if that is killed."""
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ
    ) as parent:
        assert parent.stdout is not None
        try:
            url, token = parent.stdout.readline().split()
            wait_until(lambda: requests.get(f"{url}/headway/readyz", timeout=20).ok, "the server is ready")
            with AdminClient(url, token) as client:
                assert client.switch("latency", revision=1).name == "latency"
                status = client.status()
                assert status.model.startswith("simulated")
                assert (status.engine.backend, status.engine.version) == ("simulated", "")
            names = {
                one.name for one in text_string_to_metric_families(requests.get(f"{url}/metrics", timeout=20).text)
            }
            assert {"headway_ready", "vllm:generation_tokens", "process_start_time_seconds"} <= names
        finally:
            parent.kill()
    wait_until(lambda: not _answers(url), "the server has ended with its parent")


def _answers(url: str) -> bool:
    try:
        return requests.get(f"{url}/headway/healthz", timeout=5).ok
    except requests.RequestException:
        return False
