"""``headway.wrap`` around a real engine in a program: warm-up, clients that cancel, a killed engine core, shutdown.

One program does all of it in turn.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from engine_parts import long_form
from running_server import OFFLINE, ROOT, TINY_MODEL

pytestmark = long_form(
    "tests/plugin: test_wrap, test_wrap_whole and admission/test_faults have it with a fake engine,"
    " vllm_adapter/contract what it uses of vLLM"
)

CLIENTS = 100

PROGRAM = """
import asyncio, json, sys
import psutil
from prometheus_client import CollectorRegistry
from vllm import AsyncEngineArgs, SamplingParams
from vllm.engine.async_llm_engine import AsyncLLMEngine
import headway

REGISTRY = CollectorRegistry()


def arrivals():
    return [REGISTRY.get_sample_value("headway_arrivals_total", {"class": name})
            for name in ("realtime", "normal", "batch")]


async def one(engine, request_id, tokens=5, **options):
    params = SamplingParams(max_tokens=tokens, ignore_eos=True, temperature=0.0)
    return [out async for out in engine.generate("Hello", params, request_id, **options)][-1]


async def warm(engine):
    result = {"before": engine.headway.not_ready()}
    first = await one(engine, "first", priority="batch")  # the class that may wait longest: for the warm-up
    status = engine.headway.status()
    result["warmup"] = [status.warmup.state, sorted(status.warmup.stages)]
    result["tokens"] = len(first.outputs[0].token_ids)
    result["running"] = status.engine.core_limit
    return result


async def cancelled(engine):
    add, being_added = engine.engine_core.add_request_async, asyncio.Semaphore(0)

    async def slow_add(request):
        being_added.release()
        await asyncio.sleep(60)
        await add(request)

    engine.engine_core.add_request_async = slow_add
    leaving = [asyncio.create_task(one(engine, f"request-{index}")) for index in range(100)]
    await asyncio.wait_for(being_added.acquire(), 60)
    held = {one.name: one.held_seats for one in engine.headway.status().classes}
    free = 64 - held["realtime"]
    for _ in range(free - 1):
        await asyncio.wait_for(being_added.acquire(), 60)
    registered = len(engine.output_processor.request_states)
    for task in leaving:
        task.cancel()
    await asyncio.gather(*leaving, return_exceptions=True)
    engine.engine_core.add_request_async = add
    await asyncio.sleep(0.5)
    left = len(engine.output_processor.request_states)
    status = engine.headway.status()
    outcomes = {}
    for each in status.classes:
        for name, number in each.outcomes.items():
            outcomes[name] = outcomes.get(name, 0) + number
    served = (await asyncio.wait_for(one(engine, "next"), 60)).finished
    return {"free": free, "registered": registered, "left": left, "served": served, "seats": status.seats_taken,
            "queued": status.queued, "in_flight": status.in_flight, "outcomes": outcomes}


async def killed(engine):
    before = arrivals()
    long = asyncio.create_task(one(engine, "long", 400))
    while not engine.headway.gateway.open_calls:
        await asyncio.sleep(0.01)
    core = [each for each in psutil.Process().children(recursive=True) if "EngineCore" in " ".join(each.cmdline())
            or "EngineCore" in each.name()]
    result = {"cores": len(core)}
    for each in core:
        each.kill()
    ended = (await asyncio.gather(long, return_exceptions=True))[0]
    result["long"] = type(ended).__name__
    after = await asyncio.wait_for(one(engine, "after", priority="batch"), 300)
    result["after"] = len(after.outputs[0].token_ids)
    result["deaths"] = REGISTRY.get_sample_value("headway_engine_deaths_total", {"cause": "crash"})
    result["arrivals"] = [now - then for now, then in zip(arrivals(), before)]
    return result


async def main():
    args = AsyncEngineArgs(model=sys.argv[1], enforce_eager=True, max_model_len=512, max_num_queued_reqs=100,
                           max_num_seqs=64, scheduling_policy="priority")
    quiet = dict.fromkeys(("stdout", "stderr"), asyncio.subprocess.DEVNULL)
    bystander = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(1000)", **quiet)
    engine = headway.wrap(AsyncLLMEngine.from_engine_args(args), preset="throughput", warmup=True, registry=REGISTRY)
    result = {step.__name__: await step(engine) for step in (warm, cancelled, killed)}
    result["bystander"] = bystander.returncode is None
    engine.shutdown()
    await asyncio.sleep(0.5)
    result["tasks"] = [each.get_name() for each in asyncio.all_tasks() if each.get_name().startswith("headway ")]
    bystander.kill()
    await bystander.wait()
    print("RESULT " + json.dumps(result))

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.fixture(scope="module")
def result(real_engine: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program found at each of its steps."""
    program = tmp_path_factory.mktemp("wrap") / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, **OFFLINE}
    command = [sys.executable, str(program), str(TINY_MODEL)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, cwd=ROOT, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stdout[-3000:] + done.stderr[-3000:]
    return dict(json.loads(lines[-1].removeprefix("RESULT ")))


def test_a_program_has_what_a_server_has(result: dict[str, Any]) -> None:
    """Warm before the first request; nothing runs after the shutdown."""
    warm = result["warm"]
    assert warm["before"] == ["warm-up pending"]
    assert warm["warmup"][0] == "done"
    assert {"single", "batch"} <= set(warm["warmup"][1])
    assert (warm["tokens"], result["tasks"]) == (5, [])


def test_a_killed_engine_core_is_replaced(result: dict[str, Any]) -> None:
    """The next request waits for the new one; another process of the program lives on."""
    killed = result["killed"]
    assert (killed["after"], killed["deaths"], killed["arrivals"]) == (5, 1, [0, 1, 1])
    assert result["bystander"] is True


def test_requests_cancelled_while_being_added_leave_no_state(result: dict[str, Any]) -> None:
    """vLLM itself leaks the state of a request cancelled inside its add; behind Headway 100 of 100 leave none, and an
    engine with ``max_num_queued_reqs`` still admits."""
    found = result["cancelled"]
    assert found["registered"] == found["free"] >= 56
    assert (found["left"], found["seats"], found["queued"], found["in_flight"]) == (0, 0, 0, 0)
    # The others waited; some of them are dispatched in the very turn in which they are cancelled.
    assert found["outcomes"].pop("completed") == 1, "the first request"
    assert sum(found["outcomes"].values()) == CLIENTS
    assert set(found["outcomes"]) <= {"cancelled_running", "cancelled_queued"}
    assert found["served"] is True
