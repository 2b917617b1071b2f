"""The class of a request within its entitlement, the tier of its answer, and priorities that clients send."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgi_client import posted
from engines import ServingEngine
from msgspec import Raw
from small_presets import small_preset, terms
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from virtual_time import on_virtual_time

import headway
from headway.admission.request_context import LoweredClass, RequestContext
from headway.api_errors import BadRequest
from headway.engine.fake import FakeParams
from headway.http.access.identity import Identity
from headway.http.inference.middleware import AdmissionMiddleware
from headway.http.inference.request_class import PRIORITY_HEADERS, known_to_vllm
from headway.http.inference.request_info import read_request_info
from headway.http.inference.request_rules import RequestRules
from headway.openai.routes import route_at
from headway_policies import bundled_presets
from headway_policies.entitlement import Entitlement, RequestCaps

CHAT = "/v1/chat/completions"
STRICT = RequestRules(refuse_priority=True)
ALL = Identity(Entitlement("acme"))
LOW = Identity(Entitlement("acme", classes=frozenset({"normal", "batch"}), default_class="batch", share=2.5), "acme-1")
PROXY = Identity(Entitlement("proxy", classes=frozenset({"batch"}), default_class="batch"), trusted=True)


def context(
    body: Any = None, headers: dict[str, str] | None = None, identity: Identity | None = None, **more: Any
) -> RequestContext:
    """The context of a request with this body."""
    raw = json.dumps({} if body is None else body).encode()
    return read_request_info(headers or {}, route_at(CHAT), raw, more.pop("preset", small_preset()), identity, **more)


@pytest.mark.parametrize(
    ("identity", "asked", "expected"),
    [
        (None, "realtime", "realtime"),
        (ALL, "realtime", "realtime"),
        (LOW, "realtime", "normal"),
        (LOW, " realtime ", "normal"),
        (LOW, "normal", "normal"),
        (LOW, "batch", "batch"),
        (PROXY, "realtime", "realtime"),
    ],
)
def test_the_class_is_never_above_the_entitled_one(identity: Identity | None, asked: str, expected: str) -> None:
    """By header; a listed proxy is believed, and so is everybody where there are no tenants."""
    assert context(headers={"x-headway-class": asked}, identity=identity).class_name == expected


@pytest.mark.parametrize(
    ("identity", "headers", "body", "lowered"),
    [
        (LOW, {"x-headway-class": "realtime"}, {}, LoweredClass("realtime", "key")),
        (LOW, {}, {"service_tier": "priority"}, LoweredClass("realtime", "key")),
        (LOW, {"x-headway-class": "batch"}, {"service_tier": "priority"}, None),
        (LOW, {"x-headway-class": "normal"}, {}, None),
        (Identity(Entitlement("a", frozenset({"batch"}))), {"x-headway-class": "normal"}, {},
         LoweredClass("normal", "no_key")),
        (Identity(Entitlement("a", frozenset({"batch"}))), {}, {}, None),
        (ALL, {"x-headway-class": "realtime"}, {}, None),
        (PROXY, {"x-headway-class": "realtime"}, {}, None),
        (None, {"x-headway-class": "realtime"}, {}, None),
    ],
)  # fmt: skip
def test_a_class_above_the_key_is_known_with_its_reason(
    identity: Identity | None, headers: dict[str, str], body: dict[str, str], lowered: LoweredClass | None
) -> None:
    """By header or tier; a request that names no class has asked for none."""
    assert context(body, headers, identity).lowered == lowered


@pytest.mark.parametrize(("identity", "expected"), [(None, "realtime"), (ALL, "realtime"), (LOW, "normal")])
def test_a_tier_leads_to_a_class_within_the_entitlement(identity: Identity | None, expected: str) -> None:
    """By the body, however it is written; the header is stronger."""
    assert context({"service_tier": "priority"}, identity=identity).class_name == expected
    asked = {"x-headway-class": "batch"}
    assert context({"service_tier": "priority"}, asked, identity).class_name == "batch"


@pytest.mark.parametrize(
    ("identity", "expected"),
    [
        (None, "normal"),
        (ALL, "normal"),
        (LOW, "batch"),
        (PROXY, "batch"),
        (Identity(Entitlement("acme", default_class="of another preset")), "normal"),
        (Identity(Entitlement("acme", classes=frozenset({"batch"}))), "batch"),
        (Identity(Entitlement("acme", classes=frozenset({"batch"}), default_class="realtime")), "batch"),
        (Identity(Entitlement("acme", classes=frozenset())), "batch"),
    ],
)
def test_a_request_that_names_no_class_has_the_tenants_default(identity: Identity | None, expected: str) -> None:
    """Where the preset has it, and never above the entitlement."""
    assert context(identity=identity).class_name == expected


def test_an_unknown_class_is_an_error_for_every_tenant() -> None:
    """The header is named as the parameter, with the first 40 characters of the class and the classes there are."""
    with pytest.raises(BadRequest, match=f"'{'x' * 40}'.*realtime, normal, batch") as caught:
        context(headers={"x-headway-class": "x" * 41}, identity=LOW)
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, "unknown_class", "x-headway-class")


@pytest.mark.parametrize(("identity", "expected"), [(None, "other"), (LOW, "acme"), (PROXY, "other")])
def test_only_a_listed_proxy_names_a_tenant(identity: Identity | None, expected: str) -> None:
    """The tenant of a key is the key's."""
    assert context(headers={"x-headway-tenant": "other"}, identity=identity).tenant == expected


