"""What the router's engine passes on of an answer, and what it changes in a request."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator

import pytest
from routed_engine import REQUEST, Answers, engine_of, statuses
from virtual_time import on_virtual_time

from headway.openai.asked import read_asked
from headway.openai.routes import route_at
from headway.router import engine as engine_module
from headway.router.addresses import Address
from headway.router.forwarding import tries
from headway.router.forwarding.call import Call, InstanceLostError
from headway.router.forwarding.forwarded import CallParams, Forwarded, Piece
from headway_policies.routing import Demand


class EndlessError(Answers):
    """Instance "a" answers with a stream that begins with an error and goes on for ever; the others as they do."""

    taken = 0

    async def exchange(
        self, address: Address, request: Forwarded, call: Call, prompt_tokens: int
    ) -> AsyncGenerator[Piece, None]:
        status = 200
        while address.name == "a":
            self.taken += 1
            assert self.taken < 100, "it is never cut"
            yield Piece(b'data: {"error": "overloaded"}\n\n', status or None)
            status = 0
        async for piece in super().exchange(address, request, call, prompt_tokens):
            yield piece


@on_virtual_time
async def test_a_refusal_as_a_stream_is_kept_within_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one with an error status: another instance is asked."""
    monkeypatch.setattr(engine_module, "_MAX_REFUSAL_BYTES", 1000)
    client = EndlessError()
    assert await statuses(engine_of(client, "a", "b")) == [200]
    assert 30 < client.taken < 40


def json_pieces(*parts: bytes) -> list[Piece]:
    """A JSON body as it comes, without its end."""
    first, *others = parts
    return [Piece(first, 200, (("content-type", "application/json; charset=utf-8"),)), *map(Piece, others)]


class Breaks(Answers):
    """Those in ``broken`` break off in the middle of a JSON body; all others give all of it."""

    async def exchange(
        self, address: Address, request: Forwarded, call: Call, prompt_tokens: int
    ) -> AsyncGenerator[Piece, None]:
        self.asked.append(address.name)
        for piece in json_pieces(b'{"choices":', b" [" if address.name in self.broken else b" []}"):
            yield piece
        if address.name in self.broken:
            raise InstanceLostError(address.name, sent=True)
        yield Piece(b"", last=True)


@on_virtual_time
async def test_half_a_json_body_is_not_sent() -> None:
    """Another instance is asked, and the client gets one whole body; where that breaks as well it gets none of it."""
    client = Breaks()
    client.broken = {"a"}
    engine = engine_of(client, "a", "b")
    pieces = [piece async for piece in engine.generate(REQUEST, CallParams(), "a", demand=Demand(10))]
    assert (client.asked, b"".join(one.body for one in pieces)) == (["a", "b"], b'{"choices": []}')
    assert [one.status for one in pieces] == [200]
    client.broken = {"a", "b"}
    assert await statuses(engine_of(client, "a", "b"), raises=True) == []


@on_virtual_time
async def test_a_long_json_body_is_sent_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """From a bound on; what came before is sent first."""
    monkeypatch.setattr(tries, "_MAX_HELD_BYTES", 13)
    kept = tries.Held()
    one, two, three = json_pieces(b"0123456789", b"0123", b"4")
    assert [kept.add(one), kept.add(two), kept.add(three)] == [[], [one, two], [three]]
    event = Piece(b"data: {}", 200, (("content-type", "text/event-stream"),))
    assert tries.Held().add(event) == [event], "a stream, whether or not its request was seen to ask for one"


def completion(body: bytes) -> Forwarded:
    """A request with this body, which was read."""
    return Forwarded("POST", "/v1/completions", (), body, read_asked(route_at("/v1/completions"), body))


@on_virtual_time
async def test_a_lower_limit_of_tokens_is_sent() -> None:
    """Where the server has one; otherwise the request as it came."""
    client = Answers(None)
    client.length_s = 0.1
    engine = engine_of(client, "a")
    request = completion(b'{"max_tokens":9}')
    for most in (None, 9, 5):
        pieces = engine.generate(request, CallParams(max_tokens=most), "a", demand=Demand(10, 3))
        assert [piece.status async for piece in pieces] == [200]
    assert [one.body for one in client.requests] == [b'{"max_tokens":9}', b'{"max_tokens":9}', b'{"max_tokens":5}']
    assert client.prompt_tokens == [3, 3, 3]


