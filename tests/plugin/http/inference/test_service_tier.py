"""The service tier in a response: the tier really used, in the words of the API, and nothing else changed."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message

from headway.admission import RequestContext
from headway.http.inference.deferred_response import DeferredResponse
from headway.http.inference.request_class import known_to_vllm
from headway.http.inference.service_tier import TierEcho
from headway.openai import fields as body_fields
from headway.openai.fields import read_fields

CHAT, COMPLETIONS, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"
EVENTS = (b"content-type", b"text/event-stream; charset=utf-8")
TRAP = ',"service_tier":null,"service_tier":"auto","usage":{"input_tokens":1}'


@pytest.mark.parametrize("tier", ["auto", "default", "flex", "priority", "turbo", None, 1])
def test_the_body_of_any_other_tier_is_left_as_it_is(tier: object) -> None:
    """Byte for byte, and so is what is no object, and a text that says fast."""
    body = json.dumps({"prompt": 'say "fast"', "service_tier": tier, "user": "fast"}, indent=3).encode()
    for one in (body, body[:-2], b'["fast"]', b"", b'{"messages": [{"service_tier": "fast"}]}'):
        fields = read_fields(one)
        assert known_to_vllm(fields) is fields


def test_fast_is_what_vllm_calls_priority() -> None:
    """vLLM would refuse it; all other fields stay, and of a doubled one the last counts, as vLLM reads it."""
    body = b'{"service_tier": "flex", "prompt": "\\u00e9 fast", "service_tier" : "fast", "n": 1.50, "user": "fast"}'
    found = known_to_vllm(read_fields(body))
    assert json.loads(body_fields.written(found)) == json.loads(body) | {"service_tier": "priority"}
    assert b"1.50" in body_fields.written(found)
    assert known_to_vllm(found) is found


def chat(text: str = "Hello.") -> dict[str, Any]:
    """An answer as vLLM 0.32 writes it."""
    choices = [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]
    usage = {"prompt_tokens": 3, "total_tokens": 5, "completion_tokens": 2}
    return {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "tiny", "choices": choices,
        "service_tier": None, "system_fingerprint": None, "usage": usage, "prompt_logprobs": None,
    }  # fmt: skip


def response(**more: Any) -> dict[str, Any]:
    """An answer of the responses route."""
    first = {"id": "resp_1", "created_at": 1, "metadata": None, "model": "tiny", "object": "response", "tools": []}
    return {**first, "service_tier": "auto", "status": "completed", "text": None, "usage": None, **more}


def messages(content: list[Any] | None = None) -> dict[str, Any]:
    """An answer of the messages route."""
    usage = {"input_tokens": 3, "output_tokens": 2}
    return {"id": "msg_1", "type": "message", "role": "assistant", "content": content or [], "model": "tiny",
            "stop_reason": "end_turn", "usage": usage}  # fmt: skip


def written(value: Any) -> bytes:
    """JSON as the server writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


async def sent(
    path: str, tier: str | None, *parts: bytes, kind: bytes = b"application/json", status: int = 200
) -> tuple[dict[str, str], list[bytes]]:
    """What a client gets of a response with these parts: its headers and its messages."""
    messages: list[Message] = []

    async def send(message: Message) -> None:
        messages.append(message)

    held = DeferredResponse(RequestContext(service_tier=tier), path, send, HTTPStatus.TOO_MANY_REQUESTS)
    length = str(sum(map(len, parts))).encode()
    fields = [EVENTS] if kind == b"text/event-stream" else [(b"content-type", kind), (b"content-length", length)]
    await held.send({"type": "http.response.start", "status": status, "headers": fields})
    for number, part in enumerate(parts, 1):
        await held.send({"type": "http.response.body", "body": part, "more_body": number < len(parts)})
    headers = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
    return headers, [message["body"] for message in messages[1:]]


async def whole(path: str, tier: str | None, value: Any) -> Any:
    """The answer as the client reads it; its length is the declared one."""
    headers, (body,) = await sent(path, tier, written(value))
    assert int(headers["content-length"]) == len(body)
    return json.loads(body)


