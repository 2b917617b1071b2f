"""The models on one machine share its seats, and its memory."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from closed_loop_clients import ClosedLoopClients
from engine_parts import long_form
from live_stand_in import LiveStandIn
from running_server import OFFLINE, RunningServer, wait_until

from headway.api import AdminClient

TOTAL, OWN = 16, 32
FLAGS = ("--preset", "balanced", "--no-warmup", "--max-num-seqs", "64")


@contextmanager
def sharing(
    first: RunningServer, second: RunningServer | LiveStandIn, *words: str
) -> Iterator[subprocess.Popen[bytes]]:
    """``headway share`` between both; it is killed at the end where it still runs."""
    command = [sys.executable, "-m", "headway", "share", "--server", first.url, "--server", second.url]
    environment = {**os.environ, **OFFLINE, "HEADWAY_ADMIN_TOKEN": first.token}
    with subprocess.Popen([*command, "--seats", str(TOTAL), *words], env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


@asynccontextmanager
async def load(server: RunningServer, clients: int) -> AsyncIterator[ClosedLoopClients]:
    """Clients of one server, all of whose requests were answered, or refused in good order."""
    async with ClosedLoopClients(server, clients) as found:
        yield found
    assert set(found.codes) <= {200, 429, 503}
    assert 200 in found.codes


def held(server: RunningServer) -> int:
    """The seats that requests hold or may take."""
    status = server.status()
    return max(int(status["limit"]["live"]), int(status["seats_taken"]))


def limits(*servers: RunningServer) -> list[int]:
    return [int(one.status()["limit"]["live"]) for one in servers]


def come_to(first: RunningServer, second: RunningServer, expected: list[int]) -> None:
    """Wait for these limits; the seats never pass the total on the way."""

    def there() -> bool:
        before, other, after = held(first), held(second), held(first)
        assert min(before, after) + other <= TOTAL  # the first one may have changed around the look at the second
        return limits(first, second) == expected

    wait_until(there, f"the limits are {expected}", 90)


async def test_a_peak_of_the_kv_cache_of_an_engine_pauses_the_other_model(server: RunningServer) -> None:
    """An urgent model without objectives is never late: its KV cache alone pauses the other, until it is free again."""
    server.use("kv-peak")
    with LiveStandIn(token=server.token) as other, AdminClient(other.url, server.token) as admin:

        def is_paused() -> bool:
            return admin.status().state == "paused"

        with sharing(server, other, "--urgent", server.url, "--pause", other.url) as arbiter:
            wait_until(lambda: other.orders, "the seats are shared")
            assert not is_paused()
            async with load(server, 8):
                await asyncio.to_thread(wait_until, is_paused, "a pause")
                assert server.status()["memory"]["cap_ratio"] < 1
            await asyncio.to_thread(wait_until, lambda: not is_paused(), "the end of the pause")
            arbiter.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(arbiter.wait, 60) == 0
    wait_until(lambda: server.status()["memory"]["cap_ratio"] == 1, "all seats are free")


@long_form("two servers; tests/tools/cli finds it with two admin APIs around a fake engine")
async def test_the_seats_follow_the_load_and_come_back(real_engine: None, tmp_path: Path) -> None:
    """The busy model gets them, a late urgent one has the other paused, and each end leaves the presets' own limits.

    So does the kill of the arbiter, in a pause too.
    """
    second = RunningServer.headway(tmp_path / "second.log", *FLAGS)
    with RunningServer.headway(tmp_path / "first.log", *FLAGS) as first:
        second.token = first.token
        with second:
            with sharing(first, second) as arbiter:
                wait_until(lambda: sum(limits(first, second)) <= TOTAL, "the limits are within the total")
                async with load(first, 24):
                    await asyncio.to_thread(come_to, first, second, [15, 1])
                async with load(second, 24):
                    await asyncio.to_thread(come_to, first, second, [1, 15])
                arbiter.send_signal(signal.SIGTERM)
                assert arbiter.wait(120) == 0
            assert limits(first, second) == [OWN, OWN]
            with sharing(first, second, "--urgent", first.url, "--pause", second.url) as arbiter:
                async with load(first, 100), load(second, 8):
                    await asyncio.to_thread(wait_until, lambda: second.status()["state"] == "paused", "a pause", 60)
                    arbiter.send_signal(signal.SIGTERM)
                    assert await asyncio.to_thread(arbiter.wait, 20) == 0
                    assert second.status()["state"] == "open"
            with sharing(first, second, "--urgent", first.url, "--pause", second.url) as arbiter:
                async with load(first, 100), load(second, 8):
                    await asyncio.to_thread(wait_until, lambda: second.status()["state"] == "paused", "a pause", 60)
                    assert second.status()["stopped"]["left_s"] <= 30
                    arbiter.kill()
                    await asyncio.to_thread(wait_until, lambda: second.status()["state"] == "open", "its end", 45)
            wait_until(lambda: limits(first, second) == [OWN, OWN], "the orders of a killed arbiter have ended", 45)
