"""What a client and an operator see of one request, in a form in which two servers can be compared."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Mapping
from typing import Any

from parity_corpus import Asked
from running_server import RunningServer

#: Of these the value has to be the same, of the others that the header is there.
_SAME = (
    "x-headway-class",
    "x-headway-reason",
    "x-should-retry",
    "content-type",
    "allow",
    "www-authenticate",
)
_THERE = ("x-headway-queue-ms", "x-headway-preset", "x-request-id", "retry-after")
_LIMITS = re.compile(r"^x-ratelimit-(limit|remaining)-")
_MADE_UP = re.compile(r"[0-9a-f]{16,}|(?<=Try again in )\d+(?= s)")


def observe(server: RunningServer, asked: Asked, key: str | None = None) -> dict[str, Any]:
    """Send a request, wait until it is over, and describe it."""
    before = _outcomes(server)
    seen = _exchange(server, asked, key)
    for _ in range(500):
        status = server.status()
        if not status["in_flight"] and not status["queued"]:
            break
        time.sleep(0.02)
    seen["outcomes"] = {
        name: count - before.get(name, 0) for name, count in _outcomes(server).items() if count != before.get(name, 0)
    }
    return seen


def _outcomes(server: RunningServer) -> dict[str, int]:
    classes = server.status()["classes"]
    return {f"{one['name']} {outcome}": count for one in classes for outcome, count in one["outcomes"].items()}


def _exchange(server: RunningServer, asked: Asked, key: str | None) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.putrequest(asked.method, asked.path)
        headers = dict(asked.headers) | ({} if key is None else {"authorization": f"Bearer {key}"})
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(asked.body)))
        connection.endheaders(asked.body or None)
        response = connection.getresponse()
        if asked.gone_after is not None:
            response.read(asked.gone_after)
            return {"status": response.status}
        text = response.read()
    finally:
        connection.close()
    given = {name.lower(): value for name, value in response.getheaders()}
    seen: dict[str, Any] = {"status": response.status}
    seen["headers"] = {name: given[name] for name in _SAME if name in given}
    seen["headers"] |= {name: True for name in _THERE if name in given}
    seen["rates"] = {name: value for name, value in given.items() if _LIMITS.match(name)}
    seen["body"] = _stream(text) if given.get("content-type", "").startswith("text/event-stream") else _whole(text)
    return seen


def _whole(text: bytes) -> Any:
    try:
        return _plain(json.loads(text))
    except ValueError:
        return text.decode("utf-8", "replace")[:200]


def _stream(text: bytes) -> dict[str, Any]:
    """The kinds of events in their order, each once, and what the last ones say of the use."""
    kinds, usage, errors = list[str](), list[Any](), list[Any]()
    for line in text.decode("utf-8", "replace").splitlines():
        if not line.startswith("data:"):
            continue
        said = line.removeprefix("data:").strip()
        event = json.loads(said) if said.startswith("{") else said
        kind = str(event.get("type") or event.get("object") or "error") if isinstance(event, dict) else said
        if kind not in kinds:
            kinds.append(kind)
        if isinstance(event, dict):
            usage += [event["usage"]] if event.get("usage") else []
            errors += [_plain(event)] if "error" in event else []
    return {"kinds": kinds, "usage": _plain(usage[-1:]), "errors": errors}


def _plain(value: Any, name: str = "") -> Any:
    """Without texts that a model made, times and made-up names."""
    if isinstance(value, Mapping):
        return {key: _plain(one, key) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one, name) for one in value]
    if name in (
        "created",
        "created_at",
        "completed_at",
        "id",
        "text",
        "content",
        "reasoning_content",
        "token",
        "bytes",
        "logprob",
    ):
        return type(value).__name__
    if name in (
        "tokens",
        "token_logprobs",
        "top_logprobs",
        "text_offset",
        "logprobs",
        "finish_reason",
        "stop_reason",
        "status",
    ):
        return "-"
    return _MADE_UP.sub("-", value) if isinstance(value, str) else value
