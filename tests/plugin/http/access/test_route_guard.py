"""The route guard in front of an application that has every known route, and would answer each of them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import unquote

import pytest
from asgi_client import AsgiClient
from hypothesis import given
from hypothesis import strategies as st
from small_presets import small_preset
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from headway.api.routes import Role
from headway.http.access import Access, AccessRefused, ApiKeys, RouteGuard, RouteTable, TrustedProxies, identity_of
from headway.http.access.identity import Identity
from headway.http.access.lockout import MOST_WRONG
from headway.http.access.route_guard import REASONS
from headway.http.access.route_table import known_routes
from headway.http.admin.tokens import Tokens
from headway.openai.routes import WEBSOCKET, RouteAccess
from headway_policies import Preset
from headway_policies.entitlement import Entitlement

OPERATOR, VIEWER, TENANT, OF_VLLM = "o" * 32, "v" * 32, "hw-tenant", "sk-vllm"
PRESET = small_preset()
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "QUERY")
ACME = Entitlement("acme", classes=frozenset({"batch"}))


class Ring:
    """A ring with one key, which has expired from a certain time on."""

    expires_s = float("inf")

    def entitlement_of(
        self, authorization: str | None, x_api_key: str | None, now_s: float
    ) -> tuple[str, Entitlement] | None:
        known = TENANT in (x_api_key, (authorization or "").removeprefix("Bearer "))
        return ("acme-1", ACME) if known and now_s < self.expires_s else None


def access(**changed: Any) -> Access:
    """A keys file with one key, and tokens of both roles."""
    tokens = Tokens({OPERATOR: Role.OPERATOR, VIEWER: Role.VIEWER})
    terms: dict[str, Any] = {
        "table": RouteTable.from_environment({}),
        "role": tokens.role,
        "has_tokens": True,
        "preset": lambda: PRESET,
        "keys": Ring,
    }
    return Access(**(terms | changed))


class Server:
    """An application with every known route, which keeps the identities that reached it, behind a guard."""

    def __init__(self, decides: Access, **options: Any) -> None:
        self.reached: list[Identity | None] = []
        self.headers: list[list[tuple[bytes, bytes]]] = []
        known = list(known_routes())
        paths = [re.sub(r"\{\w+\}", "{one}", route.path) for route in known if WEBSOCKET not in (route.methods or ())]
        self.app = Starlette(
            routes=[
                *(Route(path, self._answer, methods=list(METHODS)) for path in [*paths, "/closed/route"]),
                WebSocketRoute("/v1/realtime", self._talk),
                WebSocketRoute("/closed/socket", self._talk),
            ],
            middleware=[Middleware(CORSMiddleware, allow_origins=["*"], allow_methods=["*"], allow_headers=["*"])],
        )
        self.guard = RouteGuard(self.app, decides)
        self.root_path = options.get("root_path", "")

    async def _answer(self, request: Request) -> JSONResponse:
        self._keep(request)
        return JSONResponse({})

    async def _talk(self, socket: WebSocket) -> None:
        self._keep(socket)
        await socket.accept()
        await socket.close()

    def _keep(self, request: Any) -> None:
        self.reached.append(identity_of(request.scope))
        self.headers.append(request.scope["headers"])

    async def ask(
        self, target: str, method: str = "GET", key: str | None = None, *, client: str = "203.0.113.7", **more: Any
    ) -> AsgiClient:
        """The answer to one request; a key goes into a Bearer header."""
        headers = [(b"host", b"x"), *more.pop("headers", [])]
        if key is not None:
            headers.append((b"authorization", f"Bearer {key}".encode()))
        reply = AsgiClient(self.guard)
        scope = {
            "method": method, "raw_path": target.encode("latin-1", "replace"), "root_path": self.root_path,
            "client": (client, 50000), "server": ("x", 80), "scheme": "http", "http_version": "1.1", **more,
        }  # fmt: skip
        await reply.ask(*headers, path=unquote(target), **scope)
        return reply


def of_access(*wanted: RouteAccess) -> list[tuple[str, str]]:
    """A path and one of its methods, for every known HTTP route with this access."""
    return [
        (re.sub(r"\{\w+\}", "x", route.path), min(route.methods or {"GET"}))
        for route in known_routes()
        if route.access in wanted and WEBSOCKET not in (route.methods or ())
    ]


HOLDERS = {"nobody": None, "wrong": "w" * 32, "tenant": TENANT, "viewer": VIEWER, "operator": OPERATOR}
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
    """It would reach the application."""
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


async def test_a_websocket_is_closed_to_a_tenant_with_rates() -> None:
    """Nothing of it would be charged."""
    allowed, bounded = Identity(Entitlement("free")), Identity(Entitlement("metered", tokens_per_minute=10.0))
    access().check_websocket(allowed)
    with pytest.raises(AccessRefused, match="rates"):
        access().check_websocket(bounded)


async def test_what_is_neither_a_request_nor_a_websocket_passes() -> None:
    """The start and the end of the application."""
    seen: list[str] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append(scope["type"])

    await RouteGuard(application, access())({"type": "lifespan"}, None, None)  # type: ignore[arg-type]
    assert seen == ["lifespan"]


# ------------------------------------------------------------------ identities


async def test_the_identity_of_a_key_reaches_the_application() -> None:
    """Tenant, rights and the id of the key; also of a key in Anthropic's header."""
    server = Server(access())
    await server.ask("/v1/completions", "POST", TENANT)
    await server.ask("/v1/messages", "POST", headers=[(b"x-api-key", TENANT.encode())])
    assert server.reached == [Identity(ACME, "acme-1")] * 2


