"""The prefix of a prompt in a body, by route, and the order that the middleware and the desk make of it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from generating_site import GeneratingSite
from small_presets import small_preset
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from virtual_time import on_virtual_time

import headway
from headway.admission import fields_prefix
from headway.api.schema import PrefixStatus
from headway.engine.fake import FakeEngine, FakeParams
from headway.http.inference.request_info import read_request_info
from headway.openai.asked import read_asked
from headway.openai.routes import route_at
from headway_policies import Load, Preset
from headway_policies.request import PREFIX_TOKENS

CHAT, LONG = "/v1/chat/completions", "You are a helpful assistant. " * 100
PREFIX = small_preset(inside="prefix")


def raw(**body: Any) -> bytes:
    return json.dumps(body).encode()


def prompt_prefix(path: str, body: bytes) -> tuple[int, ...]:
    """The hashes of the prompt in a body."""
    asked = read_asked(route_at(path), body)
    return fields_prefix(asked.route, asked.fields)


def common(path: str, one: bytes, other: bytes) -> int:
    """How many beginnings two bodies have in common."""
    first, second = prompt_prefix(path, one), prompt_prefix(path, other)
    same = [a == b for a, b in zip(first, second, strict=False)]
    assert same == sorted(same, reverse=True)
    return sum(same)


def chat(question: str, system: str = LONG) -> list[dict[str, str]]:
    return [{"role": "system", "content": system}, {"role": "user", "content": question}]


BODIES = {
    CHAT: {"messages": chat("one")},
    "/v1/completions": {"prompt": LONG + "one"},
    "/v1/responses": {"input": LONG + "one"},
    "/v1/messages": {"system": LONG, "messages": [{"role": "user", "content": "one"}]},
    "/inference/v1/generate": {"token_ids": list(range(900))},
}


@pytest.mark.parametrize("path", BODIES)
def test_what_stands_before_the_prompt_does_not_matter(path: str) -> None:
    """The same prompt has the same beginnings, whatever else is in front of it; another prompt has others."""
    body = BODIES[path]
    assert len(prompt_prefix(path, raw(**body))) >= 6
    assert common(path, raw(**body), raw(max_tokens=7, user="somebody", **body)) >= 6
    assert common(path, raw(**body), raw(**json.loads(json.dumps(body).replace("help", "harm").replace("1", "7")))) == 0


def test_a_common_system_prompt_is_a_common_beginning() -> None:
    """2,900 characters: with their frame the beginnings of up to 729 tokens, and no more."""
    one, other = raw(messages=chat("one " * 300)), raw(messages=chat("two " * 300))
    assert common(CHAT, one, other) == 7
    assert common(CHAT, one, raw(messages=chat("one " * 300, "Another system prompt. " * 100))) == 0


def test_a_system_prompt_beside_the_messages_comes_first_wherever_it_stands() -> None:
    """As in the chat template; a conversation with another system prompt has nothing in common."""
    path, turns = "/v1/messages", [{"role": "user", "content": "one two three " * 200}]
    system = {"system": LONG}
    assert common(path, raw(**system, messages=turns), raw(**system, messages=[])) >= 6
    assert common(path, raw(messages=turns, **system), raw(messages=[], **system)) >= 6
    assert common(path, raw(messages=turns, **system), raw(messages=turns, system="Other. " * 400)) == 0
    prompt = len(json.dumps(LONG)) + len(json.dumps(turns))
    hashes = prompt_prefix(path, raw(messages=turns, **system, user="u" * 9000))
    assert len(hashes) == sum(4 * tokens <= prompt for tokens in PREFIX_TOKENS)
    responses = raw(input=LONG, instructions="Other. " * 400), raw(input="Hello", instructions="Other. " * 400)
    assert common("/v1/responses", *responses) >= 6


@pytest.mark.parametrize("key", ["model", "cache_salt"])
def test_what_shares_nothing_in_the_engine_has_nothing_in_common(key: str) -> None:
    """vLLM keeps models, adapters and salts apart."""
    one = raw(messages=chat("one"), **{key: "a"})
    assert common(CHAT, one, raw(messages=chat("one"), **{key: "a"})) >= 6
    assert common(CHAT, one, raw(messages=chat("one"), **{key: "b"})) == 0


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, b""),
        (CHAT, b"[]"),
        (CHAT, raw(prompt=LONG)),
        (CHAT, raw(messages=[])),
        (CHAT, raw(text='a text with "messages": ' + LONG)),
        ("/v1/embeddings", raw(input=LONG)),
        ("/v1/audio/transcriptions", raw(prompt=LONG)),
    ],
)
def test_what_has_no_prompt_has_no_prefix(path: str, body: bytes) -> None:
    """Another route, no such key, or a text that speaks of one."""
    assert prompt_prefix(path, body) == ()


def test_a_prefix_is_computed_only_for_an_order_that_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under every other order a body is not hashed."""
    body = raw(messages=chat("one"))
    assert read_request_info({}, route_at(CHAT), body, PREFIX).prefix == prompt_prefix(CHAT, body) != ()
    monkeypatch.setattr(
        "headway.http.inference.request_info.fields_prefix", lambda *_: pytest.fail("the body was hashed")
    )
    for inside in ("fifo", "edf", "hrrn", "fair"):
        assert read_request_info({}, route_at(CHAT), body, small_preset(inside=inside)).prefix == ()


