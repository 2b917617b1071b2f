"""The files of OpenAI's Batch API, line by line: a request of the input, and its answer or error in the output.

A line of an output begins with the number of its line in the input, ``{"id":"batch_req_7"``: an output that was
begun says by itself which requests are over.

Whether an answer is final, or its line comes again, is said here for all that run lines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from msgspec import Raw, Struct

from headway.openai.fields import is_true
from headway.openai.routes import ROUTES, Seats

#: The longest line of an input.
MAX_LINE_BYTES: Final = 4 * 1024 * 1024
MAX_LINES: Final = 1_000_000
MAX_ID_CHARS: Final = 256
#: The routes that a line may name: all that generate, embed or score and take JSON.
ENDPOINTS: Final = tuple(route.path for route in ROUTES if route.seats in (Seats.EACH, Seats.ONE) and not route.form)

#: Errors of the server that are no refusals are tried again so often.
_MOST_TRIES: Final = 3
_WAITS_S: Final = (0.2, 60.0)
_DIGITS: Final = 9  # of a number of seconds that is read
#: Refusals for want of room.
REFUSALS: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})

#: Some editors begin a file with it.
_BOM: Final = b"\xef\xbb\xbf"
_NUMBER = re.compile(rb'\{"id":"batch_req_([0-9]{1,9})"')


class LineError(ValueError):
    """A line that cannot be run. ``param`` is the field that is wrong."""

    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.param = code, message, param


class BatchLine(Struct, frozen=True):
    """A request of an input file."""

    custom_id: str
    url: str
    body: Raw
    method: str = "POST"


_LINE: Final = msgspec.json.Decoder(BatchLine)
_BODY: Final = msgspec.json.Decoder(dict[str, Raw])
_ANY: Final = msgspec.json.Decoder()
_WRONG: Final = (msgspec.MsgspecError, ValueError, RecursionError)


def read_line(text: bytes, endpoint: str | None = None) -> BatchLine:
    """The request of a line, checked against a given endpoint. Raises LineError."""
    try:
        line = _LINE.decode(text.removeprefix(_BOM))
    except _WRONG as error:
        raise LineError("invalid_json_line", f"The line is no request of a batch: {str(error)[:200]}.") from None
    try:
        body = _BODY.decode(line.body)
    except _WRONG:
        raise LineError("invalid_json_line", "body: a JSON object is needed.", "body") from None
    if not 0 < len(line.custom_id) <= MAX_ID_CHARS or not line.custom_id.isprintable():
        wanted = f"custom_id: a printable text of 1 to {MAX_ID_CHARS} characters is needed."
        raise LineError("invalid_custom_id", wanted, "custom_id")
    if line.method != "POST":
        raise LineError("invalid_method", "method: POST is needed.", "method")
    if line.url not in (ENDPOINTS if endpoint is None else (endpoint,)):
        raise LineError("invalid_url", f"url: {endpoint or ' or '.join(ENDPOINTS)} is needed.", "url")
    for name in ("stream", "background"):
        if is_true(body.get(name)):
            raise LineError("unsupported", f"body.{name}: the lines of a batch have whole answers.", f"body.{name}")
    return line


def again_after_s(status: int, headers: Mapping[str, str], tries: int) -> float | None:
    """The wait before a line is sent again, after so many tries; None where its answer is final.

    A refusal for want of room is never final, however often it comes, nor is one for a budget that comes back; any
    other error of the server is after a few tries. Header names are in lower case, or found in any.
    """
    text = headers.get("retry-after", "")
    waits = status in REFUSALS and headers.get("x-headway-reason") == "budget" and text
    if headers.get("x-should-retry") == "false" and not waits:
        return None
    if status in REFUSALS:
        asked_s = float(text[:_DIGITS]) if text.isascii() and text.isdecimal() else 1.0
        return min(max(asked_s, _WAITS_S[0]), _WAITS_S[1])
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR and tries < _MOST_TRIES:
        return float(2**tries)
    return None


def answer_line(number: int, custom_id: str, status: int, request_id: str, body: bytes) -> bytes:
    """The line of an answer, or of a refusal; a body that is no JSON becomes a text."""
    try:
        _ANY.decode(body)
        value = Raw(body.replace(b"\n", b" ").replace(b"\r", b" "))  # valid JSON has none inside of a string
    except _WRONG:
        value = Raw(msgspec.json.encode(body.decode(errors="replace")))
    response = {"status_code": status, "request_id": request_id, "body": value}
    return _output(number, custom_id, response, None)


def error_line(number: int, custom_id: str, code: str, message: str) -> bytes:
    """The line of a request without an answer."""
    return _output(number, custom_id, None, {"code": code, "message": message})


def number_of(line: bytes) -> int | None:
    """The number of the request that a line of an output is about."""
    found = _NUMBER.match(line)
    return None if found is None else int(found[1])


def _output(number: int, custom_id: str, response: object, error: object) -> bytes:
    line = {"id": f"batch_req_{number}", "custom_id": custom_id, "response": response, "error": error}
    return msgspec.json.encode(line) + b"\n"
