"""The outermost middleware by hand, message by message: what is too much, too slow or one too many."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from asgi_client import CHAT, JSON, AsgiClient
from engines import assert_no_residue
from small_presets import small_preset
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive, Scope, Send
from virtual_time import on_virtual_time

import headway
from headway.admission.request_context import REQUEST_CONTEXT
from headway.engine.fake import FakeEngine, FakeParams
from headway.http.inference.middleware import AdmissionMiddleware
from headway.http.limits.bounds import MAX_TARGET_BYTES, Bounds
from headway.http.limits.request_limits import BODY, Budget, RequestLimits

TEXT = (b"content-type", b"text/plain")
BOUNDS = Bounds(
    max_header_bytes=2000, max_body_bytes=1000, max_bodies_bytes=2500, body_timeout_s=20.0, min_body_bytes_per_s=10
)

Application = Callable[[Scope, Receive, Send], Any]


async def reading(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that reads its body and returns its length."""
    size = len(await Request(scope, receive).body())
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


async def never(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that must not be asked."""
    raise AssertionError("the application was asked")


class Client(AsgiClient):
    """One client of one server."""

    def __init__(self, server: RequestLimits, pieces: Iterable[bytes] = (), gap_s: float = 0.0) -> None:
        super().__init__(server, *pieces, gap_s=gap_s)
        self.server = server


def server(application: Application = reading, bounds: Bounds = BOUNDS) -> RequestLimits:
    """The middleware around an application."""
    return RequestLimits(application, bounds, Budget(bounds.max_bodies_bytes))


# ---------------------------------------------------------------------- head


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "HEAD", "PUT", "DELETE"])
@pytest.mark.parametrize(
    ("headers", "target", "status"),
    [
        ([(b"x-a", b"1" * 2000)], {}, 431),
        ([(b"x-a", b"b")] * 300, {}, 431),
        ([(b"a" * 2000, b"")], {}, 431),
        ([], {"raw_path": b"/" * (MAX_TARGET_BYTES + 1)}, 414),
        ([], {"raw_path": b"/", "query_string": b"a" * MAX_TARGET_BYTES}, 414),
        ([], {"path": "/" * (MAX_TARGET_BYTES + 1)}, 414),
    ],
    ids=["one value", "many fields", "one name", "path", "query", "path without raw path"],
)
@on_virtual_time
async def test_a_head_over_its_bound_reaches_no_application(
    method: str, headers: list[tuple[bytes, bytes]], target: dict[str, Any], status: int
) -> None:
    """431 and 414 for each method, before any header is parsed."""
    client = Client(server(never))
    assert await client.ask(*headers, method=method, **target) == status
    assert len(client.body) < 300


@on_virtual_time
async def test_a_head_at_its_bound_passes() -> None:
    """Not one byte less than the bound."""
    for value_bytes, status in ((2000 - len("x-a") - 4, 200), (2000 - len("x-a") - 3, 431)):
        assert await Client(server(), [b""]).ask((b"x-a", b"1" * value_bytes)) == status
    assert await Client(server(), [b""]).ask(*[(b"a", b"b")] * 128) == 200


@on_virtual_time
async def test_a_websocket_over_a_bound_is_closed_before_it_is_accepted() -> None:
    """The server makes a 403 of it; within the bounds it passes untouched."""
    client = Client(server(never))
    await client.ask((b"x-a", b"1" * 2000), type="websocket")
    assert [(message["type"], message["code"]) for message in client.sent] == [("websocket.close", 1009)]
    seen: list[Any] = []

    async def application(*arguments: Any) -> None:
        seen.append(arguments)

    whole = {"type": "websocket", "path": "/", "headers": []}
    await server(application)(whole, client.receive, client.send)
    assert seen == [(whole, client.receive, client.send)]


# ---------------------------------------------------------------------- size


@pytest.mark.parametrize("kind", [JSON, TEXT, (b"content-type", b"multipart/form-data; boundary=x"), (b"x-a", b"")])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "GET", "DELETE"])
@on_virtual_time
async def test_what_comes_in_many_pieces_is_bounded_as_a_whole(method: str, kind: tuple[bytes, bytes]) -> None:
    """Of every content type and method: 413, and the application has not seen more than the bound."""
    seen: list[int] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] == "http.request":
            seen.append(len(message["body"]))

    client = Client(server(application), [b"1" * 300] * 1000)
    assert await client.ask(kind, method=method) == 413
    assert sum(seen) <= 1000
    assert client.took_bytes == 1200
    assert client.server.budget.held_bytes == 0


@pytest.mark.parametrize("length", [b"1001", b"0001001", b"9" * 5000, b" 5000 "])
@on_virtual_time
async def test_a_declared_length_over_the_bound_is_refused_unread(length: bytes) -> None:
    """413, and nothing is read or reserved."""
    limits = server(never, Bounds(max_body_bytes=1000, max_header_bytes=9000))
    client = Client(limits, [b"1" * 5000])
    assert await client.ask(JSON, (b"content-length", length)) == 413
    assert (client.took_bytes, limits.budget.held_bytes) == (0, 0)
    assert json.loads(client.body)["error"]["code"] == "body_too_large"


@pytest.mark.parametrize("length", [b"\xb2", b"-1", b"", b"1e9", b"0000000000000000000000000012", b" 12 "], ids=repr)
@on_virtual_time
async def test_a_length_that_is_no_number_or_a_small_one_refuses_nothing(length: bytes) -> None:
    """The bytes count; zeros and blanks do not make a number a large one."""
    assert await Client(server(), [b"{}"]).ask(JSON, (b"content-length", length)) == 200


@on_virtual_time
async def test_a_body_arrives_unchanged_and_json_in_one_piece() -> None:
    """Byte for byte; of another kind piece by piece, as it comes."""
    got: list[bytes] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        got.extend([chunk async for chunk in Request(scope, receive).stream() if chunk])

    for kind in (JSON, TEXT):
        await Client(server(application), [b'{"a"', b": 1", b"}"]).ask(kind)
    assert got == [b'{"a": 1}', b'{"a"', b": 1", b"}"]


@on_virtual_time
async def test_a_body_too_costly_to_parse_reaches_no_application() -> None:
    """400 after the first pieces of it; the rest is not waited for."""
    limits = server(bounds=Bounds())
    client = Client(limits, [b"{}," * 10_000] * 1000)
    assert await client.ask(JSON) == 400
    assert client.took_bytes <= 60_000
    assert json.loads(client.body)["error"]["code"] == "body_too_complex"
    assert limits.budget.held_bytes == 0


# ---------------------------------------------------------------------- time


@pytest.mark.parametrize("kind", [JSON, TEXT])
@on_virtual_time
async def test_two_hundred_bodies_that_drip_are_all_gone_in_time(kind: tuple[bytes, bytes]) -> None:
    """A byte a second, a tenth of the rate: 408 and connection: close, soon after the first allowance."""
    limits = server(bounds=replace(BOUNDS, max_bodies_bytes=10_000))
    clients = [Client(limits, [b"1"] * 900, gap_s=1.0) for _ in range(200)]
    assert await asyncio.gather(*(client.ask(kind) for client in clients)) == [408] * 200
    assert {client.headers["connection"] for client in clients} == {"close"}
    assert 20.0 <= asyncio.get_running_loop().time() <= 20.0 / (1 - 0.1) + 1
    assert limits.budget.held_bytes == 0


@on_virtual_time
async def test_a_body_that_stops_is_gone_in_time_however_much_of_it_came() -> None:
    """Bytes buy time, but no more than the first allowance: a client that sent much and then nothing has 20 s."""
    client = Client(server(), [b"1" * 900])
    client.finishes = False
    assert await client.ask(TEXT) == 408
    assert asyncio.get_running_loop().time() == pytest.approx(20.0)


@on_virtual_time
async def test_a_slow_body_at_the_least_rate_is_served() -> None:
    """Ten bytes a second take 100 s for a whole body, and get them."""
    assert await Client(server(), [b"1" * 10] * 100, gap_s=1.0).ask(JSON) == 200
    assert asyncio.get_running_loop().time() == pytest.approx(100, abs=2)


@on_virtual_time
async def test_only_the_clients_time_counts() -> None:
    """An application that takes an hour between two reads costs the client nothing, nor does a long answer."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        for _ in range(3):
            await asyncio.sleep(3600)
            assert (await receive())["type"] == "http.request"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        assert (await receive())["type"] == "http.disconnect"

    client = Client(server(application), [b"1"] * 3)
    asyncio.get_running_loop().call_later(100_000, client.leaves.set)
    assert await client.ask(TEXT) == 200
    assert asyncio.get_running_loop().time() == pytest.approx(100_000)


@on_virtual_time
async def test_an_answer_that_has_begun_is_not_answered_a_second_time() -> None:
    """A refusal in the middle of an answer: nothing more is sent, and the application gets a disconnect."""
    heard: list[str] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not heard or heard[-1] == "http.request":
            heard.append((await receive())["type"])
        await send({"type": "http.response.body", "body": b"the end"})

    client = Client(server(application), [b"1" * 600] * 3)
    assert await client.ask(TEXT) == 200
    assert heard == ["http.request", "http.disconnect"]
    assert client.body == b""


# ---------------------------------------------------------------------- all bodies together


def unfinished(limits: RequestLimits, size: int, kind: tuple[bytes, bytes] = JSON) -> tuple[Client, asyncio.Task[int]]:
    """A client that has sent its body but for its end."""
    client = Client(limits, [b"1" * size])
    client.finishes = False
    return client, asyncio.create_task(client.ask(kind))


@pytest.mark.parametrize("kind", [JSON, TEXT])
@on_virtual_time
async def test_past_the_bound_of_all_bodies_a_new_request_gets_retry_after(kind: tuple[bytes, bytes]) -> None:
    """503 with Retry-After and the reason; bodies under way are kept, and their bytes are free afterwards."""
    limits = server()
    first = [unfinished(limits, 800, kind) for _ in range(3)]
    await asyncio.sleep(1)
    assert limits.budget.held_bytes == 2400
    late = Client(limits, [b"1" * 101])
    assert await late.ask(kind) == 503
    assert (late.headers["x-headway-reason"], late.headers["retry-after"]) == ("bodies_full", "2")
    assert json.loads(late.body)["error"]["code"] == "bodies_full"
    assert limits.budget.held_bytes == 2400
    assert await Client(limits, [b"1" * 100]).ask(kind) == 200
    assert [await task for _, task in first] == [408] * 3
    assert limits.budget.held_bytes == 0


@on_virtual_time
async def test_a_declared_length_reserves_nothing() -> None:
    """No client blocks others with a large Content-Length."""
    limits = server()
    waiting = [Client(limits) for _ in range(50)]
    tasks = [asyncio.create_task(client.ask(JSON, (b"content-length", b"1000"))) for client in waiting]
    await asyncio.sleep(1)
    assert await Client(limits, [b"1" * 1000]).ask(JSON) == 200
    assert await asyncio.gather(*tasks) == [408] * 50


@pytest.mark.parametrize("end", ["answered", "disconnected", "cancelled", "failed", "disconnected unread"])
@pytest.mark.parametrize("kind", [JSON, TEXT])
@on_virtual_time
async def test_what_was_held_is_free_once_on_every_way_out(end: str, kind: tuple[bytes, bytes]) -> None:
    """Answered, disconnected, cancelled, failed or never read: never kept, never released twice."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if end == "disconnected unread":
            await reading(scope, _nothing, send)
            return
        try:
            await reading(scope, receive, send)
        except ClientDisconnect:
            return
        if end == "failed":
            raise RuntimeError("a handler's own fault")

    limits = server(application)
    limits.budget.take(7)  # of another request
    client = Client(limits, [b"1" * 400, b"1" * 400], gap_s=1.0)
    client.finishes = end in ("answered", "failed")
    asking = asyncio.create_task(client.ask(kind))
    await asyncio.sleep(2.5)
    if end in ("disconnected", "cancelled"):
        assert limits.budget.held_bytes == 807
    client.leaves.set()
    if end == "cancelled":
        asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    assert limits.budget.held_bytes == 7


async def _nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


@on_virtual_time
async def test_a_queued_request_is_no_longer_on_its_way() -> None:
    """From the desk on its bytes count there: a full queue does not block the server. What never queues counts."""
    engine: Any = headway.wrap(FakeEngine(step_s=1.0), small_preset(1, most_waiting=5))
    held: list[int] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await Request(scope, receive).body()
        held.append(limits.budget.held_bytes)
        if scope["path"] == CHAT:
            engine.headway.gateway.reserve(REQUEST_CONTEXT.get(), 1)
            held.append(limits.budget.held_bytes)
            async for _ in engine.generate("p", FakeParams(1), "id"):
                pass
        await reading(scope, _nothing, send)
        held.append(limits.budget.held_bytes)

    limits = server(AdmissionMiddleware(application, preset=lambda: engine.headway.preset))
    assert await Client(limits, [b"1" * 500]).ask(JSON) == 200
    assert await Client(limits, [b"1" * 500]).ask(JSON, path="/tokenize") == 200
    assert held == [500, 0, 0, 500, 500]
    assert limits.budget.held_bytes == 0
    await assert_no_residue(engine.headway)


@on_virtual_time
async def test_what_is_refused_is_free_at_once() -> None:
    """Not only when the application has detected the disconnect."""

    async def slow_to_notice(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] == "http.request":
            pass
        await asyncio.sleep(3600)

    limits = server(slow_to_notice)
    client = Client(limits, [b"1" * 600] * 3)
    asking = asyncio.create_task(client.ask(TEXT))
    await asyncio.sleep(1)
    assert (client.status, limits.budget.held_bytes) == (413, 0)
    await asking


@on_virtual_time
async def test_what_comes_after_the_release_counts_for_its_own_body_only() -> None:
    """A request that is queued before its body is complete holds nothing any more, and is bounded all the same."""
    held: list[int] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] == "http.request":
            if not held:
                scope[BODY].release()
            held.append(limits.budget.held_bytes)

    limits = server(application)
    assert await Client(limits, [b"1" * 400] * 4).ask(TEXT) == 413
    assert held == [0, 0]
    assert limits.budget.held_bytes == 0


@on_virtual_time
async def test_an_application_that_fails_keeps_its_exception() -> None:
    """Other messages are passed on to the server; what follows from Headway's refusal is not."""

    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        raise RuntimeError("a handler's own fault")

    with pytest.raises(RuntimeError, match="own fault"):
        await Client(server(failing), [b"{}"]).ask(JSON)
    assert await Client(server(failing), [b"1" * 1001]).ask(JSON) == 413
