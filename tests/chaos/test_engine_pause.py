"""Pause and sleep of the engine (vLLM's dev-mode routes): the server is not ready, and the desk holds its tickets."""

from __future__ import annotations

import asyncio

import pytest
import requests
from client_accounting import Client, ClientGroup, mixed
from engine_parts import health, long_form, ready
from running_server import RunningServer, wait_until

#: How it is paused, why it is not ready then, and how it goes on.
WAYS = {
    "keep": ("/pause?mode=keep", ["the engine is paused"], "/resume"),
    "wait": ("/pause?mode=wait", ["the engine is paused"], "/resume"),
    "asleep": ("/sleep?level=1&mode=wait", ["the engine is paused", "the engine is asleep"], "/wake_up"),
    "dozing": ("/sleep?level=0&mode=keep", ["the engine is paused"], "/wake_up?tags=scheduling"),
}


def operator(server: RunningServer) -> dict[str, str]:
    """The header of the operator's token."""
    return {"Authorization": f"Bearer {server.token}"}


def post(server: RunningServer, path: str) -> None:
    """Call one of vLLM's routes that change the engine, as the operator."""
    requests.post(f"{server.url}{path}", headers=operator(server), timeout=120).raise_for_status()


def is_paused(server: RunningServer) -> bool:
    """vLLM's own word."""
    found = requests.get(f"{server.url}/is_paused", headers=operator(server), timeout=20)
    return bool(found.json()["is_paused"])


SAME = long_form("tests/plugin/admission/test_engine_pause has each way, and the others are tried here")


@pytest.mark.parametrize("way", [pytest.param(way, marks=() if way in ("keep", "asleep") else SAME) for way in WAYS])
async def test_tickets_wait_in_the_desk_while_the_engine_does_not_run(chaos: RunningServer, way: str) -> None:
    """Not ready although healthy; no request is dispatched, time-outs occur on time; then all others complete."""
    close, reasons, go_on = WAYS[way]
    before = chaos.status()["engine"]["hangs"]
    group = ClientGroup(chaos, mixed(8))
    load = asyncio.create_task(group.run())
    await asyncio.to_thread(wait_until, lambda: chaos.status()["in_flight"] == 4, "four run")
    await asyncio.to_thread(post, chaos, close)
    try:
        assert chaos.not_ready() == reasons
        assert (health(chaos), is_paused(chaos)) == (200, True)
        in_flight = chaos.status()["in_flight"]
        patient, hasty = Client(100, "normal", False, 10), Client(101, "realtime", False, 10)
        group.clients += [patient, hasty]
        late = asyncio.create_task(ClientGroup(chaos, [patient]).run())
        await ClientGroup(chaos, [hasty]).run()
        assert (hasty.status, hasty.reason) == (503, "queue_timeout")
        scrape = chaos.scrape()
        assert chaos.status()["in_flight"] == in_flight
        in_engine = scrape("vllm:num_requests_running") + scrape("vllm:num_requests_waiting")
        assert in_engine <= in_flight  # its first step may have taken fewer than the four
        assert scrape("headway_ready") == 0
        assert scrape("headway_queue_depth", **{"class": "normal"}) >= 1
    finally:
        await asyncio.to_thread(post, chaos, go_on)
    assert chaos.not_ready() == []
    await asyncio.gather(load, late)
    assert {client.verdict for client in group.clients if client is not hasty} == {"completed"}
    assert chaos.status()["engine"]["hangs"] == before


@long_form("tests/plugin/admission finds it with a fake engine")
def test_an_engine_that_replaces_a_paused_one_is_not_paused(chaos: RunningServer) -> None:
    """Its pause ends with it."""
    post(chaos, "/pause")
    assert chaos.not_ready() == ["the engine is paused"]
    assert chaos.admin("POST", "recycle", json={"reason": "test"}).status_code == 202
    wait_until(lambda: ready(chaos), "another engine serves", 120)
    assert not is_paused(chaos)
