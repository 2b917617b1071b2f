"""Errors as the SDKs of OpenAI and Anthropic see them: the class of the exception, its fields, and what is retried."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Callable
from http import HTTPStatus
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send
from virtual_time import on_virtual_time

from headway.api_errors import ERRORS, Advice, BadRequest, answer, error_body, error_event, refusal_headers
from headway.errors import refusal
from headway_policies import Reason

openai: Any = pytest.importorskip("openai", reason="the client of OpenAI's API is not installed")
anthropic: Any = pytest.importorskip("anthropic", reason="the client of Anthropic's API is not installed")

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
ASKED = [{"role": "user", "content": "hello"}]
RETRY_AFTER_S = 2
#: The exception for each status; any other is the SDK's APIStatusError, or its InternalServerError from 500 on.
OPENAI = {
    400: "BadRequestError", 401: "AuthenticationError", 403: "PermissionDeniedError", 404: "NotFoundError",
    409: "ConflictError",
    429: "RateLimitError",
}  # fmt: skip
ANTHROPIC = {
    **OPENAI, 408: "RequestTimeoutError", 413: "RequestTooLargeError", 431: "RequestHeaderFieldsTooLargeError",
    503: "ServiceUnavailableError", 504: "DeadlineExceededError",
}  # fmt: skip
#: What both SDKs try again by themselves where nothing is said.
RETRIED = (408, 409, 429)


class Server:
    """Answers every request with the error of one code, and notes when each came."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.came_s: list[float] = []
        self.advised_s: list[float] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.came_s.append(asyncio.get_running_loop().time())
        terms, path = ERRORS[self.code], scope["path"]
        if self.code in set(Reason):
            refused = refusal(Reason(self.code), RETRY_AFTER_S)
            headers = refusal_headers(refused, "normal")
            self.advised_s += [int(value) / 1000 for name, value in headers if name == b"retry-after-ms"]
            await answer(send, terms.status, error_body(path, terms.status, str(refused), refused.reason), headers)
            return
        later = [(b"retry-after", str(RETRY_AFTER_S).encode())] if terms.advice is Advice.LATER else []
        bad = BadRequest(terms.status, "Not like this.", self.code, later, param="max_tokens")
        self.advised_s += [float(value) for _, value in later]
        await answer(send, bad.status, bad.body(path), bad.headers)


def in_process(sdk: Any, server: Server) -> Any:
    """A client of the HTTP library that this SDK uses, which calls the server without a connection."""
    library = importlib.import_module(sdk.DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0])
    return library.AsyncClient(transport=library.ASGITransport(app=server))


async def asked_openai(server: Server, retries: int) -> Any:
    """The exception of a chat."""
    async with openai.AsyncOpenAI(
        base_url="http://headway/v1", api_key="none", max_retries=retries, http_client=in_process(openai, server)
    ) as client:
        with pytest.raises(openai.APIStatusError) as caught:
            await client.chat.completions.create(model="tiny", messages=ASKED)
    return caught.value


async def asked_anthropic(server: Server, retries: int) -> Any:
    """The exception of a message."""
    async with anthropic.AsyncAnthropic(
        base_url="http://headway", api_key="none", max_retries=retries, http_client=in_process(anthropic, server)
    ) as client:
        with pytest.raises(anthropic.APIStatusError) as caught:
            await client.messages.create(model="tiny", messages=ASKED, max_tokens=4)
    return caught.value


def expected(sdk: Any, names: dict[int, str], status: HTTPStatus) -> type[Exception]:
    """The SDK's class for a status."""
    usual = "InternalServerError" if status >= 500 else "APIStatusError"
    found: type[Exception] = getattr(sdk, names.get(status, usual))
    return found


