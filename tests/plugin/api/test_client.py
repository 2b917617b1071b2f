"""The one client of the admin API: which URLs it takes, and where its token goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest
from admin_stand_in import TOKEN, Stub, admin_stand_in
from handler_server import serving

from headway.api import AdminClient, BadUrlError, BrokenConnectionError, RefusedError, TokenRefusedError


@pytest.mark.parametrize("url", ["", "h:1", "ftp://h", "http://", "http://h:0", "http://h:99999", "http://[::1"])
def test_an_invalid_url_is_refused_when_it_is_used(url: str) -> None:
    """Making a client raises nothing: a page with a wrong setting is still a page."""
    with AdminClient(url, TOKEN) as client, pytest.raises(BadUrlError):
        client.status()


def test_the_token_goes_to_this_server_alone() -> None:
    """A redirect is a refusal, not a way."""
    with admin_stand_in() as elsewhere, admin_stand_in() as server:
        server.answer_all = (302, "text/plain", b"")
        with AdminClient(server.url, TOKEN) as client, pytest.raises(RefusedError, match="302"):
            client.presets()
        assert elsewhere.seen == []


@pytest.mark.parametrize("lenient", [False, True])
def test_both_readers_read_what_a_server_says(lenient: bool) -> None:
    """Every method, and the same answers."""
    with admin_stand_in() as server, AdminClient(server.url, TOKEN, lenient=lenient) as client:
        assert client.status().classes[0].name == "batch"
        assert client.presets().current.name == client.preset().name == "balanced"
        assert client.switch("latency", revision=3).revision == 4
        assert client.order_limit(48, revision=4, expires_s=30.0).changes[0].after == 48
        assert client.order_limit(None, revision=5, window_ms=0.0, actor="a").revision == 6
        assert client.order_fallback("cap", reason="r").ordered == "cap"
        assert client.fallback().moves[0].after == "cap"
        assert client.recycle(actor="a").seats_taken == 5
        assert client.pause(reason="r").waiting == 2
        assert client.resume(actor="a").dispatched == 1
        assert (client.drain().refused, client.status().state) == (2, "draining")
        assert client.warm_up(reason="r", actor="a").batch_size == 27
    orders: list[object] = [{"reason": "r"}, {"actor": "a"}, {}, {"reason": "r", "actor": "a"}]
    limits = [{"seats": 48, "expires_s": 30.0}, {"seats": None, "window_ms": 0.0, "actor": "a"}]
    assert _bodies(server) == [{"name": "latency"}, *limits, {"rung": "cap", "reason": "r"}, {"actor": "a"}, *orders]


def test_without_a_token_nothing_is_sent_as_one() -> None:
    """The server's message names what is missing."""
    with admin_stand_in() as server, AdminClient(server.url, None) as client:
        with pytest.raises(TokenRefusedError):
            client.status()
        assert "Authorization" not in server.seen[0][2]


@pytest.fixture
def breaking() -> Iterator[tuple[str, list[str]]]:
    """The URL of a server that ends each connection in place of an answer, and the methods that it was asked with."""
    seen: list[str] = []

    def end(request: BaseHTTPRequestHandler) -> None:
        seen.append(request.command)
        request.close_connection = True

    with serving(end) as url:
        yield url, seen


def test_an_order_whose_answer_does_not_come_is_sent_once(breaking: tuple[str, list[str]]) -> None:
    """Whether it was carried out is for a person to look up; the error says that much."""
    url, seen = breaking
    with AdminClient(url, TOKEN) as client:
        for ask in (client.recycle, client.status):
            with pytest.raises(BrokenConnectionError, match="ended before the server answered"):
                ask()
    assert seen == ["POST", "GET"]


def test_an_order_waits_for_no_connection_of_before() -> None:
    """A connection that the server has closed meanwhile as an idle one would lose it."""
    with admin_stand_in() as server, AdminClient(server.url, TOKEN) as client:
        client.status()
        client.status()
        client.pause()
        client.resume()
    assert list(Counter(server.peers).values()) == [2, 1, 1]


def _bodies(server: Stub) -> list[object]:
    return [body for _, _, _, body in server.seen if body is not None]
