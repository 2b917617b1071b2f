"""The accounting of tenants over the end of an engine and of a server: its sums stay the counters of vLLM."""

from __future__ import annotations

import asyncio
from pathlib import Path

from client_accounting import ClientGroup, mixed
from counted_usage import assert_counted, usage_of
from engine_parts import engine_core, kill, long_form, ready
from running_server import RunningServer, wait_until


def _server(folder: Path) -> RunningServer:
    kept = {"HEADWAY_USAGE_DB": str(folder / "usage.db")}
    return RunningServer.headway(folder / "server.log", "--preset", "chaos", "--no-warmup", **kept)


def _deaths(server: RunningServer) -> int:
    return int(server.status()["engine"]["deaths"]["crash"])


@long_form("two servers; the other tests of the usage have the server and its database each by itself")
async def test_the_sums_are_vllms_counters_over_a_killed_engine_and_a_restart(
    real_engine: None, tmp_path: Path
) -> None:
    """Requests that ran when their engine was killed count as vLLM has counted them. The next server on the same
    database adds what its own vLLM counts."""
    with _server(tmp_path) as first:
        group = ClientGroup(first, mixed(16, sizes=(60, 200)))
        load = asyncio.create_task(group.run())

        def flowing() -> bool:
            return first.scrape()("vllm:generation_tokens_total") > 0 and any(client.flows for client in group.clients)

        await asyncio.to_thread(wait_until, flowing, "tokens are counted and a stream flows")
        kill(engine_core(first))
        await asyncio.to_thread(wait_until, lambda: _deaths(first) == 1 and ready(first), "the engine is replaced", 240)
        await load
        group.audit()
        counted = await asyncio.to_thread(assert_counted, first)
        assert counted["total"]["output_tokens"] > 0
        assert await asyncio.to_thread(first.stop) == 0
    with _server(tmp_path) as second:
        kept = usage_of(second)["total"]
        assert {name: kept[name] for name in counted["total"]} == counted["total"]
        await ClientGroup(second, mixed(4)).run()
        found = await asyncio.to_thread(assert_counted, second, counted)
        assert found["total"]["requests"] >= counted["total"]["requests"] + 4
