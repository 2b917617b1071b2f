"""The fixed reply: an OpenAI client reads it as any answer, and nothing of the prompt comes back."""

from __future__ import annotations

import json
import logging
from typing import Any

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from headway.api_errors import answer
from headway.fallback.answer import ForwardResult
from headway.fallback.diverted_request import DivertedRequest
from headway.fallback.fixed_reply import MAX_CHOICES, MAX_MODEL_CHARS, FixedReply

openai = pytest.importorskip("openai", reason="the client of OpenAI's API is not installed")

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
TEXT = 'We are "busy"\u2026\n\ndata: [DONE]\n\nPlease try again. \U0001f422'
SECRET = "a secret prompt"
MESSAGES = [{"role": "user", "content": SECRET}]
NO_TOKENS = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """A server on which the fixed reply answers everything, and all else is a 503."""
    message = await receive()
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    reply = FixedReply(TEXT)
    result = await reply.serve(DivertedRequest(scope["path"], message["body"], headers, receive, send, "normal"))
    if result is ForwardResult.NOT_SERVED:
        await answer(send, httpx.codes.SERVICE_UNAVAILABLE, b"{}")


@pytest.fixture
def sdk() -> Any:
    """OpenAI's own client."""
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app=app))
    return openai.AsyncOpenAI(base_url="http://headway/v1", api_key="none", max_retries=0, http_client=client)


def strict(kind: Any, raw: Any) -> Any:
    """An answer as the SDK's type for it, with every field checked: its client alone checks none."""
    return kind.model_validate_json(json.dumps(raw if isinstance(raw, dict) else raw.to_dict()), strict=True)


@pytest.mark.parametrize("number", [None, 1, 3])
async def test_a_chat_answer_has_every_choice_and_no_tokens(sdk: Any, number: int | None) -> None:
    """Under the name that was asked for; the header says that no model wrote it."""
    raw = await sdk.chat.completions.with_raw_response.create(model="large", messages=MESSAGES, n=number)
    whole = strict(openai.types.chat.ChatCompletion, raw.http_response.json())
    assert (raw.headers["x-headway-degraded"], raw.headers["x-headway-class"]) == ("fixed_reply", "normal")
    assert (whole.object, whole.model, whole.usage.to_dict()) == ("chat.completion", "large", NO_TOKENS)
    assert [choice.index for choice in whole.choices] == list(range(number or 1))
    assert {(choice.message.role, choice.message.content, choice.finish_reason) for choice in whole.choices} == {
        ("assistant", TEXT, "stop")
    }


@pytest.mark.parametrize(
    ("prompt", "number", "choices"),
    [("one", 1, 1), ("one", 2, 2), (["one", "two"], 2, 4), ([1, 2, 3], 1, 1), ([[1, 2], [3]], 1, 2), ([], 1, 1)],
    ids=["text", "text twice", "texts", "tokens", "lists of tokens", "none"],
)
async def test_a_completion_has_a_choice_for_each_prompt(sdk: Any, prompt: Any, number: int, choices: int) -> None:
    """``n`` times each of them."""
    raw = await sdk.completions.with_raw_response.create(model="large", prompt=prompt, n=number)
    whole = strict(openai.types.Completion, raw.http_response.json())
    assert (whole.object, whole.model, whole.usage.to_dict()) == ("text_completion", "large", NO_TOKENS)
    assert [(choice.index, choice.text, choice.finish_reason) for choice in whole.choices] == [
        (index, TEXT, "stop") for index in range(choices)
    ]


@pytest.mark.parametrize("options", [None, {"include_usage": False}, {"include_usage": True}], ids=str)
async def test_a_chat_stream_adds_up_to_the_same(sdk: Any, options: dict[str, bool] | None) -> None:
    """Read by the SDK's own accumulator; the usage comes last, and only where it was asked for."""
    more = {} if options is None else {"stream_options": options}
    stream = await sdk.chat.completions.create(model="large", messages=MESSAGES, n=2, stream=True, **more)
    assert stream.response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert stream.response.headers["x-headway-degraded"] == "fixed_reply"
    state = openai.lib.streaming.chat.ChatCompletionStreamState()
    chunks = [strict(openai.types.chat.ChatCompletionChunk, chunk) async for chunk in stream]
    for chunk in chunks:
        state.handle_chunk(chunk)
    whole = state.get_final_completion()
    assert [(choice.message.role, choice.message.content, choice.finish_reason) for choice in whole.choices] == [
        ("assistant", TEXT, "stop")
    ] * 2
    assert {(chunk.id, chunk.model) for chunk in chunks} == {(whole.id, "large")}
    usages = [None if chunk.usage is None else chunk.usage.to_dict() for chunk in chunks]
    assert usages == ([None, None, NO_TOKENS] if more.get("stream_options", {}).get("include_usage") else [None, None])


