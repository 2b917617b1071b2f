"""The demo's clients: streaming chat requests through the ``openai`` client, as a user would send.

An open loop (``send``) never waits for an answer before the next request is due; in a closed loop (``keep_busy``) each
client has one request at a time. Every request ends in exactly one ``Served``.
The client's own retries are off, so that its count and the server's can be compared.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus

import openai

from headway.demo.traffic import Arrival

_REQUEST_TIMEOUT_S = 180.0
_PAUSE_S = 0.5  # of a client in a closed loop whose request was not completed
_REFUSALS = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}

COMPLETED = "completed"
REFUSED = "refused"
FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Served:
    """How one request ended, as its client saw it. ``why`` is the reason where it was not completed.

    ``retry_after_s`` is the advice in a refusal.
    """

    class_name: str
    ending: str
    ttft_s: float | None = None
    output_tokens: int = 0
    why: str = ""
    retry_after_s: int | None = None


class Driver:
    """Sends arrivals to one server and reports each end to ``record``."""

    def __init__(self, url: str, model: str, record: Callable[[Served], None]) -> None:
        self.sent: Counter[str] = Counter()
        self._model = model
        self._record = record
        self._open: set[asyncio.Task[Served]] = set()
        self._client = openai.AsyncOpenAI(
            base_url=f"{url}/v1",
            api_key="not-needed",
            max_retries=0,
            timeout=_REQUEST_TIMEOUT_S,
            http_client=openai.DefaultAsyncHttpxClient(trust_env=False),  # no proxy between us and this machine
        )

    @property
    def unfinished(self) -> int:
        """Requests sent and not ended."""
        return len(self._open)

    async def send(self, arrivals: Iterable[Arrival]) -> None:
        """Send each request when it is due; returns when the last one is sent."""
        clock = asyncio.get_running_loop().time
        begin_s = clock()
        for arrival in arrivals:
            await asyncio.sleep(begin_s + arrival.at_s - clock())
            self._begin(arrival)

    async def keep_busy(self, requests: Iterator[Arrival], clients: int, enough: asyncio.Event) -> None:
        """Let so many clients send one request after the other until it is enough; returns when the last have ended."""
        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(self._one_by_one(requests, enough))

    async def settle(self, within_s: float) -> None:
        """Wait until every request has ended, or until the time is up."""
        if self._open:
            await asyncio.wait(set(self._open), timeout=within_s)

    async def close(self) -> None:
        """Abandon requests that have not ended, and close the connections."""
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._client.close()

    async def _one_by_one(self, requests: Iterator[Arrival], enough: asyncio.Event) -> None:
        while not enough.is_set():
            if (await self._begin(next(requests))).ending != COMPLETED:
                await asyncio.sleep(_PAUSE_S)

    def _begin(self, arrival: Arrival) -> asyncio.Task[Served]:
        self.sent[arrival.class_name] += 1
        task = asyncio.create_task(self._one(arrival))
        self._open.add(task)
        task.add_done_callback(self._open.discard)
        return task

    async def _one(self, arrival: Arrival) -> Served:
        try:
            served = await self._stream(arrival)
        except openai.APIStatusError as error:
            why = error.response.headers.get("x-headway-reason", f"status {error.status_code}")
            ending = REFUSED if error.status_code in _REFUSALS else FAILED
            advice = error.response.headers.get("retry-after", "")
            retry_after_s = int(advice) if advice.isdecimal() else None
            served = Served(arrival.class_name, ending, why=why, retry_after_s=retry_after_s)
        except openai.OpenAIError as error:
            served = Served(arrival.class_name, FAILED, why=str(error) or type(error).__name__)
        self._record(served)
        return served

    async def _stream(self, arrival: Arrival) -> Served:
        clock = asyncio.get_running_loop().time
        begin_s = clock()
        ttft_s: float | None = None
        finish: str | None = None
        tokens = 0
        stream = await self._client.chat.completions.create(
            model=self._model,
            messages=[{"role": "user", "content": arrival.prompt}],
            max_tokens=arrival.max_tokens,
            stream=True,
            stream_options={"include_usage": True},
            extra_headers={"x-headway-class": arrival.class_name},
        )
        async for chunk in stream:
            for choice in chunk.choices:
                if ttft_s is None and choice.delta.content:
                    ttft_s = clock() - begin_s
                finish = choice.finish_reason or finish
            if chunk.usage is not None:
                tokens = chunk.usage.completion_tokens
        if finish is None:
            return Served(arrival.class_name, FAILED, ttft_s, tokens, "the stream ended early")
        if finish == "abort":  # vLLM ends a stream so when it stops
            return Served(arrival.class_name, FAILED, ttft_s, tokens, "aborted by the engine")
        return Served(arrival.class_name, COMPLETED, ttft_s, tokens)