def test_a_tenant_brings_its_share_and_its_caps() -> None:
    """Both are its entitlement's."""
    assert context(identity=LOW).share == 2.5
    capped = Identity(Entitlement("acme", caps=RequestCaps(sequences=1)))
    with pytest.raises(BadRequest, match=r"^n: at most 1"):
        context({"n": 2}, identity=capped)


TIERS = bundled_presets()["balanced"]


@pytest.mark.parametrize(
    ("identity", "asked", "class_name", "tier"),
    [
        (None, "priority", "realtime", "priority"),
        (None, "fast", "realtime", "priority"),
        (None, "auto", "normal", "default"),
        (None, "default", "normal", "default"),
        (None, "scale", "normal", "scale"),
        (None, "standard_only", "normal", "default"),
        (None, "flex", "batch", "flex"),
        (LOW, "priority", "normal", "default"),
        (LOW, "fast", "normal", "default"),
        (LOW, None, "batch", None),
        (None, 7, "normal", None),
        (None, ["priority"], "normal", None),
    ],
)
def test_the_tier_of_the_answer_is_that_of_the_class_really_used(
    identity: Identity | None, asked: object, class_name: str, tier: str | None
) -> None:
    """An alias is answered with its meaning, and a body that names no tier with none."""
    body = {} if asked is None else {"service_tier": asked}
    found = context(body, identity=identity, preset=TIERS)
    assert (found.class_name, found.service_tier) == (class_name, tier)


@pytest.mark.parametrize("identity", [None, LOW, PROXY])
def test_an_unknown_tier_is_an_error_that_names_the_known_ones(identity: Identity | None) -> None:
    """Whoever sends it: it would run as the default class, and its sender would never know."""
    with pytest.raises(BadRequest, match=r"^service_tier: there is no tier 'priorty'; .*flex") as caught:
        context({"service_tier": "priorty"}, identity=identity, preset=TIERS)
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, "unknown_tier", "service_tier")
    assert caught.value.message.endswith("; did you mean priority?")


def test_a_header_that_asks_for_less_changes_the_tier_of_the_answer() -> None:
    """The tier used counts, not that of the body."""
    assert context({"service_tier": "fast"}, {"x-headway-class": "batch"}, preset=TIERS).service_tier == "flex"


def test_a_class_without_a_tier_is_answered_as_the_usual_one() -> None:
    """A preset need not name any."""
    plain = small_preset(classes={"only": terms(1)})
    assert context({"service_tier": "priority"}, preset=plain).service_tier == "default"


