"""The route guard: what every route wants, whatever a path looks like, and what is open to nobody."""

from __future__ import annotations

from typing import Any

import pytest
from guarded_server import HOLDERS, METHODS, OF_VLLM, OPERATOR, TENANT, Server, access, of_access
from hypothesis import given
from hypothesis import strategies as st

from headway.http.access import AccessRefused, ApiKeys, RouteGuard, RouteTable
from headway.http.access.identity import Identity
from headway.openai.routes import RouteAccess
from headway_policies.budgets import Budget, Owned
from headway_policies.entitlement import Entitlement

#: For each access: the statuses of nobody, a wrong key, a tenant, a viewer and the operator.
EXPECTED = {
    RouteAccess.OPEN: (200, 200, 200, 200, 200),
    RouteAccess.ADMIN: (200, 200, 200, 200, 200),
    RouteAccess.INFERENCE: (401, 401, 200, 401, 401),
    RouteAccess.OPERATOR: (401, 401, 401, 403, 200),
}


@pytest.mark.parametrize("wanted", EXPECTED, ids=str)
async def test_every_route_wants_what_its_access_says(wanted: RouteAccess) -> None:
    """All known routes, with no key, a wrong one, a tenant's, and both tokens."""
    routes = of_access(wanted)
    assert routes
    for path, method in routes:
        server = Server(access())
        got = [(await server.ask(path, method, key)).status for key in HOLDERS.values()]
        assert (path, *got) == (path, *EXPECTED[wanted])
        assert len(server.reached) == EXPECTED[wanted].count(200)
        assert all(identity is not None for identity in server.reached)


async def test_without_keys_inference_is_open_to_anonymous_and_nothing_else_is() -> None:
    """No generating route is more open than that, and no route of operators is open at all."""
    for path, method in of_access(RouteAccess.INFERENCE):
        server = Server(access(keys=None))
        assert (await server.ask(path, method)).status == 200
        assert [one and one.tenant for one in server.reached] == ["anonymous"]
    for path, method in of_access(RouteAccess.OPERATOR):
        server = Server(access(keys=None))
        assert (await server.ask(path, method)).status == 401
        assert (await Server(access(has_tokens=False)).ask(path, method, OPERATOR)).status == 403
        assert not server.reached


async def test_a_route_that_is_not_known_is_closed_to_everybody() -> None:
    """Although the application has it, and whatever is presented."""
    server = Server(access())
    for key in HOLDERS.values():
        for method in METHODS:
            reply = await server.ask("/closed/route", method, key)
            assert (reply.status, reply.error["code"]) == (404, "route_not_found")
    assert not server.reached
    opened = Server(access(table=RouteTable.from_environment({"HEADWAY_OPEN_ROUTES": "/closed/route"})))
    assert (await opened.ask("/closed/route", "POST")).status == 401
    assert (await opened.ask("/closed/route", "POST", TENANT)).status == 200


async def test_a_wrong_base_url_is_answered_with_the_path_that_was_meant() -> None:
    """Without the /v1 of OpenAI's clients, or with it twice, as from Anthropic's; no other unknown path has a hint."""
    for asked, meant in (
        ("/chat/completions", "/v1/chat/completions"), ("/models", "/v1/models"), ("/v1/v1/messages", "/v1/messages"),
    ):  # fmt: skip
        reply = await Server(access()).ask(asked, "POST", TENANT)
        assert reply.status == 404
        assert f"Did you mean {meant}? Clients of OpenAI take a base URL that ends with /v1" in reply.error["message"]
    for asked in ("/reset", "/v1/reset_prefix_cache", "/closed/route"):
        reply = await Server(access()).ask(asked, "POST", TENANT)
        assert reply.error["message"] == "There is no such route."


async def test_a_method_that_a_known_path_does_not_have_is_closed() -> None:
    """A new method of a new vLLM as well; the answer lists the methods. HEAD counts as GET."""
    server = Server(access())
    reply = await server.ask("/v1/completions", "DELETE", TENANT)
    assert (reply.status, reply.headers["allow"]) == (405, "POST")
    assert (await server.ask("/health", "POST")).status == 405
    assert (await server.ask("/v1/completions", "HEAD", TENANT)).status == 405
    assert not server.reached
    assert (await server.ask("/v1/models", "HEAD")).status == 401
    assert (await server.ask("/v1/models", "HEAD", TENANT)).status == 200


PIECES = st.sampled_from(
    ["/", "//", "/./", "/../", "%2f", "%2F", "%5c", "\\", "%00", ";x=1", ".", "%2e", "?", "%3f", "%20", "..;", "x", "#"]
)


@given(
    path=st.sampled_from([path for path, _ in of_access(RouteAccess.INFERENCE, RouteAccess.OPERATOR)]),
    cuts=st.lists(st.tuples(st.integers(0, 30), PIECES), max_size=3),
    encoded=st.sets(st.integers(0, 30), max_size=3),
    upper=st.booleans(),
    method=st.sampled_from([*METHODS, "OPTIONS"]),
    headers=st.lists(
        st.sampled_from([
            (b"host", b"x/health?"), (b"host", b"127.0.0.1"), (b"x-forwarded-for", b"127.0.0.1"), (b"x-api-key", b"x"),
            (b"x-forwarded-prefix", b"/health"), (b"x-original-url", b"/health"), (b"x-rewrite-url", b"/health"),
            (b"authorization", b"Bearer "), (b"authorization", b"Basic bzpv"), (b"x-http-method-override", b"GET"),
            (b"origin", b"http://evil.example"),
        ]),
        max_size=3,
    ),
    root_path=st.sampled_from(["", "/health", "/v1", "/v1/completions"]),
)  # fmt: skip
async def test_no_spelling_of_a_path_opens_it(
    path: str,
    cuts: list[tuple[int, str]],
    encoded: set[int],
    upper: bool,
    method: str,
    headers: list[tuple[bytes, bytes]],
    root_path: str,
) -> None:
    """Encoded, doubled, with dots, in capitals, under a root path, with any Host and any proxy's header."""
    target = "".join(f"%{ord(letter):02x}" if place in encoded else letter for place, letter in enumerate(path))
    for place, piece in cuts:
        target = target[:place] + piece + target[place:]
    target = target.upper() if upper else target
    server = Server(access(), root_path=root_path)
    reply = await server.ask(target.partition("?")[0], method, headers=headers)
    inside = [one for one in server.reached if one is None or one.entitlement.classes != frozenset()]
    assert not inside, target
    assert reply.status in (200, 401, 403, 404, 405, 429)


