"""A release of vLLM from its start to its end, with one server. `make test-versions` runs it with each release."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx
import pytest
import requests
from client_connections import CONNECTIONS
from concurrent_requests import ask, send_all, statuses
from engine_parts import engine_core, kill, long_form, ready
from generation_requests import body
from running_server import RunningServer, wait_until

pytestmark = long_form("each other file of tests/engine has one of these promises, in full; make test-versions has all")
CLASSES = ("realtime", "normal", "batch")
COMPLETIONS = "/v1/completions"


@pytest.fixture(scope="module")
def release(real_engine: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """The server, started once; what a test leaves is what the next one begins with."""
    flags = ("--preset", "balanced", "--shutdown-timeout", "300")
    pauses = {"HEADWAY_ALLOW_DEV_MODE": "1", "VLLM_SERVER_DEV_MODE": "1"}  # mounts /pause and /resume
    with RunningServer.headway(tmp_path_factory.mktemp("release") / "server.log", *flags, **pauses) as server:
        yield server


def test_start(release: RunningServer) -> None:
    """The server gets ready, warmed up, with no line that says that a part of Headway is off, and names its model."""
    assert ready(release)
    (model,) = requests.get(f"{release.url}/v1/models", timeout=20).json()["data"]
    assert model["id"] == "tiny"
    assert "patches of vLLM in force" in release.log()
    assert "step policy has no effect" not in release.log()


async def test_classes(release: RunningServer) -> None:
    """Twenty requests of three classes, streams and whole answers, are all completed and counted."""
    before = release.scrape()
    plan = [(CLASSES[number % 3], 16, number % 2 == 0) for number in range(20)]
    answers = await send_all(release, plan)
    assert statuses(answers) == {200: 20}
    assert all(answer.complete for answer in answers)
    assert {answer.headers["x-headway-class"] for answer in answers} == set(CLASSES)
    release.settle()
    after = release.scrape()
    completed = {"outcome": "completed"}
    assert after("headway_outcomes_total", **completed) - before("headway_outcomes_total", **completed) == 20
    assert after.unbalanced() == []


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_refusal(release: RunningServer, stream: bool) -> None:
    """A request that finds the queue full is refused with 429 and Retry-After before any byte of an answer."""
    release.use("tight")
    assert release.admin("POST", "pause", json={"reason": "a test"}).status_code == 200
    async with httpx.AsyncClient(timeout=300, limits=CONNECTIONS) as client:
        waiting = [asyncio.create_task(ask(client, release, "realtime", 4, stream)) for _ in range(4)]
        await asyncio.to_thread(wait_until, lambda: release.status()["queued"] == 4, "four wait")
        refused = await ask(client, release, "batch", 4, stream)
        assert release.admin("POST", "resume", json={"reason": "a test"}).status_code == 200
        answers = await asyncio.gather(*waiting)
    assert (refused.status, refused.headers["x-headway-reason"]) == (429, "queue_full")
    assert int(refused.headers["retry-after"]) >= 1
    assert statuses(list(answers)) == {200: 4}


def test_switch(release: RunningServer) -> None:
    """A switch of the preset sets the number of sequences in the running engine."""
    for preset, seats in (("fixed8", 8), ("throughput", 64), ("fixed8", 8)):
        release.use(preset)
        assert release.status()["engine"]["core_limit"] == seats


async def test_pause(release: RunningServer) -> None:
    """What comes to a paused engine, and the next calls of a beam search, wait for the resume: nobody is refused.

    A beam search calls the engine anew for each token; a pause of mode ``wait`` ends with the calls that run. The
    caches stay: a worker without a model has none.
    """
    release.use("balanced")
    token = {"Authorization": f"Bearer {release.token}"}
    plan = [(name, 4, name == "batch") for name in CLASSES]
    beams = body(COMPLETIONS, 200) | {"use_beam_search": True, "n": 2}
    async with httpx.AsyncClient(timeout=300, limits=CONNECTIONS) as client:
        for mode, running in (("wait", 1), ("abort", 0)):
            work = [asyncio.create_task(client.post(f"{release.url}{COMPLETIONS}", json=beams)) for _ in range(running)]
            await asyncio.to_thread(wait_until, lambda some=running: release.status()["in_flight"] == some, "it runs")
            paused = await client.post(
                f"{release.url}/pause", params={"mode": mode, "clear_cache": "false"}, headers=token
            )
            assert paused.status_code == 200, paused.text
            late = asyncio.create_task(send_all(release, plan))
            await asyncio.to_thread(wait_until, lambda: release.status()["queued"] == len(plan), "they wait")
            assert (release.status()["in_flight"], [one.done() for one in work]) == (running, [False] * running)
            resumed = await client.post(f"{release.url}/resume", headers=token)
            assert resumed.status_code == 200, resumed.text
            assert statuses(await late) == {200: len(plan)}
            for answer in await asyncio.gather(*work):
                assert (answer.status_code, bool(answer.json()["choices"])) == (200, True)  # equal beams are one


async def test_kill(release: RunningServer) -> None:
    """After its engine was killed the server starts another one, and answers as before."""
    release.use("chaos")
    dead = engine_core(release)
    kill(dead)
    await asyncio.to_thread(wait_until, lambda: not ready(release), "the death was noticed")
    await asyncio.to_thread(wait_until, lambda: ready(release), "another engine is up", 300)
    assert engine_core(release).pid != dead.pid
    answers = await send_all(release, [(name, 8, True) for name in CLASSES])
    assert (statuses(answers), all(answer.complete for answer in answers)) == ({200: 3}, True)


async def test_drain(release: RunningServer) -> None:
    """Told to end, the server completes what runs, exits with 0 and leaves no process."""
    work = asyncio.create_task(send_all(release, [("realtime", 200, True)] * 2))
    await asyncio.to_thread(wait_until, lambda: release.scrape()("vllm:num_requests_running") == 2, "two run")
    code = await asyncio.to_thread(release.stop, 300)
    answers = await work
    assert (statuses(answers), all(answer.complete for answer in answers)) == ({200: 2}, True)
    assert (code, release.left()) == (0, [])