# ------------------------------------------------------------------ priorities of the engine


@pytest.mark.parametrize("value", [0, -(2**63), None, "x"])
def test_a_strict_server_refuses_a_priority_in_the_body(value: object) -> None:
    """By its presence, whatever it is; another server ignores it."""
    with pytest.raises(BadRequest) as caught:
        context({"priority": value}, rules=STRICT)
    assert (caught.value.status, caught.value.code, caught.value.param) == (400, "priority_not_allowed", "priority")
    found, usual = context({"priority": value}), context({"p": value})
    assert (found.class_name, found.tenant, found.asked.prompts) == (usual.class_name, usual.tenant, 1)


@pytest.mark.parametrize("header", sorted(PRIORITY_HEADERS))
def test_a_strict_server_refuses_a_priority_in_a_header(header: str) -> None:
    """Of any product, and names it."""
    with pytest.raises(BadRequest) as caught:
        context(headers={header: "0"}, rules=STRICT)
    assert (caught.value.code, caught.value.param) == ("priority_not_allowed", header)
    assert context(headers={header: "0"}) == context()


@pytest.mark.parametrize("body", [{}, {"messages": [{"priority": 1}]}, {"x-priority": 1}])
def test_a_strict_server_takes_what_only_speaks_of_a_priority(body: dict[str, Any]) -> None:
    """A nested key is another one."""
    context(body, rules=STRICT)


def test_a_strict_server_takes_the_headers_of_a_listed_proxy() -> None:
    """A router in front may set them for its own use."""
    context({"priority": 1}, {"x-request-priority": "1"}, PROXY, rules=STRICT)


ROUTES = (
    "/v1/completions", CHAT, "/v1/chat/completions/batch", "/v1/responses", "/v1/messages", "/v2/chat", "/invocations",
    "/inference/v1/generate", "/generative_scoring", "/v1/systemone", "/v1/decisions", "/v1/embeddings", "/pooling",
    "/rerank",
)  # fmt: skip


async def served(path: str, body: dict[str, Any], headers: dict[str, str]) -> tuple[int, int]:
    """Status, and the priority that the engine got, of a handler that hands priorities on as vLLM's do."""
    fake = ServingEngine()
    engine: Any = headway.wrap(fake, preset=small_preset())

    async def handler(request: Request) -> Response:
        asked = (await request.json()).get("priority", 0)
        priority = int(request.headers.get("x-vllm-priority", asked))
        run = engine.encode if path in ("/v1/embeddings", "/pooling", "/rerank") else engine.generate
        async for _ in run("p", FakeParams(1), "id", priority=priority):
            pass
        return JSONResponse({})

    app = AdmissionMiddleware(Starlette(routes=[Route(path, handler, methods=["POST"])]), lambda: engine.headway.preset)
    return (await posted(app, body, path, **headers)).status, fake.priorities["id"]


@pytest.mark.parametrize("path", ROUTES)
@on_virtual_time
async def test_the_engine_gets_the_priority_of_the_class_on_every_route(path: str) -> None:
    """Neither body nor header changes it, in either direction."""
    usual = await served(path, {}, {})
    assert usual[0] == 200
    for value in (-(2**63), 2**63 - 1):
        assert await served(path, {"priority": value}, {}) == usual
        assert await served(path, {}, {"x_vllm_priority": str(value)}) == usual
    urgent = await served(path, {}, {"x_headway_class": "realtime"})
    assert urgent[1] != usual[1]


@pytest.mark.parametrize("written", [b'"fast"', b'"\\u0066ast"'])
def test_the_tier_that_vllm_refuses_is_named_as_it_knows_it(written: bytes) -> None:
    """However the text is written."""
    assert bytes(known_to_vllm({"service_tier": Raw(written)})["service_tier"]) == b'"priority"'
    assert bytes(known_to_vllm({"service_tier": Raw(b'"flex"')})["service_tier"]) == b'"flex"'
