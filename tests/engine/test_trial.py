"""A preset on trial on the real engine: one that hurts goes back by itself under load, and no request is lost."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from client_connections import CONNECTIONS
from concurrent_requests import Answer, ask, statuses
from running_server import RunningServer, wait_until

CLIENTS = 12


async def keep_asking(server: RunningServer, client: httpx.AsyncClient, end: asyncio.Event) -> list[Answer]:
    """One request after another, of a class that waits patiently."""
    answers = []
    while not end.is_set():
        answers.append(await ask(client, server, "batch", 60, True))
    return answers


def trial_of(server: RunningServer) -> dict[str, Any]:
    """The trial, or the last one."""
    trial: dict[str, Any] = server.admin("GET", "preset/trial").json()["trial"]
    return trial


async def test_a_switch_that_hurts_rolls_itself_back_under_load(server: RunningServer) -> None:
    """From 64 seats to one at a time with 12 clients: first tokens wait for 11 answers until the condition has held."""
    server.use("throughput")
    known, end = server.scrape(), asyncio.Event()

    def each_has_an_answer() -> bool:
        name, done = "headway_outcomes_total", {"outcome": "completed"}
        return server.scrape()(name, **done) - known(name, **done) >= CLIENTS

    async with httpx.AsyncClient(timeout=300, limits=CONNECTIONS) as client:
        asking = [asyncio.create_task(keep_asking(server, client, end)) for _ in range(CLIENTS)]
        await asyncio.to_thread(wait_until, each_has_an_answer, "each has an answer")
        revision = server.status()["preset"]["revision"]
        order = {"name": "serial", "revert_after_s": 600, "revert_if": ["batch.ttft_p95_s > 0.5 for 2 s"]}
        begun = server.admin("PUT", "preset", json=order, headers={"If-Match": f'"{revision}"'})
        assert begun.status_code == 200, begun.text
        before = begun.json()["trial"]["before"]["classes"]["batch"]
        await asyncio.to_thread(wait_until, lambda: trial_of(server)["end"] is not None, "the trial has ended", 120)
        ended = trial_of(server)
        end.set()
        answers = [one for several in await asyncio.gather(*asking) for one in several]
    assert ended["end"] == "reverted"
    assert ended["why"].startswith("batch.ttft_p95_s is ")
    assert ended["now"]["classes"]["batch"]["ttft_p95_s"] > 0.5
    assert before["ttft_p95_s"] > 0  # of the last minute: requests of an earlier test may be among these
    assert before["completed_ratio"] > 0
    status = server.status()
    assert (status["preset"]["name"], status["preset"]["revision"]) == ("throughput", revision + 2)
    assert status["engine"]["core_limit"] == 64
    entries = server.admin("GET", "audit?limit=3").json()["entries"]
    assert [(entry["actor"], entry["action"]) for entry in entries] == [
        ("headway", "switch_preset"), ("headway", "end_trial"), ("operator", "switch_preset"),
    ]  # fmt: skip
    assert statuses(answers) == {200: len(answers)}
    assert all(answer.complete for answer in answers)


def test_an_undo_goes_back_to_any_revision(server: RunningServer) -> None:
    """Also to one before the last, whose settings the engine's own limit follows."""
    first = server.use("serial")["revision"]
    for name in ("throughput", "balanced"):
        server.use(name)
    assert server.status()["engine"]["core_limit"] == 64
    now = server.status()["preset"]["revision"]
    done = server.admin("POST", "preset/undo", json={"revision": first}, headers={"If-Match": f'"{now}"'}).json()
    assert (done["name"], done["revision"]) == ("serial", now + 1)
    assert server.status()["engine"]["core_limit"] == 1