async def test_an_expired_key_is_wrong() -> None:
    """The ring is given the time of day."""
    ring = Ring()
    ring.expires_s = 1.0
    assert (await Server(access(keys=lambda: ring)).ask("/v1/models", key=TENANT)).status == 401


async def test_a_changed_keys_file_counts_from_the_next_request_on() -> None:
    """The ring is asked for each time."""
    rings: list[Ring] = [Ring()]
    server = Server(access(keys=lambda: rings[0]))
    assert (await server.ask("/v1/models", key=TENANT)).status == 200
    rings[0] = Ring()
    rings[0].expires_s = 0.0
    assert (await server.ask("/v1/models", key=TENANT)).status == 401


async def test_vllms_own_keys_make_one_tenant_with_every_class() -> None:
    """In either header; vLLM's check behind the guard is given a key that it knows."""
    server = Server(access(keys=None, api_keys=ApiKeys([OF_VLLM, "sk-other"])))
    await server.ask("/v1/completions", "POST", "sk-other")
    await server.ask("/v1/messages", "POST", headers=[(b"x-api-key", b"sk-other")])
    assert [one and (one.tenant, one.entitlement.classes) for one in server.reached] == [("default", None)] * 2
    for headers in server.headers:
        found = [value for name, value in headers if name in (b"authorization", b"x-api-key")]
        assert found == [f"Bearer {OF_VLLM}".encode()]
    assert (await server.ask("/v1/completions", "POST", TENANT)).status == 401


async def test_keys_of_the_file_and_of_vllm_hold_together() -> None:
    """And the header of a tenant's key is exchanged for vLLM's, as is that of the operator's token."""
    server = Server(access(api_keys=ApiKeys([OF_VLLM])))
    for path, key in [("/v1/models", TENANT), ("/v1/models", OF_VLLM), ("/server_info", OPERATOR)]:
        assert (await server.ask(path, key=key)).status == 200
    for headers in server.headers:
        assert (b"authorization", f"Bearer {OF_VLLM}".encode()) in headers


async def test_without_keys_of_vllm_the_headers_stay() -> None:
    """Another middleware may read them."""
    server = Server(access())
    await server.ask("/v1/models", key=TENANT)
    assert (b"authorization", f"Bearer {TENANT}".encode()) in server.headers[0]


async def test_anonymous_is_bound_to_the_preset_in_force() -> None:
    """It changes with a switch."""
    presets: list[Preset] = [PRESET, small_preset(name="other")]
    server = Server(access(keys=None, preset=lambda: presets[0]))
    await server.ask("/v1/completions", "POST", "any key at all")
    assert server.reached[0] is not None
    assert server.reached[0].entitlement.classes == frozenset({"normal", "batch"})
    presets.reverse()
    await server.ask("/v1/completions", "POST")
    assert server.reached[1] == server.reached[0]


PROXY = {"proxies": TrustedProxies.from_environment({"HEADWAY_TRUSTED_PROXIES": "10.0.0.5"})}


@pytest.mark.parametrize("keys", [Ring, None])
async def test_a_trusted_proxy_needs_no_key(keys: Callable[[], Ring] | None) -> None:
    """It has every class; another peer is none, whatever it writes into its headers."""
    server = Server(access(keys=keys, **PROXY))
    assert (await server.ask("/v1/completions", "POST", client="10.0.0.5")).status == 200
    assert server.reached[0] is not None
    assert server.reached[0].trusted
    assert server.reached[0].entitlement.classes is None
    forged = [(b"x-forwarded-for", b"10.0.0.5"), (b"forwarded", b"for=10.0.0.5")]
    reply = await server.ask("/v1/completions", "POST", headers=forged)
    assert reply.status == (401 if keys else 200)
    assert not any(one.trusted for one in server.reached[1:] if one)


