"""Clients that leave early, on stock ``vllm serve`` with the plugin named and vLLM's own admission limit on."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from asking import body
from flood import flood, statuses
from running_server import OFFLINE, ROOT, TINY_MODEL, RunningServer, wait_until

CLIENTS = 100


@pytest.fixture(scope="module")
def stock(real_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """`vllm serve` as it comes, with VLLM_PLUGINS=headway."""
    log_path = tmp_path_factory.mktemp("stock") / "server.log"
    flags = ("--max-num-queued-reqs", str(CLIENTS), "--max-num-seqs", "64", "--scheduling-policy", "priority")
    with RunningServer.plain_vllm(log_path, *flags, HEADWAY_PRESET="latency") as server:
        yield server


async def _leave_early(server: RunningServer, after_s: float, route: str, *, stream: bool) -> None:
    async with httpx.AsyncClient(timeout=60) as client:
        request = client.post(server.url + route, json=body(route, 500, stream=stream))
        try:
            await asyncio.wait_for(request, after_s)
        except TimeoutError:
            return


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("route", ["/v1/chat/completions", "/v1/responses"])
async def test_clients_that_leave_leave_nothing_behind(stock: RunningServer, route: str, stream: bool) -> None:
    """100 clients gone within their first tenth of a second: queue, seats and engine are empty and serve the next, and
    nobody who left is counted as a failure of the server."""
    before = stock.scrape()
    await asyncio.gather(*(_leave_early(stock, 0.001 * index, route, stream=stream) for index in range(CLIENTS)))
    await asyncio.to_thread(stock.settle)
    after = stock.scrape()
    assert after.unbalanced() == []
    arrived = after("headway_arrivals_total") - before("headway_arrivals_total")
    ended = after("headway_outcomes_total") - before("headway_outcomes_total")
    assert arrived == ended
    assert after("headway_outcomes_total", outcome="failed") == before("headway_outcomes_total", outcome="failed")
    assert statuses(await flood(stock, [("normal", 4, False)] * 8)) == {200: 8}


def test_the_plugin_needs_no_launcher_of_ours(stock: RunningServer) -> None:
    """Stock vLLM, started by its own command, has the preset, the gate and the engine's own limit in force."""
    wait_until(lambda: stock.status()["ready"], "it is ready")
    status = stock.status()
    assert (status["preset"]["name"], status["limit"]["live"], status["engine"]["core_limit"]) == ("latency", 8, 8)


CANCELLED_WHILE_ADDED = """
import asyncio, json, sys
from vllm import AsyncEngineArgs, SamplingParams
from vllm.engine.async_llm_engine import AsyncLLMEngine
import headway

async def main():
    args = AsyncEngineArgs(model=sys.argv[1], enforce_eager=True, max_model_len=512, max_num_queued_reqs=100,
                           max_num_seqs=64, scheduling_policy="priority")
    engine = headway.wrap(AsyncLLMEngine.from_engine_args(args), preset="throughput")
    add, being_added = engine.engine_core.add_request_async, asyncio.Semaphore(0)

    async def slow_add(request):
        being_added.release()
        await asyncio.sleep(60)
        await add(request)

    async def one(index):
        params = SamplingParams(max_tokens=5)
        return [out async for out in engine.generate("Hello", params, f"request-{index}")][-1].finished

    engine.engine_core.add_request_async = slow_add
    leaving = [asyncio.create_task(one(index)) for index in range(100)]
    for _ in range(64):
        await being_added.acquire()
    registered = len(engine.output_processor.request_states)
    for task in leaving:
        task.cancel()
    await asyncio.gather(*leaving, return_exceptions=True)
    engine.engine_core.add_request_async = add
    await asyncio.sleep(0.5)
    left = len(engine.output_processor.request_states)
    status = engine.headway.status()
    served = await asyncio.wait_for(one("next"), 60)
    print("RESULT " + json.dumps({"registered": registered, "left": left, "served": served,
          "seats": status["seats_taken"], "queued": status["queued"], "in_flight": status["in_flight"],
          "outcomes": {k: v for c in status["classes"] for k, v in c["outcomes"].items()}}))
    engine.shutdown()

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_requests_cancelled_while_being_added_leave_no_state(real_engine: None, tmp_path: Path) -> None:
    """vLLM itself leaks the state of a request cancelled inside its add; behind Headway 100 of 100 leave none, and an
    engine with ``max_num_queued_reqs`` still admits."""
    script = tmp_path / "cancelled_while_added.py"
    script.write_text(CANCELLED_WHILE_ADDED)
    environment = {**os.environ, **OFFLINE}
    command = [sys.executable, str(script), str(TINY_MODEL)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, cwd=ROOT, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stdout[-3000:] + done.stderr[-3000:]
    result = json.loads(lines[-1].removeprefix("RESULT "))
    assert result["registered"] == 64
    assert (result["left"], result["seats"], result["queued"], result["in_flight"]) == (0, 0, 0, 0)
    # The last 36 waited; some of them are dispatched in the very turn in which they are cancelled.
    assert sum(result["outcomes"].values()) == CLIENTS
    assert set(result["outcomes"]) <= {"cancelled_running", "cancelled_queued"}
    assert result["served"] is True
