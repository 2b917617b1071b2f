"""Stock `vllm serve` with the plugin named and vLLM's own admission limit on: its behaviour, including its end.

It cannot replace its engine: all requests are refused, and it ends with an error. Without the plugin it ends its
streams as 200, and itself with exit code 0, which no supervisor takes for a failure.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import httpx
import pytest
from client_accounting import ClientGroup, mixed
from client_connections import CONNECTIONS
from engine_parts import engine_core, kill
from generation_requests import body
from running_server import RunningServer, assert_queries_stay_out_of_the_log, wait_until
from strict_server import MOST_QUEUED, StrictServer

CLIENTS = MOST_QUEUED


@pytest.fixture
def stock(strict: StrictServer) -> RunningServer:
    """The server with keys, which is `vllm serve` as it comes, with VLLM_PLUGINS=headway."""
    return strict.server


@pytest.fixture
def key(strict: StrictServer) -> dict[str, str]:
    """The header of a tenant that may use any class."""
    return {"authorization": f"Bearer {strict.keys['top']}"}


def _running_and_waiting(server: RunningServer) -> tuple[int, int]:
    status = server.status()
    return status["in_flight"], status["queued"]


async def _leave_early(client: httpx.AsyncClient, after_s: float, url: str, content: dict[str, Any]) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(client.post(url, json=content), after_s)


@pytest.mark.parametrize(("route", "stream"), [("/v1/chat/completions", False), ("/v1/responses", True)])
async def test_disconnected_clients_leave_no_state(
    stock: RunningServer, key: dict[str, str], route: str, stream: bool
) -> None:
    """100 clients disconnect within their first tenth of a second: queue, seats and engine are empty and serve the next
    request, and no disconnect counts as a failure of the server."""
    stock.use("latency")
    url, content = stock.url + route, body(route, 500, stream=stream)
    async with httpx.AsyncClient(timeout=120, limits=CONNECTIONS, headers=key) as client:
        before = stock.scrape()
        await asyncio.gather(*(_leave_early(client, 0.001 * index, url, content) for index in range(CLIENTS)))
        await asyncio.to_thread(stock.settle)
        after = stock.scrape()
        answers = await asyncio.gather(*(client.post(url, json=body(route, 4)) for _ in range(8)))
    assert after.unbalanced() == []
    arrived = after("headway_arrivals_total") - before("headway_arrivals_total")
    ended = after("headway_outcomes_total") - before("headway_outcomes_total")
    assert arrived == ended
    assert after("headway_outcomes_total", outcome="failed") == before("headway_outcomes_total", outcome="failed")
    assert [answer.status_code for answer in answers] == [200] * 8


def test_the_plugin_needs_no_launcher_of_ours(stock: RunningServer) -> None:
    """Stock vLLM, started by its own command, has the preset and the gate in force, and the engine's own limit: that of
    its flags, which the preset's seats follow, and the seats of one whose number is fixed."""
    stock.use("latency")
    wait_until(lambda: stock.status()["ready"], "it is ready")
    status = stock.status()
    assert (status["preset"]["name"], status["engine"]["core_limit"]) == ("latency", 64)
    assert 1 <= status["limit"]["live"] <= 64
    stock.use("serial")
    assert stock.status()["engine"]["core_limit"] == 1
    stock.use("latency")
    assert stock.status()["engine"]["core_limit"] == 64


def test_no_query_reaches_the_access_log(stock: RunningServer, key: dict[str, str]) -> None:
    """A token in the query string is not in the log, nor in an answer or the audit."""
    assert_queries_stay_out_of_the_log(stock, key)


@pytest.mark.ends_server
async def test_a_dead_engine_ends_the_server_with_an_error(stock: RunningServer, key: dict[str, str]) -> None:
    """Before the end, running and waiting requests get 503, none counts as completed, the exit code is not 0 and no
    process remains."""
    assert stock.process is not None
    if stock.process.poll() is not None:  # this is its second try
        stock.start()
    stock.use("chaos")
    stock.settle()
    clients = mixed(12, sizes=(1500,))
    for client in clients:
        client.stream = False
    group = ClientGroup(stock, clients, key)
    load = asyncio.create_task(group.run())
    await asyncio.to_thread(wait_until, lambda: _running_and_waiting(stock) == (4, 8), "four run and eight wait")
    kill(engine_core(stock))
    await load
    assert {(client.verdict, client.status, client.reason) for client in clients} == {("refused", 503, "engine_lost")}
    code = await asyncio.to_thread(stock.process.wait, 60)
    assert code == 1, stock.log()[-2000:]
    assert stock.left() == []