async def test_a_key_that_a_trusted_proxy_passes_on_decides() -> None:
    """A right one by its rights, a wrong one not at all, and however many there are: the proxy is not locked out."""
    server = Server(access(**PROXY))
    await server.ask("/v1/models", key=TENANT, client="10.0.0.5")
    assert server.reached == [Identity(ACME, "acme-1")]
    for _ in range(MOST_WRONG + 1):
        assert (await server.ask("/v1/models", key="wrong", client="10.0.0.5")).status == 401
    assert (await server.ask("/v1/models", client="10.0.0.5")).status == 200


# ------------------------------------------------------------------ refusals


async def test_ten_wrong_keys_lock_the_address_and_no_other() -> None:
    """The eleventh is 429 with the time to wait, and so is a right token; a right key of the keys file passes, since
    many clients may share an address, and open routes stay open."""
    server = Server(access())
    got = [(await server.ask("/v1/models", key="wrong")).status for _ in range(MOST_WRONG + 1)]
    assert got == [401] * MOST_WRONG + [429]
    reply = await server.ask("/server_info", key=OPERATOR)
    assert (reply.status, reply.error["code"]) == (429, "too_many_wrong_keys")
    assert 1 <= int(reply.headers["retry-after"]) <= 60
    assert (await server.ask("/v1/models", key=TENANT)).status == 200
    assert (await server.ask("/health")).status == 200
    assert (await server.ask("/v1/models", key=TENANT, client="203.0.113.8")).status == 200


async def test_wrong_tokens_of_operators_lock_as_well() -> None:
    """A missing one is no guess."""
    server = Server(access())
    for _ in range(2 * MOST_WRONG):
        assert (await server.ask("/server_info")).status == 401
    for _ in range(MOST_WRONG):
        assert (await server.ask("/server_info", key="wrong")).status == 401
    assert (await server.ask("/server_info", key=OPERATOR)).status == 429


async def test_a_refusal_has_the_format_of_its_api() -> None:
    """OpenAI's body, Anthropic's on its route; a 401 says how to authenticate."""
    server = Server(access())
    reply = await server.ask("/v1/chat/completions", "POST")
    assert (reply.status, reply.error["code"]) == (401, "invalid_api_key")
    assert reply.headers["www-authenticate"] == "Bearer"
    anthropic = await server.ask("/v1/messages", "POST")
    body = json.loads(anthropic.sent[1]["body"])
    assert (anthropic.status, body["type"]) == (401, "error")
    assert "code" not in body["error"]


async def test_no_refusal_shows_what_was_presented() -> None:
    """Neither a key nor a path comes back."""
    server = Server(access())
    for path, key in [("/v1/models", "canary"), ("/server_info", "canary"), ("/canary", None)]:
        reply = await server.ask(path, key=key)
        assert b"canary" not in reply.body


async def test_refused_requests_are_counted_by_reason() -> None:
    """All reasons are there from the start, so that the series exist."""
    server = Server(access())
    assert dict(server.guard.refused) == dict.fromkeys(REASONS, 0)
    asked: Iterable[tuple[str, str, str | None]] = [
        ("/closed/route", "GET", None), ("/health", "POST", None), ("/v1/models", "GET", None),
        ("/v1/models", "GET", "wrong"), ("/server_info", "GET", VIEWER),
    ]  # fmt: skip
    for path, method, key in asked:
        await server.ask(path, method, key)
    counted = {reason: number for reason, number in server.guard.refused.items() if number}
    assert counted == {"route": 1, "method": 1, "no_key": 1, "wrong_key": 1, "role": 1}
    with pytest.raises(TypeError):
        server.guard.refused["route"] = 0  # type: ignore[index]


# ------------------------------------------------------------------ closed routes

CLOSED = {"table": RouteTable.from_environment({"HEADWAY_CLOSED_ROUTES": "/metrics"})}


@pytest.mark.parametrize(
    ("keys", "statuses"), [(Ring, [401, 401, 200, 200, 200]), (None, [401, 401, 401, 200, 200])], ids=["keys", "none"]
)
async def test_a_closed_route_takes_a_key_or_a_token(keys: Callable[[], Ring] | None, statuses: list[int]) -> None:
    """Nobody, a wrong key, a tenant, a viewer, the operator; without keys a token only."""
    server = Server(access(keys=keys, **CLOSED))
    assert [(await server.ask("/metrics", key=key)).status for key in HOLDERS.values()] == statuses
    assert (await server.ask("/health")).status == 200


async def test_a_locked_address_cannot_use_a_closed_route_with_a_right_token() -> None:
    """Else it would learn which guess was right."""
    server = Server(access(keys=None, **CLOSED))
    for _ in range(MOST_WRONG):
        await server.ask("/metrics", key="wrong")
    assert (await server.ask("/metrics", key=VIEWER)).status == 429
