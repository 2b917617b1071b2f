"""Stock `vllm serve` with the plugin named and vLLM's own admission limit on: its behaviour, including its end.

It cannot replace its engine: all requests are refused, and it ends with an error. Without the plugin it ends its
streams as 200, and itself with exit code 0, which no supervisor takes for a failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx
import pytest
from client_accounting import ClientGroup, mixed
from client_connections import CONNECTIONS
from concurrent_requests import send_all, statuses
from engine_parts import engine_core, kill
from generation_requests import body
from running_server import RunningServer, assert_queries_stay_out_of_the_log, wait_until

CLIENTS = 100


@pytest.fixture(scope="module")
def stock(real_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """`vllm serve` as it comes, with VLLM_PLUGINS=headway."""
    log_path = tmp_path_factory.mktemp("stock") / "server.log"
    flags = ("--max-num-queued-reqs", str(CLIENTS), "--max-num-seqs", "64", "--scheduling-policy", "priority")
    stock = RunningServer.plain_vllm(log_path, *flags, HEADWAY_PRESET="latency")
    stock.access_log = True
    with stock as server:
        yield server


def _running_and_waiting(server: RunningServer) -> tuple[int, int]:
    status = server.status()
    return status["in_flight"], status["queued"]


async def _leave_early(server: RunningServer, after_s: float, route: str, *, stream: bool) -> None:
    async with httpx.AsyncClient(timeout=60, limits=CONNECTIONS) as client:
        request = client.post(server.url + route, json=body(route, 500, stream=stream))
        try:
            await asyncio.wait_for(request, after_s)
        except TimeoutError:
            return


@pytest.mark.parametrize(("route", "stream"), [("/v1/chat/completions", False), ("/v1/responses", True)])
async def test_disconnected_clients_leave_no_state(stock: RunningServer, route: str, stream: bool) -> None:
    """100 clients disconnect within their first tenth of a second: queue, seats and engine are empty and serve the next
    request, and no disconnect counts as a failure of the server."""
    before = stock.scrape()
    await asyncio.gather(*(_leave_early(stock, 0.001 * index, route, stream=stream) for index in range(CLIENTS)))
    await asyncio.to_thread(stock.settle)
    after = stock.scrape()
    assert after.unbalanced() == []
    arrived = after("headway_arrivals_total") - before("headway_arrivals_total")
    ended = after("headway_outcomes_total") - before("headway_outcomes_total")
    assert arrived == ended
    assert after("headway_outcomes_total", outcome="failed") == before("headway_outcomes_total", outcome="failed")
    assert statuses(await send_all(stock, [("normal", 4, False)] * 8)) == {200: 8}


def test_the_plugin_needs_no_launcher_of_ours(stock: RunningServer) -> None:
    """Stock vLLM, started by its own command, has the preset and the gate in force, and the engine's own limit: that of
    its flags, which the preset's seats follow, and the seats of one whose number is fixed."""
    wait_until(lambda: stock.status()["ready"], "it is ready")
    status = stock.status()
    assert (status["preset"]["name"], status["engine"]["core_limit"]) == ("latency", 64)
    assert 1 <= status["limit"]["live"] <= 64
    stock.use("serial")
    assert stock.status()["engine"]["core_limit"] == 1
    stock.use("latency")
    assert stock.status()["engine"]["core_limit"] == 64


def test_no_query_reaches_the_access_log(stock: RunningServer) -> None:
    """A token in the query string is not in the log, nor in an answer or the audit."""
    assert_queries_stay_out_of_the_log(stock)


async def test_a_dead_engine_ends_the_server_with_an_error(stock: RunningServer) -> None:
    """Before the end, running and waiting requests get 503, none counts as completed, the exit code is not 0 and no
    process remains."""
    stock.use("chaos")
    clients = mixed(12, sizes=(1500,))
    for client in clients:
        client.stream = False
    group = ClientGroup(stock, clients)
    load = asyncio.create_task(group.run())
    await asyncio.to_thread(wait_until, lambda: _running_and_waiting(stock) == (4, 8), "four run and eight wait")
    kill(engine_core(stock))
    await load
    assert {(client.verdict, client.status, client.reason) for client in clients} == {("refused", 503, "engine_lost")}
    assert stock.process is not None
    code = await asyncio.to_thread(stock.process.wait, 60)
    assert code == 1, stock.log()[-2000:]
    assert stock.left() == []
