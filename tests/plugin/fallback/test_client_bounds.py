"""Bounds of the fallback client: of an answer, an event, a stream's time, and of all exchanges together."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest
from fallback_calls import request, send_on, upstream
from until import until
from upstream_stand_in import CHUNKS, DONE, elsewhere

from headway.admission.diversion import EngineCall, NotServedError
from headway.fallback import OtherEngine
from headway.fallback.answer import ForwardResult
from headway.fallback.client import (
    TRACING_CHARS,
    FallbackClient,
    _Held,
)
from headway.fallback.settings import FallbackSettings
from headway_policies.fallback.circuit_breaker import BreakerState


async def test_an_answer_up_to_the_bound_comes_back_whole() -> None:
    """16 MiB, however many pieces they come in; one byte more is not kept."""
    body = b'{"a":"' + b"x" * (16 * 1024 * 1024 - 8) + b'"}'
    for tried, expected in ((body, ForwardResult.SERVED), (body + b" ", ForwardResult.NOT_SERVED)):
        async with elsewhere(body=tried) as other, upstream(other) as way:
            hop, client = await send_on(way, request())
        assert (hop, len(client.body)) == (expected, len(body) if expected is ForwardResult.SERVED else 0)
        assert client.body in (b"", body)


async def test_the_bound_on_an_event_is_none_on_the_stream() -> None:
    """Four events of 300 kB each come through a bound of 1 MiB."""
    event = b'data: {"a":"' + b"x" * 300_000 + b'"}\n\n'
    async with elsewhere(pieces=[event] * 4 + [DONE]) as other, upstream(other) as way:
        hop, client = await send_on(way, request(stream=True))
    assert (hop, len(client.body)) == (ForwardResult.SERVED, 4 * len(event) + len(DONE))


@pytest.mark.slow
async def test_a_stream_that_drags_on_ends_at_its_time_out() -> None:
    """The request's own time-out holds where it is the shorter one; half an event is never handed on."""
    pieces = [CHUNKS[0], b"data: {", b'"half']
    async with elsewhere(pieces=pieces, between_s=30.0) as other, upstream(other, timeout_s=60.0) as way:
        hop, client = await asyncio.wait_for(send_on(way, request(stream=True), timeout_s=3.0), 20)
    assert hop is ForwardResult.BROKEN_OFF
    assert client.body.startswith(CHUNKS[0] + b'data: {"error"')


async def test_a_request_in_a_hurry_says_nothing_of_the_model() -> None:
    """However many clients give it less time than it takes, the others keep it; its own time-out counts against it."""
    async with elsewhere(wait_s=0.5) as other, upstream(other, timeout_s=10.0) as way:
        for _ in range(5):
            assert (await send_on(way, request(), timeout_s=0.05))[0] is ForwardResult.NOT_SERVED
        assert (await send_on(way, request()))[0] is ForwardResult.SERVED
    async with elsewhere(wait_s=30.0) as other, upstream(other, timeout_s=0.1) as way:
        for _ in range(3):
            assert (await send_on(way, request()))[0] is ForwardResult.NOT_SERVED
        assert way.breaker.state is BreakerState.OPEN


async def test_a_host_that_takes_no_connection_counts_against_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also for requests with less time than the model may take: theirs is not over."""
    monkeypatch.setattr("headway.fallback.client._CONNECT_S", 0.1)
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        way = FallbackClient(FallbackSettings(f"http://127.0.0.1:{full.getsockname()[1]}/v1", "m"))
        for _ in range(3):
            assert (await send_on(way, request(), timeout_s=20.0))[0] is ForwardResult.NOT_SERVED
        assert way.breaker.state is BreakerState.OPEN
        await way.close()
        for one in waiting:
            one.close()


async def test_a_call_in_a_hurry_says_nothing_of_another_engine() -> None:
    """As for a model behind HTTP: only what the engine itself does counts against it."""

    async def slow(*arguments: object, **options: object) -> AsyncIterator[str]:
        await asyncio.sleep(0.2)
        yield "here"

    engine = OtherEngine(slow)
    call = EngineCall("prompt", None, "a", {}, {})
    for _ in range(5):
        with pytest.raises(NotServedError):
            await anext(engine.serve(call, 0.01))
    assert [output async for output in engine.serve(call, None)] == ["here"]


async def test_an_endless_event_is_not_kept() -> None:
    """The bound on one event holds before anything was sent."""
    async with elsewhere(pieces=[b"data: " + b"x" * 600_000] * 3) as other, upstream(other) as way:
        assert (await send_on(way, request(stream=True)))[0] is ForwardResult.NOT_SERVED


async def test_a_slow_model_holds_a_bounded_number() -> None:
    """Beyond that the answer is Headway's, at once; and an exchange that is cancelled leaves no state."""
    async with elsewhere(wait_s=30.0) as other, upstream(other, most_at_once=2) as way:
        held = [asyncio.create_task(send_on(way, request())) for _ in range(2)]
        await until(lambda: len(other.seen) == 2)
        assert (await asyncio.wait_for(send_on(way, request()), 1))[0] is ForwardResult.NOT_SERVED
        for task in held:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)
        assert way.in_flight == 0
        assert way.breaker.state is BreakerState.CLOSED


async def test_all_exchanges_together_hold_a_bounded_number_of_bytes() -> None:
    """An answer without room stays here, and the bytes held are given back, however an exchange ends."""
    large = request(more="x" * 1_000_000)
    async with elsewhere(wait_s=30.0) as other, upstream(other) as way:
        way._held = _Held(2_500_000)
        held = [asyncio.create_task(send_on(way, large)) for _ in range(2)]
        await until(lambda: len(other.seen) == 2)
        assert (await asyncio.wait_for(send_on(way, large), 5))[0] is ForwardResult.NOT_SERVED
        assert 2_000_000 < way._held.size_bytes < 2_500_000
        for task in held:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)
        assert way._held.size_bytes == 0


async def test_an_answer_without_room_is_not_kept() -> None:
    """The bound on all exchanges holds for answers as well; afterwards all of it is free again."""
    async with elsewhere(body=b'{"a":"' + b"x" * 1_000_000 + b'"}') as other, upstream(other) as way:
        way._held = _Held(900_000)
        assert (await send_on(way, request()))[0] is ForwardResult.NOT_SERVED
        way._held = _Held(1_100_000)
        assert (await send_on(way, request()))[0] is ForwardResult.SERVED
        assert way._held.size_bytes == 0


async def test_headers_that_trace_go_along_within_their_bounds() -> None:
    """An id that is longer, or not plain text, is not forwarded: it would appear in the logs of two servers."""
    for name, most in TRACING_CHARS.items():
        for value, goes in (("a" * most, True), ("a" * (most + 1), False), ("\x9b31m", False), ("", False)):
            async with elsewhere() as other, upstream(other) as way:
                await send_on(way, request(), headers={name: value})
                assert (other.seen[0][1].get(name) == value) is goes
