"""The class of a request: what it asks for, within what its tenant is entitled to.

    asked      x-headway-class, else service_tier of the body, else the default class of the tenant or the preset
    effective  the asked class where the tenant has it, else the next less urgent one it has; the least urgent one where
               the tenant's budget is nearly used up

A listed proxy may name any class and tenant. Engine priorities that clients send have no effect:
the plugin alone sets the priority of an engine call. A strict server refuses them.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from msgspec import Raw

from headway.admission.request_context import BUDGET, LoweredClass, RequestContext
from headway.api_errors import BadRequest
from headway.http.access.identity import Identity
from headway.openai.asked import Asked
from headway.openai.fields import Fields, value_of
from headway_policies import Preset
from headway_policies.close_name import no_such

#: The headers in which vLLM, its router, LiteLLM and gateways take a numeric priority.
PRIORITY_HEADERS: Final = frozenset(
    {"x-vllm-priority", "x-priority", "x-request-priority", "x-litellm-priority", "x-gateway-priority"}
)
#: Tiers that only requests have, and the tier of their answers.
_ANSWERED: Final = {"auto": "default", "standard_only": "default", "fast": "priority"}
_USUAL_TIER: Final = "default"
#: The tiers of OpenAI's and Anthropic's APIs, which mean the default class where the preset has none for them.
_TIERS: Final = ("auto", "default", "flex", "scale", "priority", "fast", "standard_only")


def effective_class(
    headers: Mapping[str, str], asked: Asked, preset: Preset, identity: Identity | None
) -> tuple[str, LoweredClass | None]:
    """The class of a request, and the one that it asked for where it gets a less urgent one.

    Raises BadRequest for a class that the preset does not have, and for an unknown tier.
    """
    of_tier = _class_of_tier(asked.service_tier, preset)
    named = _asked_class(headers, preset) or of_tier
    wanted = named or _default_class(preset, identity)
    if identity is None or identity.trusted:
        return wanted, None
    given = identity.entitlement.effective_class(wanted, preset.by_urgency())
    if named is None or named == given:
        return given, None
    return given, LoweredClass(named, "no_key" if identity.key_id is None else "key")


def give_least_urgent(context: RequestContext, preset: Preset) -> None:
    """Give a request the least urgent class, which every tenant may use: its tenant's budget is nearly used up."""
    least = preset.by_urgency()[-1]
    if context.class_name in (None, least):
        return
    if context.lowered is None:  # else the reason of the first one stays
        context.lowered = LoweredClass(context.class_name, BUDGET)
    context.class_name = least
    context.service_tier = used_tier(context.asked, least, preset)


def used_tier(asked: Asked, class_name: str, preset: Preset) -> str | None:
    """The tier of the class really used, for a body that names one: the asked tier where it is of that class."""
    if asked.service_tier is None:
        return None
    tiers = [_ANSWERED.get(tier, tier) for tier in preset.classes[class_name].service_tiers]
    wanted = _ANSWERED.get(asked.service_tier, asked.service_tier)
    return wanted if wanted in tiers else next(iter(tiers), _USUAL_TIER)


def known_to_vllm(fields: Fields) -> Fields:
    """The fields of a body with a tier that vLLM knows: it refuses ``fast``, which means what ``priority`` does."""
    fast = value_of(fields.get("service_tier")) == "fast"
    return {**fields, "service_tier": Raw(b'"priority"')} if fast else fields


def refuse_priority(headers: Mapping[str, str], asked: Asked) -> None:
    """Raises BadRequest where the client sends an engine priority, whatever its value."""
    found = min(PRIORITY_HEADERS & headers.keys(), default="priority" if "priority" in asked.fields else None)
    if found is not None:
        text = f"{found}: this server sets priorities itself; leave it out, and name a class in x-headway-class"
        raise BadRequest(HTTPStatus.BAD_REQUEST, text, "priority_not_allowed", param=found)


def _asked_class(headers: Mapping[str, str], preset: Preset) -> str | None:
    value = headers.get("x-headway-class")
    if value is None:
        return None
    asked = value.strip()
    if asked not in preset.classes:
        text = f"x-headway-class: {no_such('class', asked, preset.by_urgency())}"
        raise BadRequest(HTTPStatus.BAD_REQUEST, text, "unknown_class", param="x-headway-class")
    return asked


def _class_of_tier(tier: str | None, preset: Preset) -> str | None:
    """The class of a tier, None where the preset has none for it."""
    found = None if tier is None else preset.class_for_tier(tier)
    if tier is not None and found is None and tier not in _TIERS:
        known = [own for terms in preset.classes.values() for own in terms.service_tiers]
        text = f"service_tier: {no_such('tier', tier, list(dict.fromkeys([*known, *_TIERS])))}"
        raise BadRequest(HTTPStatus.BAD_REQUEST, text, "unknown_tier", param="service_tier")
    return found


def _default_class(preset: Preset, identity: Identity | None) -> str:
    own = None if identity is None else identity.entitlement.default_class
    return own if own in preset.classes else preset.default_class
