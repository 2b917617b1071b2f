"""The operator's own checks of requests and of answers.

    HEADWAY_VALIDATOR      before a request is queued   a message: 400 ``invalid_request``
    HEADWAY_CHECK_RESULT   a whole JSON answer          a message: 502 ``result_invalid``
                           the end of an event stream   a message: an error event in the place of the last event

A stream is held in memory until its end, up to ``HEADWAY_CHECK_RESULT_BYTES``. The event that would exceed them is
replaced by an error event, 502 ``result_too_long``; nothing comes after it, and the request is ended.

Each names a function ``package.module:function``, called as ``function(path, parsed, tenant, class_name)``. The
function returns None or a message for the client, or raises ValueError with one. ``parsed`` is the JSON object; an
empty one for a request of another kind, a form with audio, say; of a stream ``{"events": [...]}``, the objects of its
events. Where the function itself fails, this request alone is answered with 500 ``validator_failed``: nothing passes
unchecked, but the events of a stream are with the client before its verdict. The log then names the function and the
kind of error, nothing else.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any

from starlette.datastructures import Headers
from starlette.types import Message, Send

from headway.admission import RequestContext
from headway.api_errors import BadRequest, answer, error_event
from headway.http.inference.operator_code import CallFailedError, OperatorCode, load_function
from headway.openai.routes import ends_stream
from headway.settings import Environment

__all__ = ["CheckedAnswer", "ResultCheck", "Validator", "load_function"]

log = logging.getLogger("headway.http.inference.validator")


@dataclass(frozen=True, slots=True)
class Validator:
    """Checks requests."""

    code: OperatorCode

    async def check(self, path: str, body: bytes | None, context: RequestContext) -> None:
        """Raises BadRequest for a request that the operator's function refuses, and where that function fails."""
        function = partial(self.code.function, path)
        call = partial(_call_with_request, function, body, context.tenant, context.class_name)
        await _check(self.code, call, HTTPStatus.BAD_REQUEST, "invalid_request")


@dataclass(frozen=True, slots=True)
class ResultCheck:
    """Checks whole answers in JSON, and event streams of at most ``most_bytes`` at their end."""

    code: OperatorCode
    most_bytes: int = Environment.check_result_bytes.default

    async def check(self, path: str, body: bytes, context: RequestContext, *, stream: bool = False) -> None:
        """Raises BadRequest for an answer that the operator's function refuses, and where that function fails."""
        function = partial(self.code.function, path)
        call = partial(_call_with_answer, function, body, stream, context.tenant, context.class_name)
        await _check(self.code, call, HTTPStatus.BAD_GATEWAY, "result_invalid")


class CheckedAnswer:
    """Stands between the application and the ``send`` of one request: holds a JSON answer until it is checked.

    The events of a stream pass as they come, but for the last one, which is held until all are checked. Errors and
    answers of another type pass.
    """

    def __init__(self, check: ResultCheck, path: str, context: RequestContext, send: Send) -> None:
        self._check = check
        self._path = path
        self._context = context
        self._send = send
        self._start: Message | None = None
        self._streams = self._refused = False
        self._parts: list[bytes] = []
        self._held_bytes = 0

    async def send(self, message: Message) -> None:
        """Take the next message of the response from the application."""
        if message["type"] == "http.response.start" and message["status"] < HTTPStatus.BAD_REQUEST:
            kind = Headers(raw=list(message.get("headers", ()))).get("content-type", "").partition(";")[0]
            kind = kind.strip().lower()
            self._streams = kind == "text/event-stream"
            if kind == "application/json" or kind.endswith("+json"):
                self._start = message
                return
        if message["type"] != "http.response.body" or not (self._start or self._streams):
            if not self._refused:
                await self._send(message)
            return
        part, last = message.get("body", b""), not message.get("more_body", False)
        self._held_bytes += len(part)
        if self._streams and self._held_bytes > self._check.most_bytes:
            text = f"The answer has more than {self._check.most_bytes} bytes, the most that this server checks."
            await self._end_stream(BadRequest(HTTPStatus.BAD_GATEWAY, text, "result_too_long"))
            if self._context.on_given_up is not None:
                self._context.on_given_up()  # the application is stopped: no client would get the rest
            return
        self._parts.append(part)
        if self._start is None and not last and not ends_stream(part):
            await self._send(message)
        elif self._start is None or last:
            await self._judge(message)

    async def _judge(self, last: Message) -> None:
        """Send the answer, or what is left of the stream, or the error in its place."""
        body, start, streams = b"".join(self._parts), self._start, self._streams
        self._start, self._streams, self._parts = None, False, []
        try:
            await self._check.check(self._path, body, self._context, stream=streams)
        except BadRequest as bad:
            if streams:
                await self._end_stream(bad)
            else:
                await answer(self._send, bad.status, bad.body(self._path), bad.headers)
            return
        if start is not None:
            await self._send(start)
            last = {"type": "http.response.body", "body": body, "more_body": False}
        await self._send(last)

    async def _end_stream(self, bad: BadRequest) -> None:
        """End a stream with an error event, and drop the rest of the application's messages."""
        self._streams, self._parts, self._refused = False, [], True
        self._context.calls_failed += 1  # the status of a stream does not tell it
        event = error_event(self._path, bad.status, bad.message, bad.code)
        await self._send({"type": "http.response.body", "body": event, "more_body": False})


async def _check(code: OperatorCode, call: Callable[[], object], refused: HTTPStatus, error_code: str) -> None:
    try:
        message = await code.complaint(call)
    except CallFailedError as failed:
        log.error("%s failed, and its request with it: %s", code.name, failed)
        text = "A check of this server failed. Its log has the cause."
        raise BadRequest(HTTPStatus.INTERNAL_SERVER_ERROR, text, "validator_failed") from None
    if message is not None:
        raise BadRequest(refused, message, error_code)


def _call_with_request(function: Callable[..., object], body: bytes | None, *whose: str | None) -> object:
    """Call the validator with the object in the body. Any other body is not checked: vLLM refuses it."""
    try:
        request: Any = {} if body is None else json.loads(body)
    except (ValueError, RecursionError):
        return None
    return function(request, *whose) if isinstance(request, dict) else None


def _call_with_answer(function: Callable[..., object], body: bytes, stream: bool, *whose: str | None) -> object:
    """Call the validator with the answer. Raises ValueError for an answer or an event that is no JSON."""
    if not stream:
        return function(json.loads(body), *whose)
    data = (line.removeprefix(b"data:").strip() for line in body.splitlines() if line.startswith(b"data:"))
    return function({"events": [json.loads(event) for event in data if event != b"[DONE]"]}, *whose)