async def test_a_stream_of_completions_ends_with_the_usage(sdk: Any) -> None:
    """The other route's events have its own form."""
    options = {"include_usage": True}
    stream = await sdk.completions.create(model="large", prompt="one", n=2, stream=True, stream_options=options)
    chunks = [strict(openai.types.Completion, chunk) async for chunk in stream]
    assert [[(choice.index, choice.text, choice.finish_reason) for choice in chunk.choices] for chunk in chunks] == [
        [(0, TEXT, "stop")],
        [(1, TEXT, "stop")],
        [],
    ]
    assert (chunks[0].usage, chunks[-1].usage.to_dict()) == (None, NO_TOKENS)


class Client:
    """The other end of an ASGI call, which may be gone."""

    def __init__(self, *, gone: bool = False) -> None:
        self.messages: list[Message] = []
        self._gone = gone

    async def receive(self) -> Message:
        raise AssertionError("a fixed reply waits for nothing")

    async def send(self, message: Message) -> None:
        if self._gone:
            raise OSError
        self.messages.append(message)

    async def ask(self, asked: Any, path: str = CHAT, **headers: str) -> ForwardResult:
        """One request, a JSON value or bytes."""
        body = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
        request = DivertedRequest(path, body, headers, self.receive, self.send, "normal")
        return await FixedReply(TEXT).serve(request)


@pytest.mark.parametrize(
    ("request_", "more"),
    [
        (b"{", {}),
        ([], {}),
        ({"n": 0}, {}),
        ({"n": -1}, {}),
        ({"n": MAX_CHOICES + 1}, {}),
        ({"n": "2"}, {}),
        ({"n": True}, {}),
        ({"prompt": ["one"] * 65, "n": 2}, {"path": COMPLETIONS}),
        ({"prompt_embeds": ["AA=="]}, {"path": COMPLETIONS}),
        ({"model": ["large"]}, {}),
        ({"model": "m" * (MAX_MODEL_CHARS + 1)}, {}),
        ({}, {"path": "/v1/responses"}),
        ({}, {"path": "/v1/messages"}),
        ({}, {"path": "/v1/embeddings"}),
        ({}, {"x-headway-hop": "1"}),
    ],
    ids=[
        "no JSON", "a list", "no choice", "fewer than none", "too many", "a text", "a truth", "too many prompts",
        "embeddings", "names", "a long name", "responses", "messages", "embeddings route", "another server's",
    ],
)  # fmt: skip
async def test_a_request_that_it_does_not_fit_is_left_alone(request_: Any, more: dict[str, str]) -> None:
    """Nothing is sent: the request queues, or gets its refusal."""
    client = Client()
    assert await client.ask(request_, **more) is ForwardResult.NOT_SERVED
    assert client.messages == []


@pytest.mark.parametrize("request_", [{"n": MAX_CHOICES}, {"model": "m" * MAX_MODEL_CHARS}, {"n": None, "model": None}])
async def test_up_to_its_bounds_it_answers(request_: dict[str, Any]) -> None:
    """In one whole message, whose length is declared; a request need not name a model."""
    client = Client()
    assert await client.ask(request_) is ForwardResult.SERVED
    start, body = client.messages
    assert (start["status"], body["more_body"]) == (200, False)
    assert dict(start["headers"])[b"content-length"] == str(len(body["body"])).encode()
    assert json.loads(body["body"])["model"] == (request_.get("model") or "")


@pytest.mark.parametrize("streams", [False, True])
async def test_the_prompt_is_in_neither_the_answer_nor_the_log(streams: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Not even where echo asks for it."""
    caplog.set_level(logging.DEBUG)
    asked = {"messages": MESSAGES, "prompt": SECRET, "echo": True, "user": SECRET, "stop": SECRET, "stream": streams}
    for path in (CHAT, COMPLETIONS):
        client = Client()
        assert await client.ask(asked, path) is ForwardResult.SERVED
        assert SECRET not in str(client.messages)
    assert SECRET not in caplog.text


@pytest.mark.parametrize("streams", [False, True])
async def test_a_client_that_has_left_is_no_answered_one(streams: bool) -> None:
    """So the request is not counted as diverted."""
    assert await Client(gone=True).ask({"stream": streams}) is ForwardResult.CLIENT_GONE
