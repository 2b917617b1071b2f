"""The ids of requests: a client's is kept where it is safe, and no two requests have one id in the engine."""

from __future__ import annotations

import string

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from headway.tracing import CURRENT_REQUEST, RequestIds
from headway.tracing.request_ids import MAX_ID_CHARS, identify

TRACE_PARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
ALLOWED = set(string.ascii_letters + string.digits + string.punctuation) - set("\"'\\")
ID = b"x-request-id"


def client_of(*, sent: str | None = None) -> httpx.AsyncClient:
    """A client of an application that answers with the ids it sees, and with an ``X-Request-Id`` if ``sent`` is one."""

    async def ids(request: Request) -> JSONResponse:
        current = CURRENT_REQUEST.get()
        assert current is not None
        headers = {} if sent is None else {"X-Request-Id": sent}
        seen = request.headers.getlist("x-request-id")
        return JSONResponse({"header": seen, "current": [current.request_id, current.engine_id]}, headers=headers)

    app = RequestIds(Starlette(routes=[Route("/", ids)]))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server")


async def test_a_safe_id_of_the_client_is_answered_and_is_part_of_the_engines() -> None:
    """So that a search for it finds vLLM's lines, too."""
    async with client_of() as client:
        answer = await client.get("/", headers={"x-request-id": "order-66"})
    found = answer.json()
    assert answer.headers.get_list("x-request-id") == ["order-66"]
    assert found["current"] == ["order-66", *found["header"]]
    assert found["header"][0].startswith("order-66-")


async def test_without_an_id_there_is_a_new_one() -> None:
    """The same one inside and outside."""
    async with client_of() as client:
        first, second = await client.get("/"), await client.get("/")
    assert first.json()["current"] == [first.headers["x-request-id"], *first.json()["header"]]
    assert first.headers["x-request-id"] != second.headers["x-request-id"]
    assert len(first.headers["x-request-id"]) == 32


async def test_an_id_that_the_application_answers_with_is_replaced() -> None:
    """vLLM adds the engine's id under --enable-request-id-headers."""
    async with client_of(sent="of-the-engine") as client:
        answer = await client.get("/", headers={"x-request-id": "mine"})
    assert answer.headers.get_list("x-request-id") == ["mine"]


async def test_two_clients_with_one_id_never_meet() -> None:
    """Each request has an id of its own in the engine."""
    engine_ids = {identify([(ID, b"same")])[0].engine_id for _ in range(10_000)}
    assert len(engine_ids) == 10_000


@pytest.mark.parametrize(
    "value",
    [b"", b"a b", b'a"b', b"a'b", b"a\\b", b"a\x1b[31m", b"\xc3\xa9", b"a\x7f", b"a" * (MAX_ID_CHARS + 1)],
    ids=repr,
)
def test_an_unsafe_id_is_replaced(value: bytes) -> None:
    """Nothing of it is kept."""
    current, fields = identify([(ID, value)])
    assert current.request_id == current.engine_id
    assert fields == [(ID, current.engine_id.encode())]


@given(st.lists(st.binary(max_size=200), max_size=3))
def test_whatever_is_sent_the_ids_are_safe_and_bounded(values: list[bytes]) -> None:
    """There is one field, of allowed characters; an id that is kept is the one that was sent."""
    current, fields = identify([(b"host", b"a"), *((ID, value) for value in values)])
    assert [field for field in fields if field[0] == ID] == [(ID, current.engine_id.encode())]
    for one in (current.request_id, current.engine_id):
        assert 1 <= len(one) <= MAX_ID_CHARS
        assert set(one) <= ALLOWED
    assert current.request_id == current.engine_id or [current.request_id.encode()] == values


def test_the_trace_of_a_request_is_read() -> None:
    """Of one field; two of them contradict each other."""
    field = (b"traceparent", TRACE_PARENT)
    current, fields = identify([field])
    assert current.trace is not None
    assert current.trace.span_id == "00f067aa0ba902b7"
    assert field in fields
    assert identify([field, field])[0].trace is None
    assert identify([])[0].trace is None


async def test_the_ids_end_with_the_request_even_when_it_fails() -> None:
    """And the lifespan has none."""
    seen: list[object] = []

    async def fails(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(CURRENT_REQUEST.get())
        raise RuntimeError

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        raise AssertionError(message)

    app = RequestIds(fails)
    for scope in ({"type": "lifespan"}, {"type": "websocket", "headers": []}):
        with pytest.raises(RuntimeError):
            await app(scope, receive, send)
    assert seen[0] is None
    assert seen[1] is not None
    assert CURRENT_REQUEST.get() is None