async def test_a_path_is_matched_without_the_root_path() -> None:
    """Behind a proxy with a prefix, both forms are known to Starlette, and both want a key."""
    server = Server(access(), root_path="/api")
    for path in ("/api/v1/models", "/v1/models"):
        assert (await server.ask(path)).status == 401
        assert (await server.ask(path, key=TENANT)).status == 200


PREFLIGHT = [(b"origin", b"http://page.example"), (b"access-control-request-method", b"POST")]


async def test_a_preflight_of_an_inference_route_needs_no_key_and_reaches_no_handler() -> None:
    """Browsers send none with it; the CORS middleware answers it."""
    server = Server(access())
    reply = await server.ask("/v1/completions", "OPTIONS", headers=PREFLIGHT)
    assert (reply.status, reply.headers["access-control-allow-origin"]) == (200, "*")
    assert not server.reached


@pytest.mark.parametrize("path", ["/headway/v1/status", "/headway/v1/preset", "/pause", "/v1/load_lora_adapter"])
async def test_there_is_no_preflight_for_the_routes_of_operators(path: str) -> None:
    """No page of another origin may use them, whatever the CORS settings of vLLM are."""
    reply = await Server(access()).ask(path, "OPTIONS", headers=PREFLIGHT)
    assert (reply.status, reply.error["code"]) == (403, "cross_origin")
    assert "access-control-allow-origin" not in reply.headers


async def test_an_answer_of_the_admin_api_lets_no_other_origin_read_it() -> None:
    """A simple request needs no preflight, and vLLM's CORS middleware would allow its page to read the answer."""
    for root_path in ("", "/api"):
        server = Server(access(), root_path=root_path)
        for path in ("/headway/v1/status", "/headway/v1/audit"):
            reply = await server.ask(root_path + path, key=OPERATOR, headers=PREFLIGHT[:1])
            assert reply.status == 200
            assert not [name for name in reply.headers if name.startswith("access-control-")]
            assert reply.headers["content-type"] == "application/json"
        reply = await server.ask("/v1/models", key=TENANT, headers=PREFLIGHT[:1])
        assert reply.headers["access-control-allow-origin"] == "*"


async def test_options_that_is_no_preflight_wants_what_the_route_wants() -> None:
    """The request would reach the application."""
    server = Server(access())
    for headers in ([], PREFLIGHT[:1], PREFLIGHT[1:]):
        assert (await server.ask("/v1/completions", "OPTIONS", headers=headers)).status == 401
    assert (await server.ask("/v1/completions", "OPTIONS", TENANT)).status == 405
    assert (await server.ask("/closed/route", "OPTIONS", headers=PREFLIGHT)).status == 404


async def test_a_websocket_is_closed_before_its_start_without_a_key() -> None:
    """And on every path that is no websocket route, with a key as well."""
    server = Server(access(keys=None, api_keys=ApiKeys([OF_VLLM])))
    for path, key in [("/v1/realtime", None), ("/closed/socket", OF_VLLM), ("/v1/completions", OF_VLLM)]:
        reply = await server.ask(path, key=key, type="websocket")
        assert [message["type"] for message in reply.sent] == ["websocket.close"]
    assert not server.reached
    await server.ask("/v1/realtime", key=OF_VLLM, type="websocket")
    assert len(server.reached) == 1
    assert (await server.ask("/v1/realtime", "GET", OF_VLLM)).status == 405


async def test_a_websocket_wants_a_key_that_has_the_default_class() -> None:
    """Nothing that it sends can name a class."""
    server = Server(access())
    reply = await server.ask("/v1/realtime", key=TENANT, type="websocket")
    assert reply.sent == [{"type": "websocket.close", "code": 1008, "reason": "class_not_allowed"}]
    assert server.guard.refused["class"] == 1


@pytest.mark.parametrize(
    "metered",
    [
        Entitlement("metered", tokens_per_minute=10.0),
        Entitlement("metered", budgets=(Owned("metered", Budget(concurrency=3)),)),
    ],
    ids=["rate", "budget"],
)
async def test_a_websocket_is_closed_to_a_tenant_with_rates_or_budgets(metered: Entitlement) -> None:
    """None of them would be judged. What only counts, and what bounds nothing, is in nobody's way."""
    counts = Owned("acme", Budget(concurrency=3, counts_only=True), {"free": Budget()})
    access().check_websocket(Identity(Entitlement("free", budgets=(Owned("free", Budget()), counts))))
    with pytest.raises(AccessRefused, match="rates"):
        access().check_websocket(Identity(metered))


async def test_what_is_neither_a_request_nor_a_websocket_passes() -> None:
    """The start and the end of the application."""
    seen: list[str] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    await RouteGuard(application, access())({"type": "lifespan"}, None, None)  # type: ignore[arg-type]
    assert seen == ["lifespan"]
