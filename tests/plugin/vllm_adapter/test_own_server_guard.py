"""What an API server behind a queue has in place of a gate: a fast end, the class as priority, checks."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message

from headway.engine import Invalid
from headway.errors import Refused, refusal
from headway.vllm_adapter.engine_adapter import CallBounds
from headway.vllm_adapter.grammars.guard import GrammarTooLargeError
from headway.vllm_adapter.own_server_checks import Call, DeferredStream
from headway.vllm_adapter.own_server_guard import EndWithEngine, OwnServerGuard
from headway_policies import Reason


class Engine:
    """As much of an AsyncLLM as an API server uses; ``asked`` are the priorities of its calls."""

    def __init__(self) -> None:
        self.errored = False
        self.asked: list[int] = []

    async def generate(self, prompt: str, params: Any, *, priority: int = 0) -> AsyncGenerator[str, None]:
        self.asked.append(priority)
        yield prompt

    encode = generate


class Checks:
    """A guard that refuses the grammar "large", and keeps the tenants that asked."""

    def __init__(self) -> None:
        self.tenants: list[str] = []

    async def check(self, params: Any, tenant: str) -> None:
        self.tenants.append(tenant)
        if params.structured_outputs == "large":
            raise GrammarTooLargeError("too large")
        if params.structured_outputs == "one more":
            raise refusal(Reason.QUEUE_FULL, 1)


@pytest.fixture
def checks() -> Checks:
    """The guard of grammars."""
    return Checks()


@pytest.fixture
def served(checks: Checks) -> tuple[Engine, Starlette]:
    """An engine and the application of its API server."""
    engine = Engine()

    async def generate(request: Request) -> Response:
        """With the priority that the client names, as vLLM's own routes do."""
        params = SimpleNamespace(structured_outputs=request.query_params.get("grammar"), prompt_logprobs=None)
        try:
            return JSONResponse([output async for output in engine.generate("a", params, priority=7)])
        except Exception as error:
            return JSONResponse(type(error).__name__, 400)

    app = Starlette(routes=[Route("/generate", generate)])
    OwnServerGuard(app).serve(engine, CallBounds(100, checks))  # type: ignore[arg-type]  # a guard as far as it is asked
    return engine, app


def client_of(app: Any, **headers: str) -> httpx.AsyncClient:
    """A client that sends these headers."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://a", headers=headers)


async def test_the_priority_is_the_one_of_the_desk(served: tuple[Engine, Starlette]) -> None:
    """A client's priority counts only where the desk says nothing: for a request without a class."""
    engine, app = served
    for said in ({"x-headway-priority": "2"}, {"x-headway-priority": "0"}, {}, {"x-headway-priority": "-1"}):
        async with client_of(app, **said) as client:
            assert (await client.get("/generate")).json() == ["a"]
    assert engine.asked == [2, 0, 7, 7]


async def test_what_the_engine_must_not_have_ends_before_it(served: tuple[Engine, Starlette], checks: Checks) -> None:
    """In the name of the tenant that the desk names, as an error that vLLM's routes answer."""
    engine, app = served
    async with client_of(app, **{"x-headway-tenant": "acme"}) as client:
        answers = [(await client.get(f"/generate?grammar={size}")).json() for size in ("small", "large", "one%20more")]
    assert answers == [["a"], "VLLMValidationError", "VllmRefused"]
    assert (checks.tenants, engine.asked) == (["acme"] * 3, [7])


START: Message = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]}
PART: Message = {"type": "http.response.body", "body": b"data: {}", "more_body": True}
LAST: Message = {"type": "http.response.body", "body": b""}


async def streamed(wrong: Invalid | Refused | None, *messages: Message, begun: bool = False) -> list[Message]:
    """What a client gets of these messages of an application, which then ends."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    held = DeferredStream(Call(begun=begun, wrong=wrong), "/v1/completions", send)
    for part in messages:
        await held.send(part)
    await held.finish()
    return sent


@pytest.mark.parametrize("messages", [(START,), (START, PART), (START, PART, LAST), (START, LAST)])
async def test_a_stream_that_is_refused_before_it_has_output_has_a_status(messages: tuple[Message, ...]) -> None:
    """Whether the application sends an event for it or breaks off."""
    invalid = await streamed(Invalid(400, "too large", "structured_outputs"), *messages)
    refused = await streamed(refusal(Reason.QUEUE_FULL, 3), *messages)
    assert [message.get("status") for message in (*invalid, *refused)] == [400, None, 429, None]
    assert b"structured_outputs" in invalid[1]["body"]
    assert dict(refused[0]["headers"])[b"retry-after"] == b"3"


async def test_any_other_response_passes_as_it_is() -> None:
    """Streams once there is output or at their end, and whole answers at once, also those of an error."""
    plain = START | {"headers": [(b"content-type", b"application/json")]}
    wrong = Invalid(400, "too late")
    assert await streamed(None, START, PART) == []
    assert await streamed(None, START, PART, LAST) == [START, PART, LAST]
    assert await streamed(wrong, START, PART, begun=True) == [START, PART]
    assert await streamed(wrong, plain, PART, LAST) == [plain, PART, LAST]
    assert await streamed(wrong, START | {"status": 400}, LAST) == [START | {"status": 400}, LAST]


class Ended(Exception):
    """In place of the end of the process."""


async def test_the_process_ends_before_it_answers_for_a_dead_engine() -> None:
    """The queue sees a connection that broke, and not an answer that would be passed on."""
    dead = False
    sent: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal dead
        await send({"type": "http.response.start", "status": 200, "headers": []})
        dead = True
        await send({"type": "http.response.body", "body": b"EngineDeadError"})

    def end(code: int) -> None:
        assert code != 0
        raise Ended

    async def send(message: Any) -> None:
        sent.append(message["type"])

    scope = {"type": "http", "path": "/", "headers": []}
    with pytest.raises(Ended):
        await EndWithEngine(app, dead=lambda: dead, end=end)(scope, _nothing, send)
    assert sent == ["http.response.start"]


async def _nothing() -> Any:
    return {"type": "http.disconnect"}