@pytest.mark.parametrize("code", ERRORS)
@on_virtual_time
async def test_openais_sdk_raises_the_class_of_each_error(code: str) -> None:
    """With the type and the code of the table, and the parameter that is wrong."""
    error = await asked_openai(Server(code), 0)
    assert type(error) is expected(openai, OPENAI, ERRORS[code].status)
    assert (error.status_code, error.type, error.code) == (ERRORS[code].status, ERRORS[code].types.openai, code)
    assert error.param == (None if code in set(Reason) else "max_tokens")
    assert error.body["message"] in error.message


@pytest.mark.parametrize("code", ERRORS)
@on_virtual_time
async def test_anthropics_sdk_raises_the_class_of_each_error(code: str) -> None:
    """With the type of the table; its API has neither a code nor a parameter."""
    error = await asked_anthropic(Server(code), 0)
    assert type(error) is expected(anthropic, ANTHROPIC, ERRORS[code].status)
    assert (error.status_code, error.body["type"]) == (ERRORS[code].status, "error")
    assert error.body["error"].keys() == {"type", "message"}
    assert error.body["error"]["type"] == ERRORS[code].types.anthropic


@pytest.mark.parametrize("ask", [asked_openai, asked_anthropic])
@pytest.mark.parametrize("code", ERRORS)
@on_virtual_time
async def test_the_sdks_retry_as_the_table_says(code: str, ask: Callable[[Server, int], Any]) -> None:
    """At the advised time, to the millisecond; never; or as the status means to them."""
    server, terms = Server(code), ERRORS[code]
    await ask(server, 2)
    retried = terms.status in RETRIED or terms.status >= 500
    assert len(server.came_s) == (1 if terms.advice is Advice.NEVER or not retried else 3)
    if terms.advice is Advice.LATER:
        gaps_s = [after - before for before, after in pairwise(server.came_s)]
        assert gaps_s == pytest.approx(server.advised_s[:2], abs=0.01)
        assert all(RETRY_AFTER_S - 1 < gap_s <= RETRY_AFTER_S + 0.01 for gap_s in gaps_s)


def test_refusals_of_one_instant_are_spread_within_their_second() -> None:
    """The milliseconds differ, and round up to the seconds."""
    found = [dict(refusal_headers(refusal(Reason.QUEUE_FULL, 1), None)) for _ in range(20)]
    advised_ms = sorted(int(one[b"retry-after-ms"]) for one in found)
    assert {one[b"retry-after"] for one in found} == {b"1"}
    assert 500 < advised_ms[0] <= advised_ms[-1] <= 1000
    assert max(after - before for before, after in pairwise(advised_ms)) < 60


@pytest.mark.parametrize("reason", [reason for reason in Reason if ERRORS[reason].advice is Advice.NEVER])
def test_a_refusal_that_no_retry_can_help_names_no_time(reason: Reason) -> None:
    """One header or the other."""
    headers = dict(refusal_headers(refusal(reason, 3), "normal"))
    assert headers[b"x-should-retry"] == b"false"
    assert not headers.keys() & {b"retry-after", b"retry-after-ms"}


@given(message=st.text(), param=st.none() | st.text(), code=st.sampled_from(sorted(ERRORS)))
def test_any_message_makes_a_body_that_can_be_read(message: str, param: str | None, code: str) -> None:
    """In each format, also as an event."""
    status = ERRORS[code].status
    assert json.loads(error_body(CHAT, status, message, code, param))["error"] == {
        "message": message, "type": ERRORS[code].types.openai, "param": param, "code": code,
    }  # fmt: skip
    for path in (MESSAGES, "/proxied/v1/messages", "/v1/messages/count_tokens"):
        assert json.loads(error_body(path, status, message, code, param)) == {
            "type": "error", "error": {"type": ERRORS[code].types.anthropic, "message": message},
        }  # fmt: skip
    for path in (CHAT, RESPONSES, MESSAGES):
        lines = error_event(path, status, message, code).split(b"\n")
        (data,) = [line for line in lines if line.startswith(b"data: {")]
        value = json.loads(data.removeprefix(b"data: "))
        assert (value if path == RESPONSES else value["error"])["message"] == message
