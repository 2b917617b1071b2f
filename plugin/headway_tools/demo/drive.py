"""The demo's clients: streaming chat requests through the ``openai`` client, as a user would send.

The client's own retries are off, so that its count and the server's can be compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from http import HTTPStatus

import openai

from headway_tools.demo.token_lengths import TokenLengths
from headway_tools.demo.traffic import Arrival
from headway_tools.load.sender import Sender
from headway_tools.load.served import COMPLETED, FAILED, REFUSED, Served

__all__ = ["COMPLETED", "FAILED", "REFUSED", "Driver", "Served"]

_REQUEST_TIMEOUT_S = 180.0
_REFUSALS = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT}


class Driver(Sender[Arrival]):
    """Sends arrivals to one server and reports each end to ``record``; ``lengths`` learns from each that completed."""

    def __init__(
        self, url: str, model: str, record: Callable[[Served], None], lengths: TokenLengths | None = None
    ) -> None:
        super().__init__(self._chat, record)
        self.lengths = TokenLengths() if lengths is None else lengths
        self._model = model
        self._client = openai.AsyncOpenAI(
            base_url=f"{url}/v1",
            api_key="not-needed",
            max_retries=0,
            timeout=_REQUEST_TIMEOUT_S,
            http_client=openai.DefaultAsyncHttpxClient(trust_env=False),  # no proxy between us and this machine
        )

    async def close(self) -> None:
        """Abandon requests that have not ended, and close the connections."""
        await self.abandon()
        await self._client.close()

    async def _chat(self, arrival: Arrival) -> Served:
        try:
            return await self._stream(arrival)
        except openai.APIStatusError as error:
            why = error.response.headers.get("x-headway-reason", f"status {error.status_code}")
            ending = REFUSED if error.status_code in _REFUSALS else FAILED
            advice = error.response.headers.get("retry-after", "")
            retry_after_s = int(advice) if advice.isdecimal() else None
            return Served(arrival.class_name, ending, why=why, retry_after_s=retry_after_s)
        except openai.OpenAIError as error:
            return Served(arrival.class_name, FAILED, why=str(error) or type(error).__name__)

    async def _stream(self, arrival: Arrival) -> Served:
        clock = asyncio.get_running_loop().time
        begin_s = clock()
        ttft_s: float | None = None
        finish: str | None = None
        prompt_tokens = tokens = 0
        stream = await self._client.chat.completions.create(
            model=self._model,
            messages=[{"role": "user", "content": arrival.prompt}],
            max_tokens=arrival.max_tokens,
            stream=True,
            stream_options={"include_usage": True},
            extra_headers={"x-headway-class": arrival.class_name},
            extra_body={"ignore_eos": True} if arrival.exact else None,
        )
        async for chunk in stream:
            for choice in chunk.choices:
                if ttft_s is None and choice.delta.content:
                    ttft_s = clock() - begin_s
                finish = choice.finish_reason or finish
            if chunk.usage is not None:
                prompt_tokens, tokens = chunk.usage.prompt_tokens, chunk.usage.completion_tokens
        if finish is None:
            return Served(arrival.class_name, FAILED, ttft_s, tokens, "the stream ended early")
        if finish == "abort":  # vLLM ends a stream so when it stops
            return Served(arrival.class_name, FAILED, ttft_s, tokens, "aborted by the engine")
        self.lengths.learn(arrival, prompt_tokens, tokens)
        return Served(arrival.class_name, COMPLETED, ttft_s, tokens)
