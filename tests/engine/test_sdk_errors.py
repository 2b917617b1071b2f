"""A real server's refusals as the SDKs of OpenAI and Anthropic raise them; test_api_errors.py has all their classes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anthropic
import openai
import pytest
from running_server import RunningServer, wait_until

LONG_TOKENS = 1500
ASKED = [{"role": "user", "content": "Tell a long story."}]


class Sdk:
    """The client of one API: a request of either kind, and its words for the errors."""

    def __init__(self, name: str, server: RunningServer) -> None:
        self.name = name
        if name == "openai":
            self.client: Any = openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
            self.errors: Any = openai
        else:
            self.client = anthropic.AsyncAnthropic(base_url=server.url, api_key="none", max_retries=0)
            self.errors = anthropic

    async def ask(self, headers: dict[str, str], max_tokens: int = 4, *, stream: bool = False) -> Any:
        """A chat, or a message."""
        create = self.client.chat.completions.create if self.name == "openai" else self.client.messages.create
        return await create(model="tiny", messages=ASKED, max_tokens=max_tokens, stream=stream, extra_headers=headers)

    async def refused(self, headers: dict[str, str], max_tokens: int = 4, *, stream: bool = False) -> Any:
        """The exception of a request that is refused."""
        with pytest.raises(self.errors.APIStatusError) as caught:
            await self.ask(headers, max_tokens, stream=stream)
        return caught.value

    def type_of(self, error: Any) -> str:
        """The type in the body."""
        return str(error.type if self.name == "openai" else error.body["error"]["type"])


@pytest.fixture(params=["openai", "anthropic"])
async def sdk(request: pytest.FixtureRequest, server: RunningServer) -> AsyncIterator[Sdk]:
    """Each of both, without retries of its own."""
    one = Sdk(request.param, server)
    yield one
    await one.client.close()


@asynccontextmanager
async def full(server: RunningServer, sdk: Sdk) -> AsyncIterator[None]:
    """Under the tight preset: nothing is dispatched, and as many realtime requests wait as may."""
    server.use("tight")
    assert server.admin("POST", "pause", json={"reason": "a test"}).status_code == 200
    others = [asyncio.create_task(sdk.ask({"x-headway-class": "realtime"})) for _ in range(4)]
    try:
        await asyncio.to_thread(wait_until, lambda: server.status()["queued"] == 4, "the queue is full")
        yield
    finally:
        server.admin("POST", "resume", json={"reason": "a test"})
        await asyncio.gather(*others)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_full_queue_is_a_rate_limit(server: RunningServer, sdk: Sdk, stream: bool) -> None:
    """429 with both headers that an SDK reads, before any byte of a stream."""
    async with full(server, sdk):
        error = await sdk.refused({"x-headway-class": "batch"}, stream=stream)
    assert type(error) is sdk.errors.RateLimitError
    assert sdk.type_of(error) == "rate_limit_error"
    headers = error.response.headers
    later_s, later_ms = int(headers["retry-after"]), int(headers["retry-after-ms"])
    assert 1000 * (later_s - 1) < later_ms <= 1000 * later_s
    assert headers["x-headway-reason"] == "queue_full"


async def test_refused_retries_come_to_an_end(server: RunningServer, sdk: Sdk) -> None:
    """The SDK's own count marks a retry: when the budget is spent the next one is told not to come again."""
    retry = {"x-headway-class": "batch", "x-stainless-retry-count": "1"}
    async with full(server, sdk):
        errors = [await sdk.refused(retry) for _ in range(30)]
        first = await sdk.refused({"x-headway-class": "batch"})
    reasons = [error.response.headers["x-headway-reason"] for error in errors]
    assert reasons[0] == "queue_full"
    assert "retry_budget" in reasons  # not the last: some seconds later another retry is invited
    for error, reason in zip(errors, reasons, strict=True):
        assert type(error) is sdk.errors.RateLimitError
        assert ("x-should-retry" in error.response.headers) is (reason == "retry_budget")
        assert ("retry-after" in error.response.headers) is (reason == "queue_full")
    assert first.response.headers["x-headway-reason"] == "queue_full"


async def test_a_stream_that_is_ended_raises_while_it_is_read(sdk: Sdk) -> None:
    """After the first tokens the error is an event, and the SDK raises it."""
    stream = await sdk.ask({"x-request-timeout-seconds": "1"}, LONG_TOKENS, stream=True)
    events = 0
    with pytest.raises(sdk.errors.APIError, match="time-out"):  # noqa: PT012 - it is raised by a later step
        async for _ in stream:
            events += 1
    assert events > 1
