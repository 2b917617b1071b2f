"""The class, tenant, time-outs, size and prefix of a request, read from its headers and body.

The JSON body is searched, and parsed only where a search finds something to parse. Sizes are estimates that hold until
vLLM has rendered the prompt: four bytes of body count as a token; images and audio are not counted.

Which class a request may use is not checked here yet; keys and entitlements belong here. So the numeric priority
headers of other products are ignored: any client may send them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from headway.admission import RequestContext
from headway.api_errors import BadRequest
from headway.http.inference.header_values import check_values
from headway.http.inference.prompt_prefix import prompt_prefix
from headway.http.inference.timeouts import asked_timeouts
from headway_policies import Preset

_BYTES_PER_TOKEN = 4
_MEDIA = b";base64,"
_MAX_TYPE_BYTES = 100

#: An escaped ASCII letter, which no encoder writes by itself, and which may be part of a key.
_ESCAPED_LETTER = re.compile(rb"\\u00[4-7]")

#: A search of a body: plain bytes, which are found fast, and the pattern that decides from there on.
_Pattern = tuple[bytes, re.Pattern[bytes]]
_BACKGROUND: _Pattern = (b'"background"', re.compile(rb'"background"\s*:\s*true'))
_PROMPT_LIST: _Pattern = (b'"prompt', re.compile(rb'"prompt(?:_embeds)?"\s*:\s*\['))
_CONVERSATIONS: _Pattern = (b'"messages"', re.compile(rb'"messages"\s*:\s*\[\s*\['))
#: The routes whose body may hold several prompts, and how they are written there; the last takes the body of any route.
_SEVERAL: tuple[tuple[str, tuple[_Pattern, ...]], ...] = (
    ("/chat/completions", ()),
    ("/completions", (_PROMPT_LIST,)),
    ("/completions/batch", (_CONVERSATIONS,)),
    ("/invocations", (_PROMPT_LIST, _CONVERSATIONS)),
)
_STREAM: _Pattern = (b'"stream"', re.compile(rb'"stream"\s*:\s*true'))
_MAX_TOKENS: _Pattern = (b'"max_', re.compile(rb'"max_(?:completion_|output_)?tokens"\s*:\s*(\d{1,9})\b'))


def read_request_info(headers: Mapping[str, str], path: str, body: bytes | None, preset: Preset) -> RequestContext:
    """The RequestContext of a request; ``body`` is None when it is not JSON.

    Raises BadRequest for a class the preset does not have, an invalid time-out or x-headway-queue, or a value of one of
    these headers that is too long.
    """
    check_values(headers)
    size_bytes = 0 if body is None else len(body)
    if body is not None and _disguised(body):
        body = json.dumps(_parsed(body), ensure_ascii=False).encode(errors="replace")
    streams = body is not None and _find(_STREAM, body) is not None
    context = RequestContext(
        class_name=_class_name(headers, body, preset),
        tenant=headers.get("x-headway-tenant", ""),
        timeouts=asked_timeouts(headers, streams=streams),
        may_wait=_may_wait(headers),
    )
    if body is not None:
        _measure(context, path, body)
        if preset.ordering.by_prefix:
            context.prefix = prompt_prefix(path, body)
    context.prompt_bytes = size_bytes
    return context


def _class_name(headers: Mapping[str, str], body: bytes | None, preset: Preset) -> str:
    asked = headers.get("x-headway-class")
    if asked is None:
        tier = _service_tier(body)
        return (None if tier is None else preset.class_for_tier(tier)) or preset.default_class
    if asked.strip() not in preset.classes:
        known = ", ".join(preset.by_urgency())
        text = f"x-headway-class: there is no class {asked.strip()[:40]!r}; the classes are: {known}"
        raise BadRequest(HTTPStatus.BAD_REQUEST, text, "unknown_class")
    return asked.strip()


def _may_wait(headers: Mapping[str, str]) -> bool:
    value = headers.get("x-headway-queue", "yes").strip().lower()
    if value not in ("yes", "no"):
        text = f"x-headway-queue: yes or no is needed, not {value[:40]!r}"
        raise BadRequest(HTTPStatus.BAD_REQUEST, text, "bad_queue")
    return value == "yes"


def _measure(context: RequestContext, path: str, body: bytes) -> None:
    """Estimate prompts, bytes and tokens, which the engine knows only later, and whether the request is detached."""
    if path.endswith("/responses") and _find(_BACKGROUND, body):
        context.detached = _parsed(body).get("background") is True
    elif _several(path, body):
        context.prompts = _prompts(_parsed(body))
    context.max_tokens = _most_tokens(body)
    context.prompt_tokens = (len(body) - _media_bytes(body)) // _BYTES_PER_TOKEN // context.prompts


def _several(path: str, body: bytes) -> bool:
    """Whether the body may hold several prompts: only then is it parsed."""
    patterns = next((patterns for route, patterns in _SEVERAL if path.endswith(route)), ())
    return any(_find(pattern, body) is not None for pattern in patterns)


def _prompts(request: Mapping[str, Any]) -> int:
    """How many prompts a body has: texts, lists of tokens, embeddings, or whole conversations."""
    prompts, embeddings, messages = (request.get(key) for key in ("prompt", "prompt_embeds", "messages"))
    found = len(prompts) if isinstance(prompts, list) and not _all_of(prompts, int) else int(bool(prompts))
    found += len(embeddings) if isinstance(embeddings, list) else int(bool(embeddings))
    if isinstance(messages, list) and _all_of(messages, list):
        found += len(messages)
    return max(1, found)


def _all_of(items: list[Any], kind: type) -> bool:
    """Whether the first is of that kind: vLLM refuses a list of several kinds."""
    return bool(items) and isinstance(items[0], kind)


def _media_bytes(body: bytes) -> int:
    """The bytes of strings that hold a file: ``"data:image/png;base64,..."``. All else counts as text."""
    found, at = 0, body.find(_MEDIA)
    while at >= 0:
        begins = body.rfind(b'"', max(0, at - _MAX_TYPE_BYTES), at)
        ends = body.find(b'"', at)
        ends = len(body) if ends < 0 else ends
        if begins >= 0 and body.startswith(b"data:", begins + 1):
            found += ends - begins - 1
        at = body.find(_MEDIA, ends)
    return found


def _most_tokens(body: bytes) -> int | None:
    """The largest of the limits that the body names: several keys mean the same, and nested keys match, too."""
    hint, decides = _MAX_TOKENS
    at = body.find(hint)
    return None if at < 0 else max((int(found) for found in decides.findall(body, at)), default=None)


def _disguised(body: bytes) -> bool:
    """Whether keys may not be plain ASCII: escaped letters, UTF-16 or UTF-32."""
    return b"\0" in body[:4] or body[:2] in (b"\xff\xfe", b"\xfe\xff") or bool(_ESCAPED_LETTER.search(body))


def _find(pattern: _Pattern, body: bytes) -> re.Match[bytes] | None:
    hint, decides = pattern
    at = body.find(hint)
    return None if at < 0 else decides.search(body, at)


def _service_tier(body: bytes | None) -> str | None:
    """The body's ``service_tier``; the body is parsed only when the word occurs in it."""
    if body is None or b'"service_tier"' not in body:
        return None
    tier = _parsed(body).get("service_tier")
    return tier if isinstance(tier, str) else None


def _parsed(body: bytes) -> dict[str, Any]:
    """The body as an object; empty when it is none: vLLM answers with the error."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
