"""The ids and the trace of the request that is being served, in a context variable.

The trace is that of its header ``traceparent``, with the span of its caller (W3C Trace Context, level 2).
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

MAX_BYTES: Final = 128

#: Version, trace id, span id, flags; a version after 00 may have more fields.
_FORM = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[!-~]*)?")
_FIRST_VERSION = b"00"
_NO_VERSION = b"ff"


@dataclass(frozen=True, slots=True)
class TraceParent:
    """``trace_id`` has 32 and ``span_id`` 16 lower-case hexadecimal digits, neither is zero; ``flags`` is 0 to 255."""

    trace_id: str
    span_id: str
    flags: int


def parse_trace_parent(value: bytes) -> TraceParent | None:
    """The value of a header field; None if longer than MAX_BYTES, or against a rule of the standard."""
    found = _FORM.fullmatch(value) if len(value) <= MAX_BYTES else None
    if found is None:
        return None
    version, trace_id, span_id, flags, more = found.groups()
    if version == _NO_VERSION or (version == _FIRST_VERSION and more is not None):
        return None
    if not trace_id.strip(b"0") or not span_id.strip(b"0"):
        return None
    return TraceParent(trace_id.decode(), span_id.decode(), int(flags, 16))


@dataclass(frozen=True, slots=True)
class CurrentRequest:
    """``request_id`` is what the client sees; ``engine_id`` names its engine calls and is never used twice.

    ``trace`` is the span of the caller, where the request named one.
    """

    request_id: str
    engine_id: str
    trace: TraceParent | None = None


CURRENT_REQUEST: ContextVar[CurrentRequest | None] = ContextVar("headway_current_request", default=None)
