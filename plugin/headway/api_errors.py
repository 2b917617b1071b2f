"""Refusals and errors in the format of the API that was called (OpenAI, Anthropic), and the table of all of them.

OpenAI's chat, completions and responses and Anthropic's messages each have their own error body and their own event
for an error in the middle of a stream. ``TYPES`` gives the word that each API has for a status, ``ERRORS`` the status
and the advice of each code; reference/errors.md of the documentation shows both.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final

from starlette.types import Send

from headway.errors import TERMS, Refused
from headway.openai.routes import Api, route_at
from headway_policies.desk.retry_after import Spread, retry_after_ms

_Fields = Iterable[tuple[bytes, bytes]]
_JSON = (b"content-type", b"application/json")
_NEVER = (b"x-should-retry", b"false")


@dataclass(frozen=True, slots=True)
class ErrorTypes:
    """The ``type`` of an error in the body of each API."""

    openai: str
    anthropic: str


#: By status. The SDKs choose their exception by the status alone; programs also read the type.
TYPES: Final[Mapping[HTTPStatus, ErrorTypes]] = {
    HTTPStatus.BAD_REQUEST: ErrorTypes("invalid_request_error", "invalid_request_error"),
    HTTPStatus.UNAUTHORIZED: ErrorTypes("authentication_error", "authentication_error"),
    HTTPStatus.FORBIDDEN: ErrorTypes("permission_error", "permission_error"),
    HTTPStatus.NOT_FOUND: ErrorTypes("not_found_error", "not_found_error"),
    HTTPStatus.REQUEST_TIMEOUT: ErrorTypes("timeout_error", "timeout_error"),
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ErrorTypes("invalid_request_error", "request_too_large"),
    HTTPStatus.REQUEST_URI_TOO_LONG: ErrorTypes("invalid_request_error", "request_too_large"),
    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE: ErrorTypes("invalid_request_error", "request_too_large"),
    HTTPStatus.TOO_MANY_REQUESTS: ErrorTypes("rate_limit_error", "rate_limit_error"),
    HTTPStatus.SERVICE_UNAVAILABLE: ErrorTypes("service_unavailable_error", "overloaded_error"),
    HTTPStatus.GATEWAY_TIMEOUT: ErrorTypes("timeout_error", "timeout_error"),
}
_CLIENT_ERROR = ErrorTypes("invalid_request_error", "invalid_request_error")
_SERVER_ERROR = ErrorTypes("server_error", "api_error")


class Advice(StrEnum):
    """The advice of an error on another try, and the header for it. NONE leaves the choice to the client."""

    LATER = "Retry-After"
    NEVER = "x-should-retry: false"
    NONE = "-"


@dataclass(frozen=True, slots=True)
class ErrorTerms:
    """The status and the advice of one code."""

    status: HTTPStatus
    advice: Advice = Advice.NONE

    @property
    def types(self) -> ErrorTypes:
        """The words of the status in both APIs."""
        return types_of(self.status)


#: Every error that Headway answers with on an inference route, by its code. A reason of a refusal is its code.
ERRORS: Final[Mapping[str, ErrorTerms]] = {
    "bad_queue": ErrorTerms(HTTPStatus.BAD_REQUEST),
    "bad_timeout": ErrorTerms(HTTPStatus.BAD_REQUEST),
    "body_not_utf8": ErrorTerms(HTTPStatus.BAD_REQUEST),
    "body_too_complex": ErrorTerms(HTTPStatus.BAD_REQUEST),
    "header_too_long": ErrorTerms(HTTPStatus.BAD_REQUEST),
    "invalid_parameter": ErrorTerms(HTTPStatus.BAD_REQUEST),
    "invalid_request": ErrorTerms(HTTPStatus.BAD_REQUEST),
    "parameter_too_large": ErrorTerms(HTTPStatus.BAD_REQUEST),
    "priority_not_allowed": ErrorTerms(HTTPStatus.BAD_REQUEST),
    "schema_too_deep": ErrorTerms(HTTPStatus.BAD_REQUEST),
    "unknown_class": ErrorTerms(HTTPStatus.BAD_REQUEST),
    "unknown_tier": ErrorTerms(HTTPStatus.BAD_REQUEST),
    "unsupported": ErrorTerms(HTTPStatus.BAD_REQUEST),
    "invalid_api_key": ErrorTerms(HTTPStatus.UNAUTHORIZED),
    "class_not_allowed": ErrorTerms(HTTPStatus.FORBIDDEN),
    "cross_origin": ErrorTerms(HTTPStatus.FORBIDDEN),
    "operator_needed": ErrorTerms(HTTPStatus.FORBIDDEN),
    "batch_not_found": ErrorTerms(HTTPStatus.NOT_FOUND),
    "batches_off": ErrorTerms(HTTPStatus.NOT_FOUND),
    "file_not_found": ErrorTerms(HTTPStatus.NOT_FOUND),
    "route_not_found": ErrorTerms(HTTPStatus.NOT_FOUND),
    "method_not_allowed": ErrorTerms(HTTPStatus.METHOD_NOT_ALLOWED),
    "body_too_slow": ErrorTerms(HTTPStatus.REQUEST_TIMEOUT),
    "head_too_slow": ErrorTerms(HTTPStatus.REQUEST_TIMEOUT),
    "batch_ended": ErrorTerms(HTTPStatus.CONFLICT, Advice.NEVER),
    "file_in_use": ErrorTerms(HTTPStatus.CONFLICT, Advice.NEVER),
    "body_too_large": ErrorTerms(HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    "parameter_too_long": ErrorTerms(HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    "tenant_storage_full": ErrorTerms(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, Advice.NEVER),
    "target_too_long": ErrorTerms(HTTPStatus.REQUEST_URI_TOO_LONG),
    "headers_too_large": ErrorTerms(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
    "rate_limit_exceeded": ErrorTerms(HTTPStatus.TOO_MANY_REQUESTS, Advice.LATER),
    "budget_exceeded": ErrorTerms(HTTPStatus.TOO_MANY_REQUESTS, Advice.LATER),
    "too_many_batches": ErrorTerms(HTTPStatus.TOO_MANY_REQUESTS, Advice.LATER),
    "retry_budget": ErrorTerms(HTTPStatus.TOO_MANY_REQUESTS, Advice.NEVER),
    "too_many_wrong_keys": ErrorTerms(HTTPStatus.TOO_MANY_REQUESTS, Advice.LATER),
    "validator_failed": ErrorTerms(HTTPStatus.INTERNAL_SERVER_ERROR, Advice.NEVER),
    "fallback_broke_off": ErrorTerms(HTTPStatus.BAD_GATEWAY),
    "instance_lost": ErrorTerms(HTTPStatus.BAD_GATEWAY),
    "result_invalid": ErrorTerms(HTTPStatus.BAD_GATEWAY),
    "result_too_long": ErrorTerms(HTTPStatus.BAD_GATEWAY),
    "too_many_connections": ErrorTerms(HTTPStatus.SERVICE_UNAVAILABLE, Advice.LATER),
    "bodies_full": ErrorTerms(HTTPStatus.SERVICE_UNAVAILABLE, Advice.LATER),
    "storage_locked": ErrorTerms(HTTPStatus.SERVICE_UNAVAILABLE, Advice.LATER),
    "storage_full": ErrorTerms(HTTPStatus.INSUFFICIENT_STORAGE, Advice.NEVER),
    **{
        str(reason): ErrorTerms(status, Advice.LATER if retry else Advice.NEVER)
        for reason, (status, retry, _) in TERMS.items()
    },
}


class BadRequest(Exception):
    """The request cannot be served as it is: (status, message, code), and headers beside the content type.

    ``param`` names the field of the body, or the header, that is wrong. Where the table says that another try cannot
    help, the headers say it too.
    """

    def __init__(
        self, status: HTTPStatus, message: str, code: str, headers: _Fields = (), *, param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.param = status, message, code, param
        terms = ERRORS.get(code)
        never = [_NEVER] if terms is not None and terms.advice is Advice.NEVER else []
        self.headers = [_JSON, *headers, *never]

    def body(self, path: str) -> bytes:
        """The JSON body of the response on this path."""
        return error_body(path, self.status, self.message, self.code, self.param)


def types_of(status: HTTPStatus) -> ErrorTypes:
    """The words of a status in both APIs; for a status outside of the table those of its hundred."""
    return TYPES.get(status) or (_SERVER_ERROR if status >= HTTPStatus.INTERNAL_SERVER_ERROR else _CLIENT_ERROR)


def error_body(path: str, status: HTTPStatus, message: str, code: str, param: str | None = None) -> bytes:
    """The JSON body of an error response on this path; ``param`` is the field or header that is wrong."""
    return _json(_error(path, status, message, code, param))


def error_event(path: str, status: HTTPStatus, message: str, code: str) -> bytes:
    """The server-sent event that ends a stream on this path with an error."""
    api = route_at(path).api
    if api is Api.ANTHROPIC:
        return b"event: error\ndata: " + _json(_error(path, status, message, code, None)) + b"\n\n"
    if api is Api.RESPONSES:
        event = {"type": "error", "code": code, "message": message, "param": None, "sequence_number": 0}
        return b"event: error\ndata: " + _json(event) + b"\n\n"
    return b"data: " + _json(_error(path, status, message, code, None)) + b"\n\ndata: [DONE]\n\n"


#: Spreads the advice of refusals within their second. Refusals are made on the event loop's thread only.
_SPREAD = Spread()


def refusal_headers(refused: Refused, class_name: str | None) -> list[tuple[bytes, bytes]]:
    """The headers that tell a client when to retry, or not to.

    ``retry-after-ms`` is the same time before it was rounded up to a whole second: OpenAI's and Anthropic's SDKs wait
    exactly as long as they are told, so those refused together would come back together.
    """
    headers = [_JSON, (b"x-headway-reason", str(refused.reason).encode())]
    if class_name is not None:
        headers.append((b"x-headway-class", class_name.encode()))
    if refused.retry:
        headers.append((b"retry-after", str(refused.retry_after_s).encode()))
        headers.append((b"retry-after-ms", str(retry_after_ms(refused.retry_after_s, _SPREAD)).encode()))
    else:
        headers.append(_NEVER)
    return headers


async def answer(send: Send, status: HTTPStatus, body: bytes, headers: _Fields = (_JSON,)) -> None:
    """Send a whole response with this body, whose length is added to the headers."""
    fields = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": int(status), "headers": fields})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _error(path: str, status: HTTPStatus, message: str, code: str, param: str | None) -> dict[str, Any]:
    types = types_of(status)
    if route_at(path).api is Api.ANTHROPIC:
        return {"type": "error", "error": {"type": types.anthropic, "message": message}}
    return {"error": {"message": message, "type": types.openai, "param": param, "code": code}}


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
