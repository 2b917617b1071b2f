"""``headway.wrap`` around a real engine in a program: warm-up, a kill of its engine core, metrics, shutdown."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from running_server import OFFLINE, ROOT, TINY_MODEL

PROGRAM = """
import asyncio, json, os, signal, sys
import psutil
from prometheus_client import CollectorRegistry
from vllm import AsyncEngineArgs, SamplingParams
from vllm.engine.async_llm_engine import AsyncLLMEngine
import headway


async def main():
    args = AsyncEngineArgs(model=sys.argv[1], enforce_eager=True, max_model_len=512, max_num_seqs=8,
                           scheduling_policy="priority")
    quiet = dict.fromkeys(("stdout", "stderr"), asyncio.subprocess.DEVNULL)
    bystander = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(1000)", **quiet)
    registry = CollectorRegistry()

    engine = headway.wrap(AsyncLLMEngine.from_engine_args(args), preset="balanced", warmup=True,
                          registry=registry)

    async def one(request_id, tokens=5, **options):
        params = SamplingParams(max_tokens=tokens, ignore_eos=True, temperature=0.0)
        return [out async for out in engine.generate("Hello", params, request_id, **options)][-1]

    result = {"before": engine.headway.not_ready()}
    first = await one("first", priority="realtime")
    status = engine.headway.status()
    result["warmup"] = [status["warmup"]["state"], sorted(status["warmup"]["stages"])]
    result["tokens"] = len(first.outputs[0].token_ids)
    result["running"] = status["engine"]["core_limit"]

    long = asyncio.create_task(one("long", 400))
    while not engine.headway.gateway.open_calls:
        await asyncio.sleep(0.01)
    core = [each for each in psutil.Process().children(recursive=True) if "EngineCore" in " ".join(each.cmdline())
            or "EngineCore" in each.name()]
    result["cores"] = len(core)
    for each in core:
        each.kill()
    ended = (await asyncio.gather(long, return_exceptions=True))[0]
    result["long"] = type(ended).__name__
    after = await asyncio.wait_for(one("after", priority="batch"), 300)
    result["after"] = len(after.outputs[0].token_ids)
    result["deaths"] = registry.get_sample_value("headway_engine_deaths_total", {"cause": "crash"})
    result["arrivals"] = [registry.get_sample_value("headway_arrivals_total", {"class": name})
                          for name in ("realtime", "normal", "batch")]
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


def test_a_program_has_what_a_server_has(real_engine: None, tmp_path: Path) -> None:
    """Warm before the first request; the killed engine core is replaced and the next request waits for it; another
    process of the program lives on; nothing runs after the shutdown."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, **OFFLINE}
    command = [sys.executable, str(program), str(TINY_MODEL)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, cwd=ROOT, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert lines, done.stdout[-3000:] + done.stderr[-3000:]
    result = json.loads(lines[-1].removeprefix("RESULT "))
    assert result["before"] == ["warm-up pending"]
    assert result["warmup"][0] == "done"
    assert {"single", "batch"} <= set(result["warmup"][1])
    assert (result["tokens"], result["after"]) == (5, 5)
    assert (result["deaths"], result["arrivals"]) == (1, [1, 1, 1])
    assert (result["bystander"], result["tasks"]) == (True, [])
