"""The middleware by hand, message by message: early and late disconnects, lazy streams, and messages it must not
change."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from asgi_client import CHAT, JSON, AsgiClient
from engines import TrippingEngine, assert_no_residue, outcomes
from small_presets import small_preset, terms
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Message, Receive, Scope, Send
from virtual_time import on_virtual_time

import headway
from headway.admission.request_context import REQUEST_CONTEXT
from headway.engine.fake import FakeParams
from headway.errors import UnknownClassError
from headway.http.inference.middleware import AdmissionMiddleware, _never_generates
from headway_policies import Ending

Answer = Callable[[Any, Request], Response]


def lazy_stream(engine: Any, request: Request) -> Response:
    """A stream that asks for its ticket only after its response has begun, as Starlette's do."""

    async def events() -> AsyncIterator[str]:
        async for output in engine.generate("p", FakeParams(4), "id"):
            yield f"data: {len(output.tokens)}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


class Visit(AsgiClient):
    """One request to a middleware around an application, and everything that was sent back."""

    def __init__(self, application: Callable[[Scope, Receive, Send], Any]) -> None:
        self.engine: Any = headway.wrap(TrippingEngine(step_s=1.0), small_preset(1, most_waiting=1))
        self.control: headway.Control = self.engine.headway
        self.middleware = AdmissionMiddleware(application, preset=lambda: self.control.preset)
        super().__init__(self.middleware, b"{}")

    @classmethod
    def answering(cls, answer: Answer) -> Visit:
        """To an application that answers each request with this response."""

        async def application(scope: Scope, receive: Receive, send: Send) -> None:
            await answer(visit.engine, Request(scope, receive))(scope, receive, send)

        visit = cls(application)
        return visit


@on_virtual_time
async def test_a_root_path_hides_no_request() -> None:
    """An application below /headway generates as any other, and its requests are read."""
    visit = Visit.answering(lazy_stream)
    unknown = (b"x-headway-class", b"nonsense")
    await visit.ask(JSON, unknown, path=f"/headway{CHAT}", root_path="/headway")
    assert (visit.status, visit.error["code"]) == (400, "unknown_class")


@on_virtual_time
async def test_nothing_is_sent_before_the_first_token_and_everything_at_once_after() -> None:
    """The response begins with its first token, and each later token goes out as it comes."""
    visit = Visit.answering(lazy_stream)
    await visit.ask(JSON)
    assert REQUEST_CONTEXT.get() is None
    assert [message["type"] for message in visit.sent][:2] == ["http.response.start", "http.response.body"]
    assert visit.sent_s[:5] == pytest.approx([1.0, 1.0, 2.0, 3.0, 4.0], abs=0.01)
    assert visit.body == b"data: 1\n\ndata: 2\n\ndata: 3\n\ndata: 4\n\n"
    await assert_no_residue(visit.control)


@pytest.mark.parametrize("leaves_s", [0.0, 0.5], ids=["at once", "while waiting"])
@on_virtual_time
async def test_a_disconnect_while_waiting_frees_its_place(leaves_s: float) -> None:
    """Disconnected before dispatch: the place in the queue is free, the engine never got the request."""
    visit = Visit.answering(lazy_stream)
    holder = visit.control.gateway.gate.enter()
    visiting = asyncio.create_task(visit.ask(JSON))
    await asyncio.sleep(leaves_s)
    visit.leaves.set()
    await visiting
    assert visit.control.gateway.gate.desk.ledger.queued == 0
    holder.leave(Ending.COMPLETED)
    await assert_no_residue(visit.control)
    assert visit.engine.started == []
    assert outcomes(visit.control) == {"cancelled_queued": 1, "completed": 1}


@on_virtual_time
async def test_a_task_of_the_server_that_is_cancelled_settles_its_request() -> None:
    """A server that cancels the whole request, while it waits or runs, leaves nothing behind."""
    visit = Visit.answering(lazy_stream)
    both = visit, AsgiClient(visit.middleware, b"{}")
    visiting = [asyncio.create_task(one.ask(JSON)) for one in both]
    await asyncio.sleep(1.5)
    for task in reversed(visiting):
        task.cancel()
    await asyncio.gather(*visiting, return_exceptions=True)
    await assert_no_residue(visit.control)
    assert outcomes(visit.control) == {"cancelled_running": 1, "cancelled_queued": 1}


@on_virtual_time
async def test_a_disconnect_in_the_middle_of_the_body_is_passed_on() -> None:
    """Half a body, then a disconnect: the application gets it, and no ticket was created."""
    heard: list[str] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        heard.append((await receive())["type"])

    visit = Visit(application)
    visit.pieces, visit.finishes = [b"{"], False
    visit.leaves.set()
    await visit.ask(JSON)
    assert heard == ["http.disconnect"]
    assert outcomes(visit.control) == {}


