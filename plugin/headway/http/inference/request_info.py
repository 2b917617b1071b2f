"""Admission's knowledge of a request before its prompt is rendered: from its headers and its body, once.

The demands of the body are capped here, before the request waits for a seat.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from headway.admission import RequestContext, fields_prefix
from headway.api_errors import BadRequest
from headway.http.access.identity import Identity
from headway.http.inference.request_caps import check_caps, check_width, lowered
from headway.http.inference.request_class import effective_class, refuse_priority, used_tier
from headway.http.inference.request_rules import RequestRules
from headway.http.inference.timeouts import TIMEOUT_HEADERS, asked_timeouts
from headway.openai.asked import Asked, read_asked
from headway.openai.routes import Route
from headway_policies import Preset

#: The longest number, time-out or word that a header may have.
MAX_CHARS: Final = 64
#: The most characters of each header that is read. A tenant may be an id of another system; the boundary of a content
#: type alone may have 70 (RFC 2046), beside a charset.
MAX_VALUE_CHARS: Final[Mapping[str, int]] = {
    **dict.fromkeys(TIMEOUT_HEADERS, MAX_CHARS),
    "x-headway-class": MAX_CHARS,
    "x-headway-queue": MAX_CHARS,
    "x-headway-tenant": 128,
    "content-type": 256,
}
_USUAL_RULES = RequestRules()


def read_request_info(
    headers: Mapping[str, str],
    route: Route,
    body: bytes | None,
    preset: Preset,
    identity: Identity | None = None,
    rules: RequestRules = _USUAL_RULES,
) -> RequestContext:
    """The RequestContext of a request; ``body`` is None when it is not JSON, ``identity`` where there are no tenants.

    Raises BadRequest for a class the preset does not have, an unknown tier, an invalid time-out or x-headway-queue, a
    value of one of these headers that is too long, a parameter over its cap, more sequences than its tenant may ask
    for, and an engine priority where those are refused.
    """
    check_values(headers)
    asked = Asked(route) if body is None else read_asked(route, body)
    trusted = identity is not None and identity.trusted
    if rules.refuse_priority and not trusted:
        refuse_priority(headers, asked)
    class_name, lowered_class = effective_class(headers, asked, preset, identity)
    timeouts, may_wait = asked_timeouts(headers, streams=asked.streams), _may_wait(headers)
    caps = rules.caps if identity is None else lowered(rules.caps, identity.entitlement.caps)
    check_caps(asked, caps)
    if identity is not None:
        check_width(asked, identity.entitlement.caps)
    return RequestContext(
        class_name,
        headers.get("x-headway-tenant", "") if identity is None or trusted else identity.tenant,
        timeouts,
        asked,
        prefix=fields_prefix(route, asked.fields) if preset.ordering.by_prefix else (),
        may_wait=may_wait,
        share=1.0 if identity is None else identity.entitlement.share,
        key="" if identity is None else identity.key_id or "",
        lowered=lowered_class,
        service_tier=used_tier(asked, class_name, preset),
        most_tokens=caps.output_tokens,
    )


def check_values(headers: Mapping[str, str]) -> None:
    """Raises BadRequest naming the header whose value is too long; the value is not repeated."""
    for name in MAX_VALUE_CHARS.keys() & headers.keys():
        if len(headers[name]) > MAX_VALUE_CHARS[name]:
            text = f"{name}: at most {MAX_VALUE_CHARS[name]} characters are allowed, not {len(headers[name])}"
            raise BadRequest(HTTPStatus.BAD_REQUEST, text, "header_too_long")


def _may_wait(headers: Mapping[str, str]) -> bool:
    value = headers.get("x-headway-queue", "yes").strip().lower()
    if value not in ("yes", "no"):
        text = f"x-headway-queue: yes or no is needed, not {value[:40]!r}"
        raise BadRequest(HTTPStatus.BAD_REQUEST, text, "bad_queue", param="x-headway-queue")
    return value == "yes"