@pytest.mark.parametrize("tier", ["default", "priority", "flex", "scale", 'of "ours"'])
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, "/proxied/v1/chat/completions"])
async def test_a_whole_answer_names_the_tier(path: str, tier: str) -> None:
    """In OpenAI's words, where vLLM leaves it null; all else as it was."""
    assert await whole(path, tier, chat()) == {**chat(), "service_tier": tier}


async def test_a_response_names_the_tier_used_and_not_the_one_asked_for() -> None:
    """vLLM repeats what was asked for."""
    assert await whole(RESPONSES, "flex", response()) == response(service_tier="flex")


@pytest.mark.parametrize(
    ("tier", "expected"),
    [("default", "standard"), ("scale", "standard"), ("priority", "priority"), ("flex", "batch")],
)  # fmt: skip
async def test_the_usage_of_a_message_names_the_tier_in_anthropics_words(tier: str, expected: str) -> None:
    """Which are three."""
    plain = messages()
    assert await whole(MESSAGES, tier, plain) == {**plain, "usage": {**plain["usage"], "service_tier": expected}}


async def test_nothing_is_written_where_no_tier_was_asked_for() -> None:
    """The bytes stay as they are."""
    for path, value in ((CHAT, chat()), (RESPONSES, response()), (MESSAGES, messages())):
        assert (await sent(path, None, written(value)))[1] == [written(value)]


@pytest.mark.parametrize("text", [TRAP, TRAP.replace('"', "\\"), f"\\{TRAP}\\", "\u2028\ud7ff\U0001f422\x00"])
async def test_the_text_of_an_answer_is_never_taken_for_a_field(text: str) -> None:
    """Whatever a model writes."""
    assert await whole(CHAT, "flex", chat(text)) == {**chat(text), "service_tier": "flex"}
    content = [{"type": "text", "text": text}]
    assert (await whole(MESSAGES, "flex", messages(content)))["content"] == content


@pytest.mark.parametrize(
    "metadata",
    [{"a": "b", "service_tier": "auto"}, {"service_tier": "auto"}, {',"service_tier":"auto"': "x"},
     {"a": "b", "service_tier": "auto", "status": "completed"}],
)  # fmt: skip
async def test_a_field_of_the_clients_own_stays_as_it_is(metadata: dict[str, str]) -> None:
    """A field of that name inside of metadata, or of a tool's schema, is not the tier of the response."""
    tools = [{"type": "function", "parameters": {"a": 1, "service_tier": None}}]
    asked = response(metadata=metadata, tools=tools)
    assert await whole(RESPONSES, "flex", asked) == {**asked, "service_tier": "flex"}
    used = [{"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1, "usage": {"input_tokens": 9}}}]
    answer = await whole(MESSAGES, "flex", messages(used))
    assert (answer["content"], answer["usage"]["service_tier"]) == (used, "batch")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.sampled_from([TRAP, "auto"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text() | st.sampled_from(["service_tier", "usage", "input_tokens", TRAP]), inner, max_size=3
        )
    ),
    max_leaves=12,
)


@given(path=st.sampled_from([CHAT, RESPONSES, MESSAGES]), value=JSON, tools=JSON)
def test_an_answer_stays_the_same_but_for_its_tier(path: str, value: Any, tools: Any) -> None:
    """Whatever objects it holds before and after the field."""
    plain = {CHAT: chat(), RESPONSES: response(metadata=value, tools=tools), MESSAGES: messages([value])}[path]
    answer = plain if path == RESPONSES else {**plain, "kv_transfer_params": tools}
    start: Message = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]}
    body: Message = {"type": "http.response.body", "body": written(answer)}
    found = json.loads(TierEcho(path, "flex").write([start, body])[1]["body"])
    field = found["usage"] if path == MESSAGES else found
    assert field["service_tier"] == ("batch" if path == MESSAGES else "flex")
    if path == MESSAGES:
        del field["service_tier"]
        assert found == answer
    else:
        assert {**found, "service_tier": plain["service_tier"]} == answer


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
async def test_the_first_chunk_of_a_stream_names_the_tier(path: str) -> None:
    """A comment that keeps the connection open is no chunk; the later ones are passed on as they are."""
    chunks = [b'data: {"id":"c","object":"chat.completion.chunk","choices":[%d]}\n\n' % number for number in range(3)]
    parts = [b": keep-alive\n\n", *chunks, b"data: [DONE]\n\n"]
    headers, got = await sent(path, "flex", *parts, kind=b"text/event-stream")
    assert "content-length" not in headers
    assert [part for part in got if part not in parts] == [got[1]]
    assert json.loads(got[1].removeprefix(b"data: ")) == {
        "service_tier": "flex", "id": "c", "object": "chat.completion.chunk", "choices": [0],
    }  # fmt: skip
    assert got[1].endswith(b"}\n\n")


