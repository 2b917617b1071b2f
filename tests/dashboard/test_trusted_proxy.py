"""The login by a proxy: a user is believed only from the proxy's own address, whatever a client writes."""

from __future__ import annotations

from ipaddress import ip_network
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket

from headway_dashboard.trusted_proxy import HEADER, PROVEN, PROXIES, TrustedProxy, middleware

NAME = "x-forwarded-user"
PROXY, STRANGER = "10.0.0.5", "10.0.1.9"
SETTINGS = {HEADER: "X-Forwarded-User", PROXIES: "10.0.0.0/24, 192.0.2.7, 2001:db8::/64"}
TRUSTED = TrustedProxy.from_environment(SETTINGS)
WORDS = st.text(st.characters(codec="latin-1", exclude_categories=["Cc", "Cs"]), max_size=30)
NAMES = st.sampled_from([NAME, "X-Forwarded-User", PROVEN, PROVEN.upper(), "x-forwarded-for", "cookie"])


def raw(*pairs: tuple[str, str]) -> list[tuple[bytes, bytes]]:
    """Headers as ASGI has them."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in pairs]


async def _told(request: Request) -> JSONResponse:
    return JSONResponse({"user": request.headers.get(PROVEN), "raw": request.headers.getlist(NAME)})


async def _told_over_websocket(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.send_json({"user": websocket.headers.get(PROVEN), "raw": websocket.headers.getlist(NAME)})
    await websocket.close()


def client(peer: str, settings: dict[str, str] | None = None) -> TestClient:
    """An application behind the middleware, asked from this address."""
    routes = [Route("/", _told), WebSocketRoute("/stream", _told_over_websocket)]
    app = Starlette(routes=routes, middleware=middleware(dict(SETTINGS if settings is None else settings)))
    return TestClient(app, client=(peer, 50_000))


@pytest.mark.parametrize("peer", [PROXY, "192.0.2.7", "::ffff:10.0.0.5", "2001:db8::1"])
def test_a_trusted_proxy_names_the_user(peer: str) -> None:
    """On requests and on the connection of the page; the header itself does not reach the application."""
    told = {"user": "anna", "raw": []}
    asked = client(peer)
    assert asked.get("/", headers={"X-Forwarded-User": "anna"}).json() == told
    with asked.websocket_connect("/stream", headers={"X-Forwarded-User": "anna"}) as stream:
        assert stream.receive_json() == told


@pytest.mark.parametrize("name", ["jürgen", "weiß", "Ольга", "a%20b"])
@pytest.mark.parametrize("codec", ["utf-8", "latin-1"])
def test_a_name_of_any_letters_is_that_user(name: str, codec: str) -> None:
    """As proxies send it today, in UTF-8, or in Latin-1 where that has its letters."""
    if codec == "latin-1" and not name.isascii() and ord(max(name)) > 255:
        return
    told = client(PROXY).get("/", headers={b"X-Forwarded-User": name.encode(codec)}).json()["user"]
    assert told.isascii()
    assert unquote(told) == name


@pytest.mark.parametrize("peer", [STRANGER, "127.0.0.1", "::1", "2001:db9::1", "testclient", ""])
def test_nobody_else_names_a_user(peer: str) -> None:
    """A forged header is dropped, also on the connection of the page, and so is the name that the pages look for."""
    nobody = {"user": None, "raw": []}
    forged = {"X-Forwarded-User": "admin", PROVEN: "admin"}
    asked = client(peer)
    assert asked.get("/", headers=forged).json() == nobody
    with asked.websocket_connect("/stream", headers=forged) as stream:
        assert stream.receive_json() == nobody


@pytest.mark.parametrize(
    "forwarded", [PROXY, f"203.0.113.9, {PROXY}", f"{PROXY}:80", "::ffff:10.0.0.5", "[::ffff:a00:5]:9"]
)
def test_an_address_that_a_client_may_have_written_is_not_believed(forwarded: str) -> None:
    """A web server that believes X-Forwarded-For reports what stands there as the peer."""
    headers = {"X-Forwarded-User": "admin", "X-Forwarded-For": forwarded}
    assert client(PROXY).get("/", headers=headers).json()["user"] is None


def test_a_proxy_may_tell_its_client() -> None:
    """X-Forwarded-For with the address of the visitor is what proxies send."""
    headers = {"X-Forwarded-User": "anna", "X-Forwarded-For": "203.0.113.9"}
    assert client(PROXY).get("/", headers=headers).json()["user"] == "anna"


def test_two_users_are_none() -> None:
    """A proxy that adds its header to a forged one has named nobody."""
    assert TRUSTED.user(raw((NAME, "admin"), ("X-Forwarded-User", "anna")), PROXY) == ""
    assert TRUSTED.user(raw((NAME, "anna")), PROXY) == "anna"
    assert TRUSTED.user(raw((NAME, "a\x07b")), PROXY) == ""
    assert TRUSTED.user(raw((NAME, "a" * 500)), PROXY) == ""


@given(st.lists(st.tuples(NAMES, WORDS), max_size=6), st.ip_addresses())
def test_no_stranger_is_ever_a_user(headers: list[tuple[str, str]], peer: object) -> None:
    """Whatever it writes into whichever header."""
    trusted = any(peer in network for network in TRUSTED.networks)
    if not trusted and not getattr(peer, "ipv4_mapped", None):
        assert TRUSTED.user(raw(*headers), str(peer)) == ""


@given(st.lists(st.tuples(NAMES, WORDS), max_size=6))
def test_no_header_of_a_client_is_taken_for_a_user(headers: list[tuple[str, str]]) -> None:
    """After the middleware the only user is the one that it has written; every other header stays as it is."""
    kept = TRUSTED.without_users(raw(*headers))
    assert not [name for name, _ in kept if name.lower().decode() in (NAME, PROVEN)]
    assert kept == raw(*((name, value) for name, value in headers if name.lower() not in (NAME, PROVEN)))


@pytest.mark.parametrize(
    ("proxies", "problem"),
    [("", "names no proxy"), (" , ", "names no proxy"), ("10.0.0.5/24", "has host bits set"), ("nginx", "nginx")],
)
def test_settings_that_are_wrong_believe_nobody(proxies: str, problem: str) -> None:
    """And say what is wrong; nobody can log in then."""
    found = TrustedProxy.from_environment({HEADER: NAME, PROXIES: proxies})
    assert found.configured
    assert problem in found.problem
    assert found.user(raw((NAME, "anna")), PROXY) == ""


def test_without_a_header_there_is_no_such_login() -> None:
    """Proxies alone change nothing."""
    assert middleware({PROXIES: "10.0.0.0/8"}) == []
    assert not TrustedProxy.from_environment({PROXIES: "10.0.0.0/8"}).configured
    assert TRUSTED.networks[0] == ip_network("10.0.0.0/24")


def test_the_web_server_leaves_the_address_of_the_peer_alone() -> None:
    """Uvicorn reads this variable; what it had before would let a client choose its address."""
    environment = dict(SETTINGS, FORWARDED_ALLOW_IPS="*")
    assert len(middleware(environment)) == 1
    assert environment["FORWARDED_ALLOW_IPS"] == ""


def test_the_name_of_the_proven_user_cannot_be_known() -> None:
    """Another process has another one."""
    assert len(PROVEN) >= len("headway-user-") + 32
