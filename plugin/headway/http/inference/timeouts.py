"""The time-outs of a request, by its headers.

    queue        x-headway-queue-timeout-seconds, x-llm-d-inference-ttl
    first token  x-headway-first-token-timeout-seconds, x-llm-d-slo-ttft-ms, x-slo-ttft-ms
    stall        x-headway-stall-timeout-seconds
    total        x-request-timeout-seconds, x-litellm-timeout, x-envoy-upstream-rq-timeout-ms, grpc-timeout

Of several for one stage the smallest holds. An invalid value is refused, in the headers of other products as in
Headway's: a deadline that is silently lost is worse than an error.

x-stainless-read-timeout is what OpenAI's and Anthropic's SDKs send by default, so it is the weakest: it counts only
where no header above names the stage, and an invalid value is ignored. The header bounds the time between two bytes:
for a whole answer the total, for a stream the first token.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus

from headway.api_errors import BadRequest
from headway_policies.request import NO_TIMEOUTS, Timeouts

_SDK_HEADER = "x-stainless-read-timeout"
_DURATION = re.compile(r"([0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(ns|us|µs|ms|s|m|h)")
_DURATION_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_GRPC = re.compile(r"([0-9]{1,8})([HMSmun])")
_GRPC_UNITS_S = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}


def seconds(value: str) -> float:
    """``20`` or ``2.5``, in seconds; NaN for anything else."""
    try:
        return math.nan if "_" in value else float(value)
    except ValueError:
        return math.nan


def milliseconds(value: str) -> float:
    """A text of milliseconds in seconds; NaN for a text that is no number."""
    return seconds(value) / 1000


def duration(value: str) -> float:
    """Go's ``1m30s`` or ``500ms``, in seconds; NaN for anything else. Each part is matched where the last one ends."""
    total_s, at = 0.0, 0
    while part := _DURATION.match(value, at):
        total_s += float(part[1]) * _DURATION_UNITS_S[part[2]]
        at = part.end()
    return total_s if value and at == len(value) else math.nan


def grpc(value: str) -> float:
    """gRPC's ``20S`` or ``500m``, in seconds; NaN for anything else."""
    found = _GRPC.fullmatch(value)
    return math.nan if found is None else int(found[1]) * _GRPC_UNITS_S[found[2]]


_Reader = Callable[[str], float]
_Readers = tuple[tuple[str, _Reader], ...]

_NEEDED: dict[_Reader, str] = {
    seconds: "a positive number of seconds",
    milliseconds: "a positive number of milliseconds",
    duration: "a positive duration like 1m30s",
    grpc: "a positive gRPC time-out like 20S",
}

#: For each stage the headers that may bound it, and how each is read.
QUEUE: _Readers = (("x-headway-queue-timeout-seconds", seconds), ("x-llm-d-inference-ttl", duration))
FIRST_TOKEN: _Readers = (
    ("x-headway-first-token-timeout-seconds", seconds),
    ("x-llm-d-slo-ttft-ms", milliseconds),
    ("x-slo-ttft-ms", milliseconds),
)
STALL: _Readers = (("x-headway-stall-timeout-seconds", seconds),)
TOTAL: _Readers = (
    ("x-request-timeout-seconds", seconds),
    ("x-litellm-timeout", seconds),
    ("x-envoy-upstream-rq-timeout-ms", milliseconds),
    ("grpc-timeout", grpc),
)
TIMEOUT_HEADERS = frozenset(name for readers in (QUEUE, FIRST_TOKEN, STALL, TOTAL) for name, _ in readers) | {
    _SDK_HEADER
}


def asked_timeouts(headers: Mapping[str, str], *, streams: bool) -> Timeouts:
    """The time-outs a client asks for. Raises BadRequest naming the header of an invalid value."""
    if TIMEOUT_HEADERS.isdisjoint(headers):
        return NO_TIMEOUTS
    queue_s, first_token_s, stall_s, total_s = (
        _smallest(headers, readers) for readers in (QUEUE, FIRST_TOKEN, STALL, TOTAL)
    )
    silence_s = _positive(seconds(headers.get(_SDK_HEADER, "")))
    if streams:
        first_token_s = silence_s if first_token_s is None else first_token_s
    else:
        total_s = silence_s if total_s is None else total_s
    found = Timeouts(queue_s, first_token_s, stall_s, total_s)
    return NO_TIMEOUTS if found == NO_TIMEOUTS else found


def _smallest(headers: Mapping[str, str], readers: _Readers) -> float | None:
    given = [_read(name, headers[name], read) for name, read in readers if name in headers]
    return min(given, default=None)


def _read(name: str, value: str, read: _Reader) -> float:
    timeout_s = _positive(read(value.strip()))
    if timeout_s is None:
        text = f"{name}: {_NEEDED[read]} is needed, not {value[:40]!r}"
        raise BadRequest(HTTPStatus.BAD_REQUEST, text, "bad_timeout")
    return timeout_s


def _positive(timeout_s: float) -> float | None:
    return timeout_s if 0 < timeout_s < math.inf else None