class OfContext(Answers):
    """Instances of a model with so many tokens, which refuse a limit above them as vLLM does, or with this ``refusal``,
    and a body without a prompt."""

    def __init__(self, tokens: int, refusal: tuple[bytes, int] = (b"bad", 400)) -> None:
        super().__init__()
        self.tokens, self.refusal = tokens, refusal

    async def exchange(
        self, address: Address, request: Forwarded, call: Call, prompt_tokens: int
    ) -> AsyncGenerator[Piece, None]:
        self.requests.append(request)
        content = json.loads(request.body)
        bad = "prompt" not in content or content.get("max_tokens", 0) > self.tokens - len(content["prompt"])
        yield Piece(*(self.refusal if bad else (b"good", 200)))
        yield Piece(b"", last=True)


def limits_sent(client: OfContext) -> list[int | None]:
    """Of all requests since the last look."""
    found = [json.loads(one.body).get("max_tokens") for one in client.requests]
    client.requests.clear()
    return found


@on_virtual_time
async def test_a_cap_is_added_to_a_request_that_names_no_limit() -> None:
    """Unless the model's context is shorter, which is learnt with the first refusal, and from no bad request."""
    client = OfContext(8192)
    engine = engine_of(client, "a")

    async def sent(most: int, text: bytes = b'{"prompt":"a"}') -> tuple[list[int], list[int | None]]:
        pieces = engine.generate(completion(text), CallParams(max_tokens=most), "a", demand=Demand(10, 3))
        return [piece.status async for piece in pieces if piece.status], limits_sent(client)

    assert await sent(16, b'{"a":1}') == ([400], [16, None])
    assert await sent(16) == ([200], [16])
    long = b'{"prompt":"' + 8180 * b"a" + b'"}'
    assert await sent(16, long) == ([200], [16, None]), "its context has less left than the cap"
    assert await sent(16) == ([200], [16]), "which says nothing of a short prompt"
    assert await sent(32_768) == ([200], [None]), "learnt: a context is shorter than cap and prompt together"
    assert await sent(4096) == ([200], [4096])


class OfSizes(OfContext):
    """Instance "a" has a short context, all others a long one."""

    async def exchange(
        self, address: Address, request: Forwarded, call: Call, prompt_tokens: int
    ) -> AsyncGenerator[Piece, None]:
        self.tokens = 8192 if address.name == "a" else 131_072
        self.asked.append(address.name)
        async for piece in super().exchange(address, request, call, prompt_tokens):
            yield piece


@on_virtual_time
async def test_a_cap_that_is_too_large_for_one_instance_stays_for_the_others() -> None:
    """That one alone gets the request as it came, now and later."""
    client = OfSizes(0)
    engine = engine_of(client, "a", "b")
    sent: dict[str, set[int | None]] = {"a": set(), "b": set()}
    for _ in range(6):
        text = b'{"prompt":"a"}'
        held = [
            engine.generate(completion(text), CallParams(max_tokens=32_768), str(number), demand=Demand(10, 3))
            for number in range(2)
        ]
        first = [await anext(pieces) for pieces in held]  # both at once: each instance has one
        assert [piece.status for piece in first] == [200, 200]
        for pieces in held:
            await pieces.aclose()
        for name, limit in zip(client.asked, limits_sent(client), strict=True):
            sent[name].add(limit)
        client.asked.clear()
    assert sent == {"a": {32_768, None}, "b": {32_768}}


@on_virtual_time
async def test_fewest_tokens_above_the_cap_are_lowered_to_it() -> None:
    """vLLM refuses a limit below them: that refusal must not lift the cap, for this request or another one."""
    client = Answers(None)
    client.length_s = 0.1
    engine = engine_of(client, "a")
    for text in (b'{"min_tokens":30000}', b'{"min_tokens":3}', b'{"min_tokens":"x","max_tokens":9}'):
        pieces = engine.generate(completion(text), CallParams(max_tokens=5), "a", demand=Demand(10, 3))
        assert [piece.status async for piece in pieces] == [200]
    assert [json.loads(one.body) for one in client.requests] == [
        {"min_tokens": 5, "max_tokens": 5}, {"min_tokens": 3, "max_tokens": 5}, {"min_tokens": "x", "max_tokens": 5},
    ]  # fmt: skip


@pytest.mark.parametrize("refusal", [(b"bad", 400), (b"TGI's", 422), (b'data: {"error":{"message":"TGI\'s"}}', 200)])
@on_virtual_time
async def test_a_cap_above_the_context_is_refused_once(refusal: tuple[bytes, int]) -> None:
    """Every later request is sent as it came, at once; TGI refuses it by another status, and in a stream."""
    client = OfContext(8192, refusal)
    engine = engine_of(client, "a")
    for expected in ([32_768, None], [None], [None]):
        request = completion(b'{"prompt":"a"}')
        pieces = engine.generate(request, CallParams(max_tokens=32_768), "a", demand=Demand(10, 3))
        assert [piece.status async for piece in pieces if piece.status] == [200]
        assert limits_sent(client) == expected