@on_virtual_time
async def test_time_that_runs_out_while_a_whole_answer_is_being_sent_does_not_spoil_it() -> None:
    """A JSON answer of a declared length that has begun is sent to its end: no event is mixed into it."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        async for _ in visit.engine.generate("p", FakeParams(2), "id"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": [JSON, (b"content-length", b"8")]})
        await send({"type": "http.response.body", "body": b'{"a"', "more_body": True})
        await asyncio.sleep(5.0)
        await send({"type": "http.response.body", "body": b": 1}", "more_body": False})

    visit = Visit(application)
    await visit.ask(JSON, (b"x-request-timeout-seconds", b"3"))
    assert (visit.status, visit.body) == (200, b'{"a": 1}')
    await assert_no_residue(visit.control)
    assert outcomes(visit.control) == {"expired_running": 1}


@on_virtual_time
async def test_an_unfinished_answer_of_another_kind_is_cut_and_not_finished_falsely() -> None:
    """A stream that is no event stream has no place for an error: the exception goes on to the server."""

    def lines(engine: Any, request: Request) -> Response:
        async def content() -> AsyncIterator[str]:
            async for output in engine.generate("p", FakeParams(50), "id"):
                yield f"{len(output.tokens)}\n"

        return StreamingResponse(content(), media_type="application/x-ndjson")

    visit = Visit.answering(lines)
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - plain or in a group, as Starlette's task group has it
        await visit.ask(JSON, (b"x-request-timeout-seconds", b"3.5"))
    assert "total_timeout" in repr(caught.getrepr())
    assert visit.body == b"1\n2\n3\n"
    assert visit.sent[-1].get("more_body") is not False
    assert visit.middleware.truncated == {"normal": 1}
    await assert_no_residue(visit.control)


@pytest.mark.parametrize(("status", "expected"), [(400, "rejected_invalid"), (500, "failed"), (200, "completed")])
@on_virtual_time
async def test_an_error_of_the_handler_after_the_engine_is_counted_as_its_status_says(
    status: int, expected: str
) -> None:
    """400 from the handler is the client's mistake, and no load; 500 the server's, whatever the engine did before."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        async for _ in visit.engine.generate("p", FakeParams(1), "id"):
            pass
        await JSONResponse({}, status)(scope, receive, send)

    visit = Visit(application)
    await visit.ask(JSON)
    assert outcomes(visit.control) == {expected: 1}
    assert len(visit.control.recording()) == (status != 400)
    assert ("x-headway-class" in visit.headers) == (status == 200)


@pytest.mark.parametrize(
    "scope",
    [
        {"type": "lifespan"},
        {"type": "websocket", "path": CHAT, "headers": []},
        {"type": "http", "method": "GET", "path": CHAT, "headers": []},
        {"type": "http", "method": "POST", "path": "/headway/v1/preset", "headers": []},
    ],
    ids=["lifespan", "websocket", "GET", "the admin API"],
)
@on_virtual_time
async def test_what_cannot_reach_the_engine_is_handed_on_as_it_is(scope: Scope) -> None:
    """The same scope, the same receive, the same send: nothing is wrapped."""
    seen: list[tuple[Any, Any, Any]] = []

    async def application(*arguments: Any) -> None:
        assert REQUEST_CONTEXT.get() is None
        seen.append(arguments)

    async def receive() -> Message:
        raise AssertionError("nobody reads")

    visit = Visit(application)
    send = visit.send
    await visit.middleware(scope, receive, send)
    assert seen == [(scope, receive, send)]


@on_virtual_time
async def test_a_body_that_is_no_json_is_not_read_by_the_entrance() -> None:
    """An upload streams through, piece by piece."""
    sizes: list[int] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        sizes.extend([len(chunk) async for chunk in Request(scope, receive).stream()])

    visit = Visit(application)
    visit.pieces = [b"x" * 9] * 5
    await visit.ask((b"content-type", b"multipart/form-data; boundary=x"))
    assert [size for size in sizes if size] == [9] * 5


@pytest.mark.parametrize("body", [b'{"service_tier": ' + b"[" * 100_000, b'"service_tier"', b"\xff{", b""], ids=len)
@on_virtual_time
async def test_a_broken_body_is_the_applications_to_refuse(body: bytes) -> None:
    """The middleware looks for one word and never fails on the rest; the body goes on unchanged."""
    got: list[bytes] = []

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        got.append(await Request(scope, receive).body())
        await JSONResponse({}, 400)(scope, receive, send)

    visit = Visit(application)
    visit.pieces = [body]
    await visit.ask(JSON)
    assert (visit.status, got) == (400, [body])


