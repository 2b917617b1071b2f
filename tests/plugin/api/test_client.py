"""The one client of the admin API: which URLs it takes, and where its token goes."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from admin_stand_in import TOKEN, Stub, admin_stand_in

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

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def do_GET(self) -> None:
            seen.append(self.command)
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", seen
        server.shutdown()
        thread.join()


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
