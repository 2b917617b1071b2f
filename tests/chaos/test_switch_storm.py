"""Continuous preset switches under load, some of them invalid (C9): no request is lost, the invalid ones have no
effect."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import requests
from client_accounting import ClientGroup, mixed
from engine_parts import ROUNDS
from running_server import RunningServer, wait_until

NAMES = ("latency", "throughput", "chaos", "balanced", "no-such-preset")
LOAD_S = 3.0 if ROUNDS == 1 else 300.0
APPLIED, UNKNOWN, OVERTAKEN = "applied", "unknown", "overtaken"
IN_FORCE = "in force already"
WORDS = {
    requests.codes.ok: APPLIED,
    requests.codes.unprocessable: UNKNOWN,
    requests.codes.precondition_failed: OVERTAKEN,
}
PER_S = 12  # more than the engine serves, so that the queue is never empty


def _answered(answer: requests.Response) -> str:
    """What the server made of a switch: one of the words above, or the status."""
    if answer.status_code == requests.codes.ok and answer.json()["previous"] == answer.json()["name"]:
        return IN_FORCE
    return WORDS.get(answer.status_code, str(answer.status_code))


def _switch_until(server: RunningServer, done: asyncio.Task[None], *, careful: bool) -> Counter[str]:
    """Switch and switch, whatever is in force or, careful, only what was seen; how often it was answered what."""
    answers: Counter[str] = Counter()
    while not done.done():
        for name in NAMES:
            tag = f'"{server.status()["preset"]["revision"]}"' if careful else "*"
            answer = server.admin("PUT", "preset", headers={"If-Match": tag}, json={"name": name})
            answers[_answered(answer)] += 1
            time.sleep(0.02)
    return answers


async def test_continuous_switches_lose_no_request(chaos: RunningServer) -> None:
    """Two independent operators switch; every client completes; each switch to another preset that was
    answered 200 raised the revision by one, no other did, and none was answered anything else than applied, in force
    already, unknown or overtaken."""
    revision = chaos.status()["preset"]["revision"]
    group = ClientGroup(chaos, mixed(int(PER_S * LOAD_S), sizes=(20, 60)))
    load = asyncio.create_task(group.run(spread_s=LOAD_S))
    careless, careful = await asyncio.gather(
        asyncio.to_thread(_switch_until, chaos, load, careful=False),
        asyncio.to_thread(_switch_until, chaos, load, careful=True),
    )
    await load
    assert chaos.use("chaos")["previous"] != "chaos"
    assert group.audit()["completed"] == len(group.clients)
    answers = careless + careful
    assert set(answers) <= {APPLIED, IN_FORCE, UNKNOWN, OVERTAKEN}
    assert answers[UNKNOWN] > 0
    assert chaos.status()["preset"]["revision"] == revision + answers[APPLIED] + 1
    wait_until(lambda: chaos.status()["engine"]["core_limit"] == 4, "the last one holds in the engine, too")