async def test_every_event_with_the_response_names_the_tier() -> None:
    """The last one is what an SDK returns as the response."""
    tools = [{"type": "function", "parameters": {"a": 1, "service_tier": None}}]
    kinds = ["response.created", "response.in_progress", "response.output_text.delta", "response.completed"]
    values: list[dict[str, Any]] = [
        {"type": kind, "delta": TRAP} if kind.endswith("delta") else {"type": kind, "response": response(tools=tools)}
        for kind in kinds
    ]
    values[0]["response"] = response()
    parts = [f"event: {value['type']}\ndata: ".encode() + written(value) + b"\n\n" for value in values]
    _, got = await sent(RESPONSES, "flex", *parts, kind=b"text/event-stream")
    assert got[2] == parts[2]
    for place in (0, 1, 3):
        event, text = got[place].removesuffix(b"\n\n").split(b"\n", 1)
        assert event == f"event: {kinds[place]}".encode()
        expected = {**values[place]["response"], "service_tier": "flex"}
        assert json.loads(text.removeprefix(b"data: "))["response"] == expected


async def test_the_first_event_of_a_message_names_the_tier() -> None:
    """In its usage; a later usage does not repeat it."""
    first = b"event: message_start\ndata: " + written({"type": "message_start", "message": messages()}) + b"\n\n"
    last = b"event: message_delta\ndata: " + written(
        {"type": "message_delta", "delta": {}, "usage": {"input_tokens": 3}}
    )
    _, got = await sent(MESSAGES, "priority", first, last, kind=b"text/event-stream")
    assert json.loads(got[0].split(b"data: ")[1])["message"]["usage"] == {
        "service_tier": "priority", "input_tokens": 3, "output_tokens": 2,
    }  # fmt: skip
    assert got[1] == last


@pytest.mark.parametrize(
    ("path", "kind", "status", "parts"),
    [
        (CHAT, b"application/json", 400, [written({"error": {"a": 1, "service_tier": None}})]),
        (CHAT, b"application/json", 200, [written(chat())[:30], written(chat())[30:]]),
        (CHAT, b"application/json", 200, [written({"data": []})]),
        (CHAT, b"text/plain", 200, [written(chat())]),
        (CHAT, b"text/event-stream", 200, [b'data: {"error":{"a":1,"service_tier":null}}\n\n', b"data: [DONE]\n\n"]),
        (RESPONSES, b"application/json", 200, [b'{"a":1,"service_tier":"a","b":{"c":1,"service_tier":"a"']),
        (RESPONSES, b"application/json", 200, [b'[{"a":1,"service_tier":"a"},{"a":1,"service_tier":"a"}]']),
        (RESPONSES, b"text/event-stream", 200, [b'data: {"a":1,"service_tier":"a","x":{"response":{}}}']),
        (MESSAGES, b"application/json", 200, [b'{"a":1,"usage":{"input_tokens":1},"b":{"c":1']),
        (MESSAGES, b"application/json", 200, [b'{"a":1,"usage":[]}']),
    ],
    ids=["error", "pieces", "no field", "text", "error event", "torn", "list", "elsewhere", "torn message", "no usage"],
)  # fmt: skip
async def test_what_has_another_form_is_passed_on_as_it_is(
    path: str, kind: bytes, status: int, parts: list[bytes]
) -> None:
    """A response is never broken for the sake of its tier."""
    _, got = await sent(path, "flex", *parts, kind=kind, status=status)
    assert b"".join(got) == b"".join(parts)
