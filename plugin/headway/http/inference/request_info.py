"""The class, tenant, time-outs, size and prefix of a request, read from its headers and body.

Sizes are estimates that hold until vLLM has rendered the prompt: four bytes of body count as a token; images and audio
are not counted. What the body asks for is capped here, before the request waits for a seat.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus

from headway.admission import RequestContext
from headway.api_errors import BadRequest
from headway.http.access.identity import Identity
from headway.http.inference.header_values import check_values
from headway.http.inference.prompt_prefix import prompt_prefix
from headway.http.inference.request_caps import check_caps, check_width, layers, lowered
from headway.http.inference.request_class import effective_class, refuse_priority, used_tier
from headway.http.inference.request_fields import (
    CONVERSATIONS,
    NO_FIELDS,
    RequestFields,
    count_prompts,
    is_list_of_lists,
    is_true,
    read_fields,
    whole_number,
)
from headway.http.inference.request_rules import RequestRules
from headway.http.inference.timeouts import asked_timeouts
from headway.openai.routes import Api, Route
from headway_policies import Preset

_BYTES_PER_TOKEN = 4
_MEDIA = b";base64,"
_MAX_TYPE_BYTES = 100
#: No model generates more; vLLM lowers what exceeds its context.
_MOST_TOKENS = 999_999_999
_USUAL_RULES = RequestRules()

#: An escaped ASCII letter, which no encoder writes by itself, and which may be part of a key.
_ESCAPED_LETTER = re.compile(rb"\\u00[4-7]")

_GRAMMARS = ("structured_outputs", "response_format", "text", "output_config", "tools")
_PLAIN_BYTES = 4096
#: What a grammar has that is not plain (vllm_adapter/grammars/plain.py), and an escape, which may hide it.
_CHOICES = (b"anyOf", b"oneOf")
_PLAIN_CHOICES = 16
_MULTIPLIES = re.compile(rb"pattern|regex|grammar|structural|Length|Items|Properties|imum|\\u")


def read_request_info(
    headers: Mapping[str, str],
    route: Route,
    body: bytes | None,
    preset: Preset,
    identity: Identity | None = None,
    rules: RequestRules = _USUAL_RULES,
) -> RequestContext:
    """The RequestContext of a request; ``body`` is None when it is not JSON, ``identity`` where there are no tenants.

    Raises BadRequest for a class the preset does not have, an invalid time-out or x-headway-queue, a value of one of
    these headers that is too long, a parameter over its cap, more sequences than its tenant may ask for, and an engine
    priority where those are refused.
    """
    check_values(headers)
    fields = NO_FIELDS if body is None else read_fields(body)
    trusted = identity is not None and identity.trusted
    if rules.refuse_priority and not trusted:
        refuse_priority(headers, fields)
    class_name = effective_class(headers, fields, preset, identity)
    context = RequestContext(
        class_name=class_name,
        tenant=headers.get("x-headway-tenant", "") if identity is None or trusted else identity.tenant,
        timeouts=asked_timeouts(headers, streams=is_true(fields.stream)),
        may_wait=_may_wait(headers),
    )
    caps = rules.caps
    if identity is not None:
        caps = lowered(caps, identity.entitlement.caps)
        context.share = identity.entitlement.share
    context.most_tokens = caps.output_tokens
    if body is not None:
        check_caps(fields, caps)
        context.service_tier = used_tier(fields, class_name, preset)
        _measure(context, route, body, fields)
        if identity is not None:
            check_width(context.prompts, context.answers, identity.entitlement.caps)
        if preset.ordering.by_prefix:
            context.prefix = prompt_prefix(route, _plain(body) if _disguised(body) else body)
        context.prompt_bytes = len(body)
    return context


def _may_wait(headers: Mapping[str, str]) -> bool:
    value = headers.get("x-headway-queue", "yes").strip().lower()
    if value not in ("yes", "no"):
        text = f"x-headway-queue: yes or no is needed, not {value[:40]!r}"
        raise BadRequest(HTTPStatus.BAD_REQUEST, text, "bad_queue", param="x-headway-queue")
    return value == "yes"


def _measure(context: RequestContext, route: Route, body: bytes, fields: RequestFields) -> None:
    """Estimate prompts and tokens, which the engine knows only later, and whether the request is detached."""
    context.detached = route.api is Api.RESPONSES and is_true(fields.background)
    context.prompts = _prompts(route, fields)
    context.streams = is_true(fields.stream)
    context.ranked = bool(fields.priority or fields.n_predict)
    context.late_seat = _has_large_grammar(fields)
    context.answers = max(1, whole_number(fields.n) or 1, whole_number(fields.best_of) or 1)
    context.asked_tokens = _most_tokens(fields)
    context.max_tokens = _may_use(context.asked_tokens, context.most_tokens)
    text = body if _is_utf8(body) else _plain(body)
    context.prompt_tokens = (len(text) - _media_bytes(text)) // _BYTES_PER_TOKEN // context.prompts


def _has_large_grammar(fields: RequestFields) -> bool:
    """Whether the engine's grammar of it may have to be compiled outside first: it is long, or may multiply."""
    grammars = (getattr(fields, name) for name in _GRAMMARS)
    return any(_may_be_large(bytes(raw)) for raw in grammars)


def _may_be_large(grammar: bytes) -> bool:
    if len(grammar) > _PLAIN_BYTES or _MULTIPLIES.search(grammar) is not None:
        return True
    return grammar.count(b",") >= _PLAIN_CHOICES and any(word in grammar for word in _CHOICES)


def _prompts(route: Route, fields: RequestFields) -> int:
    """How many prompts a body has: texts, lists of tokens, embeddings, or whole conversations."""
    found = 0
    for name in route.prompts:
        raw = getattr(fields, name)
        if name not in CONVERSATIONS or is_list_of_lists(raw):
            found += count_prompts(raw)
    return max(1, found)


def _most_tokens(fields: RequestFields) -> int | None:
    """The largest of the limits that the body names: several keys mean the same."""
    most = -1
    for _, one in layers(fields):
        for value in (one.max_tokens, one.max_completion_tokens, one.max_output_tokens):
            number = whole_number(value)
            if number is not None and number > most:
                most = number
    return None if most < 0 else min(most, _MOST_TOKENS)


def _may_use(asked: int | None, most_tokens: int | None) -> int | None:
    """The tokens that each answer may have, by the body and the cap: charges and estimates count with these."""
    return min((one for one in (asked, most_tokens) if one is not None), default=None)


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


def _is_utf8(body: bytes) -> bool:
    """Whether a JSON text is UTF-8; UTF-16 and UTF-32 have a zero byte, or a mark, at the beginning."""
    return b"\0" not in body[:4] and body[:2] not in (b"\xff\xfe", b"\xfe\xff")


def _disguised(body: bytes) -> bool:
    """Whether keys may not be plain ASCII: escaped letters, UTF-16 or UTF-32."""
    return not _is_utf8(body) or _ESCAPED_LETTER.search(body) is not None


def _plain(body: bytes) -> bytes:
    """The same JSON in UTF-8 without needless escapes; empty when it cannot be parsed: vLLM answers with the error."""
    try:
        return json.dumps(json.loads(body), ensure_ascii=False).encode(errors="replace")
    except (ValueError, RecursionError):
        return b""