@on_virtual_time
async def test_a_reader_that_takes_nothing_is_cut_off_at_its_cap() -> None:
    """Its stream ends a second after its time, its task with it; the engine was done with it long before."""
    visit = Visit.answering(lazy_stream)
    taken = visit.send

    async def full(message: Message) -> None:
        await taken(message)
        if b"data: 2" in message.get("body", b""):
            await asyncio.Event().wait()

    visit.send = full  # type: ignore[method-assign]  # a client whose window is full
    await visit.ask(JSON, (b"x-request-timeout-seconds", b"20"))
    assert asyncio.get_running_loop().time() == pytest.approx(21.25)
    assert outcomes(visit.control) == {"expired_running": 1}
    gc.collect()  # the response's generator is referenced by nothing any more
    await assert_no_residue(visit.control)


@pytest.mark.parametrize("reads", [True, False])
@on_virtual_time
async def test_a_stream_whose_handler_never_ends_it_gets_its_error_event_all_the_same(reads: bool) -> None:
    """A handler that is cut off has sent no end; where the client does not read the event either, the wait is bounded.

    So it is for one that has had no time since: the process stood still for longer than its cap.
    """

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        stream = visit.engine.generate("p", FakeParams(50), "id")
        await anext(stream)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        await asyncio.Event().wait()

    visit = Visit(application)
    taken = visit.send

    async def full(message: Message) -> None:
        await taken(message)
        if b"error" in message.get("body", b""):
            await asyncio.Event().wait()

    if not reads:
        visit.send = full  # type: ignore[method-assign]  # a client whose window is full
    await visit.ask(JSON, (b"x-request-timeout-seconds", b"3"))
    assert asyncio.get_running_loop().time() == pytest.approx(4.25 if reads else 5.5)
    assert visit.body.startswith(b"data: 1\n\n")
    assert visit.body.count(b"(total_timeout)") == 1
    assert visit.sent[-1]["more_body"] is False
    assert visit.middleware.truncated == {}
    assert outcomes(visit.control) == {"expired_running": 1}
    await assert_no_residue(visit.control)


@on_virtual_time
async def test_a_stream_whose_handler_fails_is_counted_as_one_without_an_end() -> None:
    """Nothing can be sent in its place that its client would take for a whole answer."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await lazy_stream(visit.engine, Request(scope, receive)).body_iterator.__anext__()  # type: ignore[attr-defined]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        raise ZeroDivisionError

    visit = Visit(application)
    with pytest.raises(ZeroDivisionError):
        await visit.ask(JSON)
    assert visit.middleware.truncated == {"normal": 1}


@on_virtual_time
async def test_a_time_out_is_sent_though_the_engine_never_answers() -> None:
    """A handler stuck in an engine that neither yields nor ends is cut off, and the client has its 504."""

    async def stuck(engine: Any) -> JSONResponse:
        stream = engine.generate("p", FakeParams(4), "id")
        await anext(stream)
        return JSONResponse({})

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await (await stuck(visit.engine))(scope, receive, send)

    visit = Visit(application)
    visit.engine.add_s = 1e6
    await visit.ask(JSON, (b"x-request-timeout-seconds", b"3"))
    assert asyncio.get_running_loop().time() == pytest.approx(4.25)
    assert (visit.status, visit.headers["x-headway-reason"]) == (504, "total_timeout")
    assert outcomes(visit.control) == {"expired_running": 1}


@on_virtual_time
async def test_a_class_that_a_switch_takes_away_meanwhile_fails_no_request() -> None:
    """The request is read under one preset and seated under another: it is of the default class, as one that waits.

    A program that names a class is told that there is none.
    """

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        visit.control.gateway.gate.switch(small_preset(1, classes={"only": terms(1)}))
        with pytest.raises(UnknownClassError):
            visit.control.gateway.gate.enter("realtime")
        await lazy_stream(visit.engine, Request(scope, receive))(scope, receive, send)

    visit = Visit(application)
    await visit.ask(JSON, (b"x-headway-class", b"realtime"))
    assert (visit.status, visit.headers["x-headway-class"]) == (200, "only")
    assert outcomes(visit.control) == {"completed": 1}
    await assert_no_residue(visit.control)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/responses/resp_1/cancel", True), ("/v1/responses", False), ("/v1/responses/resp_1", False),
        ("/v1/responses/a/b/cancel", False), ("/v1/messages/count_tokens", True),
    ],
)  # fmt: skip
def test_the_end_of_a_response_is_no_request(path: str, expected: bool) -> None:
    """A tenant at its bound can end what it runs."""
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "root_path": ""}
    assert _never_generates(scope) is expected
