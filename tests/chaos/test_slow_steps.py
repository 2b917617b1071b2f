"""No healthy slow step is taken for a hang: a compilation, long prefills in one piece and in chunks, full seats.

The preset calls four seconds of silence a hang. Behind HEADWAY_LONG_TESTS: two servers that may compile.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from client_accounting import ClientGroup, mixed
from client_connections import CONNECTIONS
from engine_parts import long_form
from running_server import RunningServer

SHAPES = {
    "in one piece": ("--no-enable-chunked-prefill", "--max-num-batched-tokens", "65536"),
    "in chunks": ("--enable-chunked-prefill", "--max-num-batched-tokens", "2048"),
}
AT_ONCE = 24


async def post(http: httpx.AsyncClient, server: RunningServer, **body: Any) -> int:
    """The status of one completion."""
    answer = await http.post(
        f"{server.url}/v1/completions", json={"model": "tiny", "max_tokens": 4, "ignore_eos": True, **body}
    )
    return answer.status_code


@long_form("it compiles")
@pytest.mark.parametrize("shape", SHAPES)
async def test_no_healthy_slow_step_is_taken_for_a_hang(real_engine: None, tmp_path: Path, shape: str) -> None:
    """All complete, and no silence was counted."""
    flags = ("--preset", "chaos", "--no-warmup", *SHAPES[shape])
    server = await asyncio.to_thread(
        RunningServer.headway(tmp_path / "server.log", *flags, TORCHDYNAMO_DISABLE="0").start
    )
    try:
        async with httpx.AsyncClient(timeout=600, limits=CONNECTIONS) as http:
            assert await post(http, server, prompt="a", logprobs=3) == 200
            long = [post(http, server, prompt="word " * 1800 + str(number)) for number in range(AT_ONCE)]
            assert set(await asyncio.gather(*long)) == {200}
        group = ClientGroup(server, mixed(64, sizes=(100,)))
        await group.run()
        assert {client.verdict for client in group.clients} == {"completed"}
        assert server.scrape()("headway_engine_hangs_total") == 0
    finally:
        assert await asyncio.to_thread(server.stop) == 0
