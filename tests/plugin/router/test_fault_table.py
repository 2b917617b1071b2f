"""Faults of an instance as a table: what a client gets, after how long, and what the metrics say of the instance.

On a virtual clock. The client of the instances is a stand-in; gate, pool, heartbeat and engine are real.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import partial

import pytest
from engines import installed
from instance_pools import pool_of
from small_presets import small_preset
from virtual_time import on_virtual_time

from headway.admission import loop_time_s
from headway.errors import Refused
from headway.router.adapter import InstancesAdapter
from headway.router.addresses import Address
from headway.router.application import open_seats
from headway.router.engine import InstancesEngine
from headway.router.forwarding.call import Call, InstanceLostError
from headway.router.forwarding.forwarded import CallParams, Forwarded, Headers, Piece
from headway.router.heartbeat import Heartbeat
from headway_policies.routing import Demand

JSON = (("content-type", "application/json"),)
ANSWER_S, NEVER_S = 0.5, 1e9
REFUSALS: dict[str, tuple[int, Headers]] = {
    "401": (401, ()),
    "403": (403, ()),
    "404": (404, ()),
    "429": (429, ()),
    "500": (500, ()),
    "424, TGI's 500": (424, ()),
    "503, it drains": (503, (("x-headway-reason", "draining"),)),
}


@dataclass(frozen=True, slots=True)
class Seen:
    """What the client got, a status or an error; after so many seconds, to a tenth; how the exchanges of the faulty
    instance ended, and whether it is up afterwards.
    """

    got: str
    after_s: float
    ended: dict[str, int]
    up: bool


class Instances:
    """The instances "bad", which has the fault until it is mended, and "good", which has none."""

    def __init__(self, fault: str) -> None:
        self.fault = fault

    def _of(self, address: Address) -> str:
        return self.fault if address.name == "bad" else ""

    async def get(self, address: Address, path: str, within_s: float) -> tuple[int, str]:
        fault = self._of(address)
        if fault in ("gone", "gone for five seconds"):
            raise ConnectionRefusedError
        if fault == "hangs":
            async with asyncio.timeout(within_s):
                await asyncio.sleep(NEVER_S)
        counts = path == "/metrics" and fault != "makes no token, counts none"
        return 200, "vllm:generation_tokens_total 1\n" if counts else ""

    async def exchange(
        self, address: Address, request: Forwarded, call: Call, prompt_tokens: int
    ) -> AsyncGenerator[Piece, None]:
        fault = self._of(address)
        if fault in REFUSALS:
            status, headers = REFUSALS[fault]
            yield Piece(b"no", status, (*JSON, *headers))
            yield Piece(b"", last=True)
            return
        if fault == "says no in a stream":
            yield Piece(b'data: {"error": {"message": "busy"}}\n\n', 200, (("content-type", "text/event-stream"),))
            yield Piece(b"data: [DONE]\n\n", last=True)
            return
        if fault.startswith("gone"):
            raise InstanceLostError(address.name, sent=False)
        if fault == "resets":
            raise InstanceLostError(address.name, sent=True)
        await call.step(asyncio.sleep(NEVER_S if fault == "hangs" or fault.startswith("makes no token") else ANSWER_S))
        yield Piece(b'{"text":', 200, JSON)
        if fault == "breaks off":
            raise InstanceLostError(address.name, sent=True)
        yield Piece(b'"a"}', last=True)


async def seen_with(fault: str, *, alone: bool) -> Seen:
    """One request behind a gate, of which the faulty instance is the first choice."""
    client = Instances(fault)
    names = ("bad",) if alone else ("bad", "good")
    pool = pool_of(*names, heard=False)
    links = pool.links
    engine = InstancesEngine(pool, client)  # type: ignore[arg-type]
    client.fault, later = "", fault  # it has the fault from its first request on
    heartbeat = Heartbeat(engine)
    await heartbeat.once()
    preset = small_preset(seats=4)
    terms = {
        name: one.model_copy(update={"first_token_timeout_s": 20.0, "queue_timeout_s": 8.0})
        for name, one in preset.classes.items()
    }
    _, parts = installed(engine, preset.model_copy(update={"classes": terms}), adapter=InstancesAdapter())
    pool.on_change = partial(open_seats, parts.gateway.gate, pool)
    client.fault = later
    if not alone:
        links["good"].others = 1  # the other one has more free seats
    beating = asyncio.create_task(heartbeat.run())
    if fault == "gone for five seconds":
        asyncio.get_running_loop().call_later(5.0, setattr, client, "fault", "")
    began_s = loop_time_s()
    try:
        got = await _asked(engine)
        after_s = round(loop_time_s() - began_s, 1)
        await asyncio.sleep(1.5)
        (state,) = [one for one in pool.states() if one.name == "bad"]
        return Seen(got, after_s, {how: number for how, number in links["bad"].ended.items() if number}, state.up)
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        parts.tasks.stop_all()


async def _asked(engine: InstancesEngine) -> str:
    status = 0
    try:
        async for piece in engine.generate(
            Forwarded("POST", "/v1/completions", JSON), CallParams(), "a", demand=Demand(10)
        ):
            status = piece.status or status
    except InstanceLostError:
        return "502 instance_lost"
    except Refused as refused:
        return f"{int(refused.status)} {refused.reason.value}"
    return str(status)


REFUSED, LOST, ABORTED = {"refused": 1}, {"lost": 1}, {"aborted": 1}
#: By fault: what is seen beside a healthy instance, and where the faulty one is the only one.
TABLE = {
    "401": (Seen("200", 0.5, REFUSED, up=True), Seen("502 instance_lost", 0.0, REFUSED, up=True)),
    "403": (Seen("200", 0.5, REFUSED, up=True), Seen("403", 0.0, REFUSED, up=True)),
    "404": (Seen("200", 0.5, REFUSED, up=True), Seen("404", 0.0, REFUSED, up=True)),
    "429": (Seen("200", 0.5, REFUSED, up=True), Seen("429", 0.0, REFUSED, up=True)),
    "500": (Seen("200", 0.5, REFUSED, up=True), Seen("500", 0.0, REFUSED, up=True)),
    "424, TGI's 500": (Seen("200", 0.5, REFUSED, up=True), Seen("424", 0.0, REFUSED, up=True)),
    "says no in a stream": (Seen("200", 0.5, REFUSED, up=True), Seen("200", 0.0, REFUSED, up=True)),
    "503, it drains": (Seen("200", 0.5, REFUSED, up=True), Seen("503", 1.0, {"refused": 2}, up=True)),
    "resets": (Seen("200", 0.5, LOST, up=True), Seen("502 instance_lost", 1.0, {"lost": 2}, up=False)),
    "breaks off": (Seen("200", 1.0, LOST, up=True), Seen("502 instance_lost", 2.5, {"lost": 2}, up=True)),
    "makes no token": (
        Seen("504 first_token_timeout", 20.0, ABORTED, up=True),
        Seen("504 first_token_timeout", 20.0, ABORTED, up=True),
    ),
    "makes no token, counts none": (
        Seen("504 total_timeout", 60.0, ABORTED, up=True),
        Seen("504 total_timeout", 60.0, ABORTED, up=True),
    ),
    "hangs": (Seen("200", 11.5, LOST, up=False), Seen("504 first_token_timeout", 20.0, LOST, up=False)),
    "gone": (Seen("200", 0.5, LOST, up=False), Seen("504 first_token_timeout", 20.0, LOST, up=False)),
    "gone for five seconds": (
        Seen("200", 0.5, LOST, up=False),
        Seen("200", 5.5, {"lost": 1, "answered": 1}, up=True),
    ),
}


@pytest.mark.parametrize("fault", TABLE)
@pytest.mark.parametrize("alone", [False, True], ids=["beside a healthy one", "alone"])
@on_virtual_time
async def test_a_fault_of_an_instance_is_answered_as_the_table_says(fault: str, alone: bool) -> None:
    """The client gets its answer from the healthy one, or an error that is true, and the instance is judged by it."""
    assert await seen_with(fault, alone=alone) == TABLE[fault][alone]
