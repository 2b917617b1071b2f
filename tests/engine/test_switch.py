"""Switching presets while requests run."""

from __future__ import annotations

import asyncio

from concurrent_requests import send_all, statuses
from running_server import RunningServer, wait_until


async def test_a_switch_changes_the_running_batch_and_drops_no_request(server: RunningServer) -> None:
    """Eight seats, throughput, eight again under load: vLLM's running count follows, and all requests complete: those
    of a patient class, whose objective no load of this size breaks. Some of the eight seats are held for others."""
    server.use("fixed8")
    plan = [("batch", 120, stream) for stream in (False, True) * 18]
    work = asyncio.create_task(send_all(server, plan))

    def running() -> float:
        return server.scrape()("vllm:num_requests_running")

    def full() -> bool:
        held = sum(one["held_seats"] for one in server.status()["classes"])
        return 1 <= held <= 4 and running() == 8 - held

    async def until(holds: str) -> float:
        checks = {"full": full, "more": lambda: running() > 16, "back": lambda: running() <= 8}
        return float(await asyncio.to_thread(wait_until, checks[holds], f"the running batch is {holds}", 300))

    await until("full")
    limit = server.status()["limit"]
    assert (limit["live"], limit["ceiling"]) == (8, 64)
    assert server.use("throughput")["previous"] == "fixed8"
    await until("more")
    assert server.status()["engine"]["core_limit"] == 64
    server.use("fixed8")
    await until("back")
    answers = await work
    assert statuses(answers) == {200: len(plan)}
    assert all(answer.complete for answer in answers)
    assert server.status()["engine"]["core_limit"] == 8


def test_a_switch_is_written_down_and_shown(server: RunningServer) -> None:
    """The audit has actor, change and revision; the metrics show the preset in force."""
    before = server.scrape()
    done = server.use("latency")
    entry = server.admin("GET", "audit?limit=1").json()["entries"][0]
    assert (entry["before"], entry["after"], entry["revision"]) == ("balanced", "latency", done["revision"])
    assert (entry["role"], entry["result"], entry["reason"]) == ("operator", "applied", "test")
    after = server.scrape()
    assert after("headway_preset_info", preset="latency", revision=str(done["revision"])) == 1
    changed = "headway_last_change_timestamp_seconds"
    assert after(changed) > before(changed)
    changed_settings = {one["setting"] for one in done["changes"]}
    assert {"batching.seats", "classes.realtime.ttft_slo_s"} <= changed_settings
    assert "batching.window_ms" not in changed_settings  # it has no effect under continuous
