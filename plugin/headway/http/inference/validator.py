"""The operator's own checks of requests and of answers.

    HEADWAY_VALIDATOR      before a request is queued   a message: 400 ``invalid_request``
    HEADWAY_CHECK_RESULT   a whole JSON answer          a message: 502 ``result_invalid``

Each names a function ``package.module:function``, called as ``function(path, parsed, tenant, class_name)``. It returns
None or a message for the client, or raises ValueError with one. ``parsed`` is the JSON object; an empty one for a
request of another kind, a form with audio, say. Where the function itself fails, this request alone is answered with
500 ``validator_failed``: nothing passes unchecked. The log then names the function and the kind of error, nothing else.
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
from headway.api_errors import BadRequest, answer
from headway.http.inference.operator_code import CallFailedError, OperatorCode, load_function

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
    """Checks whole answers in JSON."""

    code: OperatorCode

    async def check(self, path: str, body: bytes, context: RequestContext) -> None:
        """Raises BadRequest for an answer that the operator's function refuses, and where that function fails."""
        function = partial(self.code.function, path)
        call = partial(_call_with_answer, function, body, context.tenant, context.class_name)
        await _check(self.code, call, HTTPStatus.BAD_GATEWAY, "result_invalid")


class CheckedAnswer:
    """Stands between the application and the ``send`` of one request: holds a JSON answer until it is checked.

    Errors, event streams and answers of another type pass as they come.
    """

    def __init__(self, check: ResultCheck, path: str, context: RequestContext, send: Send) -> None:
        self._check = check
        self._path = path
        self._context = context
        self._send = send
        self._start: Message | None = None
        self._parts: list[bytes] = []

    async def send(self, message: Message) -> None:
        """Take the next message of the response from the application."""
        if message["type"] == "http.response.start" and _is_checked(message):
            self._start = message
        elif self._start is None or message["type"] != "http.response.body":
            await self._send(message)
        else:
            self._parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                await self._finish(self._start)

    async def _finish(self, start: Message) -> None:
        body = b"".join(self._parts)
        self._start, self._parts = None, []
        try:
            await self._check.check(self._path, body, self._context)
        except BadRequest as bad:
            await answer(self._send, bad.status, bad.body(self._path), bad.headers)
            return
        await self._send(start)
        await self._send({"type": "http.response.body", "body": body, "more_body": False})


def _is_checked(start: Message) -> bool:
    kind = Headers(raw=list(start.get("headers", ()))).get("content-type", "").partition(";")[0].strip().lower()
    is_json = kind == "application/json" or kind.endswith("+json")
    return is_json and start["status"] < HTTPStatus.BAD_REQUEST


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


def _call_with_answer(function: Callable[..., object], body: bytes, *whose: str | None) -> object:
    """Call the validator with the answer. Raises ValueError for an answer that is no JSON."""
    return function(json.loads(body), *whose)
