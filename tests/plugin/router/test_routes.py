"""The forwarded routes: what of a request reaches the engine of the router, and which requests it does not take.

Routes and requests are real; the engine is a stand-in that keeps what it is asked for.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from asgi_client import AsgiClient
from starlette.applications import Starlette

from headway.admission import REQUEST_CONTEXT, RequestContext
from headway.openai.asked import Asked, read_asked
from headway.openai.routes import ROUTES, Seats, route_at
from headway.router.endpoint import ForwardEndpoint
from headway.router.forwarding.forwarded import CallParams, Forwarded, Piece
from headway_policies.routing import Demand

JSON = {"content-type": "application/json"}
SEATED = [route.path for route in ROUTES if route.seats in (Seats.EACH, Seats.ONE)]
UNSEATED = [
    ("GET", "/v1/models"), ("GET", "/v1/models/{model:path}"), ("GET", "/version"),
    ("POST", "/tokenize"), ("POST", "/detokenize"), ("POST", "/v1/messages/count_tokens"),
]  # fmt: skip


@dataclass
class Engine:
    """Answers each request in two pieces, and keeps it."""

    fetched: list[Forwarded] = field(default_factory=list)
    generated: list[tuple[Forwarded, CallParams, Demand]] = field(default_factory=list)

    async def fetch(self, request: Forwarded) -> AsyncGenerator[Piece, None]:
        self.fetched.append(request)
        async for piece in self._pieces():
            yield piece

    async def generate(
        self, prompt: Forwarded, params: CallParams, request_id: str, *, demand: Demand
    ) -> AsyncGenerator[Piece, None]:
        assert len(request_id) == 32
        self.generated.append((prompt, params, demand))
        async for piece in self._pieces():
            yield piece

    async def _pieces(self) -> AsyncIterator[Piece]:
        yield Piece(b"two ", 201, (("content-type", "text/plain"), ("x-own", "1")))
        yield Piece(b"parts", last=True)


async def ask(
    engine: Engine, method: str, target: str, context: RequestContext | None = None, **request: Any
) -> httpx.Response:
    """Send one request, as the middleware hands it on."""
    application = Starlette(routes=ForwardEndpoint(lambda: engine).routes())  # type: ignore[arg-type, return-value]
    token = REQUEST_CONTEXT.set(context)
    try:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=application), base_url="http://router"
        ) as client:
            return await client.request(method, target, **request)
    finally:
        REQUEST_CONTEXT.reset(token)


def asked(path: str, body: bytes) -> RequestContext:
    """The context of a request with this body."""
    return RequestContext(asked=read_asked(route_at(path), body))


@pytest.mark.parametrize("path", SEATED)
async def test_what_takes_a_seat_is_generated(path: str) -> None:
    """By POST only."""
    engine = Engine()
    answer = await ask(engine, "POST", path, RequestContext(), content=b"{}", headers=JSON)
    assert (answer.status_code, answer.text, answer.headers["x-own"]) == (201, "two parts", "1")
    assert (len(engine.generated), engine.fetched) == (1, [])
    assert (await ask(engine, "GET", path, RequestContext())).status_code == 405


@pytest.mark.parametrize(("method", "path"), UNSEATED)
async def test_what_takes_none_is_fetched(method: str, path: str) -> None:
    """Whoever asks."""
    engine = Engine()
    target = path.replace("{model:path}", "a/b")
    assert (await ask(engine, method, target, RequestContext())).text == "two parts"
    assert [(one.method, one.target) for one in engine.fetched] == [(method, target)]
    other = {"GET": "POST", "POST": "GET"}[method]
    assert (await ask(engine, other, target)).status_code == 405


async def test_no_limit_counts_before_the_one_that_is_charged() -> None:
    """``n_predict`` would, to llama.cpp: it is left where it is the only one."""
    engine = Engine()
    for body in ({"max_tokens": 5, "n_predict": 100_000}, {"n_predict": 7}):
        content = json.dumps(body).encode()
        await ask(engine, "POST", "/v1/completions", asked("/v1/completions", content), content=content, headers=JSON)
    assert [json.loads(one.body) for one, _, _ in engine.generated] == [{"max_tokens": 5}, {"n_predict": 7}]


async def test_no_client_ranks_its_request_in_the_engine() -> None:
    """By the body, or by a header that vLLM, its router or a gateway reads: this server alone does."""
    engine = Engine()
    text = b'{"prompt":"say \\"priority\\"","priority":-1000000,"seed":1}'
    plain = b'{"prompt": "say \\"priority\\""}'
    headers = {**JSON, "x-vllm-priority": "-5"}
    for content in (text, plain):
        context = asked("/v1/completions", content)
        await ask(engine, "POST", "/v1/completions", context, content=content, headers=headers)
    (first, _, _), (second, _, _) = engine.generated
    assert json.loads(first.body) == {"prompt": 'say "priority"', "seed": 1}
    assert second.body == plain, "what names none is sent as it came"
    assert not {"x-vllm-priority"} & {name for name, _ in (*first.headers, *second.headers)}


@pytest.mark.parametrize("priority", [-5, 3.0, True, "-5", " 7 ", "1e3"])
@pytest.mark.parametrize("other", ["x", [], {}, ""])
async def test_a_priority_that_is_no_number_is_for_the_instance_to_refuse(priority: object, other: object) -> None:
    """A text that a lenient reader takes goes; the rest is wrong, and the client is told so by the instance."""
    engine = Engine()
    for value in (priority, other):
        body = json.dumps({"prompt": "a", "priority": value}).encode()
        await ask(engine, "POST", "/v1/completions", asked("/v1/completions", body), content=body, headers=JSON)
    (number, _, _), (none, _, _) = engine.generated
    assert json.loads(number.body) == {"prompt": "a"}
    assert json.loads(none.body) == {"prompt": "a", "priority": other}


async def test_what_is_changed_in_a_body_needs_no_second_parse(monkeypatch: pytest.MonkeyPatch) -> None:
    """A priority that goes, and a limit that is added on each try: long texts are copied as they are."""
    engine, content = Engine(), b'{"prompt":"\\u00e9","priority":-5}'
    context = asked("/v1/completions", content)
    with monkeypatch.context() as patch:
        for reader in ("_OBJECT", "json"):
            patch.setattr(f"headway.openai.fields.{reader}", SimpleNamespace(dumps=json.dumps))
        await ask(engine, "POST", "/v1/completions", context, content=content, headers=JSON)
        found = [engine.generated[0][0].at_most(most).body for most in (7, 9)]
    assert found == [b'{"prompt":"\\u00e9","max_tokens":%d}' % most for most in (7, 9)]
    assert not context.asked.fields, "the request alone keeps them"


async def test_the_request_is_forwarded_as_it_came() -> None:
    """Its path and query as they were written, its body, and what this server knows of it."""
    engine = Engine()
    facts = Asked(prompts=2, max_tokens=7, prompt_tokens=30, answers=3, streams=True)
    context = RequestContext("batch", "acme", asked=facts, prefix=(1, 2))

    async def body() -> AsyncIterator[bytes]:
        yield b'{"a":'
        yield b""
        yield b"1}"

    headers = {**JSON, "x-headway-class": "realtime", "x-own": "kept"}
    await ask(engine, "POST", "/v1/completions?b=%41&c", context, content=body(), headers=headers)
    ((request, params, demand),) = engine.generated
    assert (request.method, request.target, request.body) == ("POST", "/v1/completions?b=%41&c", b'{"a":1}')
    assert request.asked is facts
    sent = dict(request.headers)
    assert (sent["x-own"], sent["x-headway-class"], sent["x-headway-tenant"]) == ("kept", "batch", "acme")
    assert params == CallParams(6, 7, stream=True)
    assert demand == Demand(37, 30, (1, 2), 6, "batch")
    assert (context.asked.prompts, context.asked.prompt_bytes) == (1, 7)


async def test_a_path_is_not_decoded() -> None:
    """An instance decodes it itself; a query that is not there is not made up."""
    engine = Engine()
    await ask(engine, "GET", "/v1/models/a%2Fb")
    assert engine.fetched[0].target == "/v1/models/a%2Fb"


@pytest.mark.parametrize(("path", "seats"), [("/v1/embeddings", 1), ("/v1/score", 1), ("/v1/completions", 5)])
async def test_inputs_without_a_growing_sequence_take_one_seat(path: str, seats: int) -> None:
    """However many they are; and a request without a limit has no tokens of an answer."""
    engine = Engine()
    context = RequestContext(asked=Asked(prompts=5, prompt_tokens=9))
    await ask(engine, "POST", path, context, content=b"{}", headers=JSON)
    ((_, params, demand),) = engine.generated
    assert (params.n, demand.seats, demand.tokens, params.max_tokens) == (seats, seats, 9, None)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 201),
        ("application/problem+json", 201),
        ("Application/JSON; charset=utf-8", 201),
        (None, 201),
        ("text/plain", 400),
        ("application/jsonl", 400),
    ],
)
async def test_a_body_that_is_not_json_is_not_taken(kind: str | None, status: int) -> None:
    """No class, size or limit can be read from it; one of no kind is taken for JSON."""
    engine = Engine()
    headers = {} if kind is None else {"content-type": kind}
    answer = await ask(engine, "POST", "/v1/completions", RequestContext(), content=b"{}", headers=headers)
    assert (answer.status_code, len(engine.generated)) == (status, int(status == 201))
    if status == 400:
        error = answer.json()["error"]
        assert (error["code"], error["param"]) == ("unsupported", "content-type")
        assert "application/json" in error["message"]


async def test_a_sound_is_taken() -> None:
    """As a form."""
    engine = Engine()
    headers = {"content-type": "multipart/form-data; boundary=x"}
    await ask(engine, "POST", "/v1/audio/transcriptions", RequestContext(), content=b"--x--", headers=headers)
    assert engine.generated[0][0].body == b"--x--"


async def test_a_background_response_is_not_taken() -> None:
    """The response would stay on one instance, which nothing here finds again."""
    engine = Engine()
    context = RequestContext(asked=Asked(detached=True))
    answer = await ask(engine, "POST", "/v1/responses", context, content=b"{}", headers=JSON)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "background")
    assert answer.headers["content-type"] == "application/json"
    assert not engine.generated


async def test_a_body_without_its_end_reaches_no_instance() -> None:
    """Its client left, or was answered that the body is wrong: half of it is no request."""
    engine = Engine()
    application = Starlette(routes=ForwardEndpoint(lambda: engine).routes())  # type: ignore[arg-type, return-value]
    client = AsgiClient(application, b'{"a":')
    client.finishes = False
    client.leaves.set()
    token = REQUEST_CONTEXT.set(RequestContext())
    try:
        await client.ask(path="/v1/completions")
    finally:
        REQUEST_CONTEXT.reset(token)
    assert (engine.generated, client.sent) == ([], [])
