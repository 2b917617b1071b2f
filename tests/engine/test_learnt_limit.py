"""What an adaptive limit has learnt of a real engine outlives its server."""

from __future__ import annotations

import asyncio
from pathlib import Path

from closed_loop_clients import ClosedLoopClients
from engine_parts import long_form
from running_server import RunningServer

GROWN = 20


def _server(folder: Path, seats: int) -> RunningServer:
    flags = ("--preset", "aimd-loose", "--no-warmup", "--max-num-seqs", str(seats))
    return RunningServer.headway(folder / "server.log", *flags, HEADWAY_CACHE_DIR=str(folder / "kept"))


@long_form("three servers; tests/plugin/supervision finds it with the gate alone")
async def test_the_next_server_of_the_same_engine_starts_at_its_seats(real_engine: None, tmp_path: Path) -> None:
    """The limit has grown from 8 under load; a server with other flags is another engine, and starts at 8."""
    with _server(tmp_path, 24) as first:
        assert first.status()["limit"]["live"] == 8
        async with ClosedLoopClients(first, 40):
            for _ in range(240):
                await asyncio.sleep(0.5)
                limit = await asyncio.to_thread(first.status)
                if limit["limit"]["live"] >= GROWN:
                    break
        grown = first.status()["limit"]["live"]
        assert grown >= GROWN
        assert first.stop() == 0
    assert len(list((tmp_path / "kept").iterdir())) == 1
    with _server(tmp_path, 24) as second:
        assert (second.status()["limit"]["live"], second.status()["limit"]["reason"]) == (grown, "recalled")
        assert f"the limit starts at {grown} seats" in second.log()
    with _server(tmp_path, 25) as other:
        assert other.status()["limit"]["live"] == 8
