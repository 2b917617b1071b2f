"""Plain `vllm serve` with the plugin named cannot replace its engine: everybody is told, and it ends with an error.

Without the plugin it ends its streams as 200, and itself with exit code 0, which no supervisor takes for a failure.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from engine_parts import engine_core, kill
from outside import Books, mixed
from running_server import RunningServer, wait_until


async def test_a_dead_engine_ends_the_server_with_an_error(real_engine: None, tmp_path: Path) -> None:
    """Who runs and who waits is told 503, nobody counts as completed, the exit code is not 0 and nothing is left."""
    server = RunningServer.plain_vllm(tmp_path / "server.log", HEADWAY_PRESET="chaos", HEADWAY_WARMUP="0").start()
    try:
        clients = mixed(12, sizes=(1500,))
        for one in clients:
            one.stream = False
        books = Books(server, clients)
        load = asyncio.create_task(books.run())
        await asyncio.to_thread(wait_until, lambda: server.status()["in_flight"] == 4, "four run")
        kill(engine_core(server))
        await load
        assert {(one.verdict, one.status, one.reason) for one in clients} == {("refused", 503, "engine_lost")}
        assert server.process is not None
        code = await asyncio.to_thread(server.process.wait, 60)
    finally:
        server.stop()
    assert code == 1, server.log()[-2000:]
    assert server.left() == []
