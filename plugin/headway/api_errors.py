"""Refusals and errors in the format of the API that was called (OpenAI, Anthropic).

OpenAI's chat, completions and responses and Anthropic's messages each have their own error body and their own event
for an error in the middle of a stream.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from starlette.types import Send

from headway.errors import Refused

_Fields = Iterable[tuple[bytes, bytes]]
_JSON = (b"content-type", b"application/json")


class BadRequest(Exception):
    """The request cannot be served as it is: (status, message, code), and headers beside the content type."""

    def __init__(self, status: HTTPStatus, message: str, code: str, headers: _Fields = ()) -> None:
        super().__init__(message)
        self.status, self.message, self.code = status, message, code
        self.headers = [_JSON, *headers]


_OPENAI_TYPES = {
    HTTPStatus.BAD_REQUEST: "invalid_request_error",
    HTTPStatus.REQUEST_TIMEOUT: "timeout_error",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "invalid_request_error",
    HTTPStatus.REQUEST_URI_TOO_LONG: "invalid_request_error",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "invalid_request_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
    HTTPStatus.SERVICE_UNAVAILABLE: "service_unavailable_error",
    HTTPStatus.GATEWAY_TIMEOUT: "timeout_error",
}
_ANTHROPIC_TYPES = {
    HTTPStatus.BAD_REQUEST: "invalid_request_error",
    HTTPStatus.REQUEST_TIMEOUT: "timeout_error",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "request_too_large",
    HTTPStatus.REQUEST_URI_TOO_LONG: "request_too_large",
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: "request_too_large",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
    HTTPStatus.SERVICE_UNAVAILABLE: "overloaded_error",
    HTTPStatus.GATEWAY_TIMEOUT: "timeout_error",
}


def error_body(path: str, status: HTTPStatus, message: str, code: str) -> bytes:
    """The JSON body of an error response on this path."""
    return _json(_error(path, status, message, code))


def error_event(path: str, status: HTTPStatus, message: str, code: str) -> bytes:
    """The server-sent event that ends a stream on this path with an error."""
    if path.endswith("/messages"):
        return b"event: error\ndata: " + _json(_error(path, status, message, code)) + b"\n\n"
    if path.endswith("/responses"):
        event = {"type": "error", "code": code, "message": message, "param": None, "sequence_number": 0}
        return b"event: error\ndata: " + _json(event) + b"\n\n"
    return b"data: " + _json(_error(path, status, message, code)) + b"\n\ndata: [DONE]\n\n"


def refusal_headers(refused: Refused, class_name: str | None) -> list[tuple[bytes, bytes]]:
    """The headers that tell a client when to retry, or not to."""
    headers = [_JSON, (b"x-headway-reason", str(refused.reason).encode())]
    if class_name is not None:
        headers.append((b"x-headway-class", class_name.encode()))
    if refused.retry:
        headers.append((b"retry-after", str(refused.retry_after_s).encode()))
    else:
        headers.append((b"x-should-retry", b"false"))
    return headers


async def answer(send: Send, status: HTTPStatus, body: bytes, headers: _Fields = (_JSON,)) -> None:
    """Send a whole response with this body, whose length is added to the headers."""
    fields = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": int(status), "headers": fields})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _error(path: str, status: HTTPStatus, message: str, code: str) -> dict[str, Any]:
    if path.endswith("/messages"):
        kind = _ANTHROPIC_TYPES.get(status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}}
    kind = _OPENAI_TYPES.get(status, "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