def test_escaped_keys_are_found_as_well() -> None:
    """Keys are decoded, however they are written."""
    body = raw(messages=chat("one")).replace(b'"messages"', b'"m\\u0065ssages"')
    assert len(read_request_info({}, route_at(CHAT), body, PREFIX).prefix) >= 6


class Site(GeneratingSite):
    """Chat completions at one seat, one second each; the questions in the order of dispatch."""

    def __init__(self, preset: Preset) -> None:
        super().__init__(preset)
        self.served: list[str] = []

    async def generate(self, request: Request) -> Response:
        question = (await request.json())["messages"][-1]["content"]
        async for _ in self.engine.generate("p", FakeParams(1), question):
            self.served.append(question)
        return JSONResponse({})

    async def question(self, question: str, system: str) -> int:
        return (await self.ask({"messages": chat(question, system)})).status


@pytest.mark.parametrize(
    ("inside", "order"),
    [("fifo", ["a0", "b1", "c2", "a3", "b4", "c5"]), ("prefix", ["a0", "a3", "b1", "b4", "c2", "c5"])],
)
@on_virtual_time
async def test_requests_with_one_system_prompt_are_served_together(inside: str, order: list[str]) -> None:
    """From the bytes of six requests to the order in which the engine gets them, and the answers are all 200."""
    site = Site(small_preset(inside=inside, batching={"strategy": "continuous", "seats": 1}))
    asked = []
    for number in range(6):
        name = "abc"[number % 3]
        asked.append(asyncio.create_task(site.question(f"{name}{number}", f"{name} is the assistant's name. " * 90)))
        await asyncio.sleep(0.01)
    assert await asyncio.gather(*asked) == [200] * 6
    assert site.served == order


@on_virtual_time
async def test_a_switch_to_the_order_serves_those_that_waited_without_a_prefix() -> None:
    """The waiting requests have no match, and lose nothing: all are served, the matches of later ones before them."""
    site = Site(small_preset(batching={"strategy": "continuous", "seats": 1}))
    asked = [asyncio.create_task(site.question(f"a{number}", LONG)) for number in range(3)]
    await asyncio.sleep(0.01)
    by_prefix = small_preset(name="by-prefix", inside="prefix", batching={"strategy": "continuous", "seats": 1})
    site.engine.headway.gateway.gate.switch(by_prefix)
    asked += [asyncio.create_task(site.question(f"b{number}", LONG)) for number in range(3)]
    assert await asyncio.gather(*asked) == [200] * 6
    assert sorted(site.served) == ["a0", "a1", "a2", "b0", "b1", "b2"]


@pytest.mark.parametrize("form", ["text", "ids"])
@on_virtual_time
async def test_a_program_s_own_requests_are_ordered_as_well(form: str) -> None:
    """``headway.wrap``: by the text of a prompt or by its token ids."""
    engine: Any = headway.wrap(
        FakeEngine(step_s=1.0), small_preset(inside="prefix", batching={"strategy": "continuous"})
    )

    async def ask(number: int) -> None:
        name = "abc"[number % 3]
        prompt = f"{name} is my name. " * 90 + str(number) if form == "text" else [ord(name)] * 300 + [number]
        async for _ in engine.generate(prompt, FakeParams(1), f"{name}{number}"):
            pass

    asked = []
    for number in range(6):
        asked.append(asyncio.create_task(ask(number)))
        await asyncio.sleep(0.01)
    await asyncio.gather(*asked)
    assert engine.started == ["a0", "a3", "b1", "b4", "c2", "c5"]


@on_virtual_time
async def test_the_status_shows_what_was_expected_in_the_cache_and_what_was_found() -> None:
    """Nothing under another order, nothing compared at first, and then both shares with the part of the room."""
    engine: Any = headway.wrap(FakeEngine(), small_preset(seats=100))
    gate = engine.headway.gateway.gate
    assert engine.headway.status().ordering.prefix is None
    gate.now_s = asyncio.get_running_loop().time
    gate.switch(small_preset(seats=100, name="mine", inside="prefix", batching={"strategy": "continuous"}))
    assert engine.headway.status().ordering.prefix == PrefixStatus(room_ratio=1)
    for _ in range(64):
        gate.enter(prefix=(1, 2), prompt_tokens=100)
    gate.observe(Load(1, 0, 0.5, prefix_queried_tokens=1000, prefix_hit_tokens=250))
    found = PrefixStatus(expected_ratio=round(63 * 96 / 6400, 4), hit_ratio=0.25, room_ratio=0.9)
    assert engine.headway.status().ordering.prefix == found
