"""The most characters of each header that Headway reads.

64 characters hold every number, time-out and word that has a meaning here. Longer are a tenant, which may be an id of
another system, and a content type, whose boundary alone may have 70 characters (RFC 2046) beside a charset.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from headway.api_errors import BadRequest
from headway.http.inference.timeouts import TIMEOUT_HEADERS

MAX_CHARS: Final = 64
#: The most characters for each header that is read.
MAX_VALUE_CHARS: Final[Mapping[str, int]] = {
    **dict.fromkeys(TIMEOUT_HEADERS, MAX_CHARS),
    "x-headway-class": MAX_CHARS,
    "x-headway-queue": MAX_CHARS,
    "x-headway-tenant": 128,
    "content-type": 256,
}


def check_values(headers: Mapping[str, str]) -> None:
    """Raises BadRequest naming the header whose value is too long; the value is not repeated."""
    for name in MAX_VALUE_CHARS.keys() & headers.keys():
        if len(headers[name]) > MAX_VALUE_CHARS[name]:
            text = f"{name}: at most {MAX_VALUE_CHARS[name]} characters are allowed, not {len(headers[name])}"
            raise BadRequest(HTTPStatus.BAD_REQUEST, text, "header_too_long")
