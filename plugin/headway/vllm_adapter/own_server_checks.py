"""The checks of an API server behind a queue before the engine gets a call, and the answer where they fail.

vLLM begins the answer of a stream before it calls the engine. So the beginning is withheld until the call has output: a
request refused before that gets its own status. Otherwise the client would get events in a 200, or a stream that breaks
off, which the desk would take for the end of this process.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from contextvars import ContextVar
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Message, Send

from headway.api_errors import BadRequest, answer, error_body, refusal_headers
from headway.engine import Invalid
from headway.errors import Refused
from headway.vllm_adapter.engine_adapter import VllmAdapter


@dataclass(slots=True)
class Call:
    """The state of a request's call to the engine: its tenant, whether it has had output, and an error before that."""

    tenant: str = ""
    begun: bool = False
    wrong: Invalid | Refused | None = None


CALL: ContextVar[Call | None] = ContextVar("headway_own_server_call", default=None)


def checked(run: Callable[..., AsyncGenerator[Any, None]], adapter: VllmAdapter) -> Callable[..., Any]:
    """The engine's ``generate`` behind the check of each call. Raises the engine's error where a call is refused."""

    async def checked_run(
        prompt: Any, sampling_params: Any, *arguments: Any, **options: Any
    ) -> AsyncGenerator[Any, None]:
        call = CALL.get() or Call()
        check = adapter.check(prompt, sampling_params, call.tenant)
        try:
            if check is not None:
                await check()
            async with aclosing(run(prompt, sampling_params, *arguments, **options)) as outputs:
                async for output in outputs:
                    call.begun = True
                    yield output
        except Refused as refused:
            call.wrong = refused
            raise adapter.error(refused) from None
        except Exception as error:
            call.wrong = adapter.invalid(error)
            raise

    return checked_run


class DeferredStream:
    """The sender of one request's answer: a stream is withheld until its call has output."""

    def __init__(self, call: Call, path: str, send: Send) -> None:
        self._call = call
        self._path = path
        self._send = send
        self._deferred: list[Message] = []
        self._open = False
        self._answered = False

    async def send(self, message: Message) -> None:
        """Take the next message of the application."""
        if self._answered:
            return
        self._deferred.append(message)
        last = message["type"] == "http.response.body" and not message.get("more_body", False)
        if last and await self.finish():
            return
        if self._open or last or self._call.begun or not _streams(self._deferred[0]):
            self._open, deferred, self._deferred = True, self._deferred, []
            for kept in deferred:
                await self._send(kept)

    async def finish(self) -> bool:
        """Answer with the error where the application has ended and nothing was sent; returns whether it did."""
        wrong = self._call.wrong
        if self._open or self._answered or wrong is None or not self._deferred or not _streams(self._deferred[0]):
            return self._answered
        self._answered = True
        if isinstance(wrong, Refused):
            status = HTTPStatus(wrong.status)
            body = error_body(self._path, status, str(wrong), wrong.reason)
            await answer(self._send, status, body, refusal_headers(wrong, None))
        else:
            bad = BadRequest(HTTPStatus(wrong.status), wrong.message, "invalid_parameter", param=wrong.parameter)
            await answer(self._send, bad.status, bad.body(self._path), bad.headers)
        return True


def _streams(start: Message) -> bool:
    if start["type"] != "http.response.start" or start["status"] >= HTTPStatus.BAD_REQUEST:
        return False
    return Headers(raw=start["headers"]).get("content-type", "").startswith("text/event-stream")
