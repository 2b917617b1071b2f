"""Responses of a server to the command line and to the dashboard, read within bounds of bytes and of time."""

from __future__ import annotations

import importlib
import json
from http.server import BaseHTTPRequestHandler

import pytest
import requests
from handler_server import Writer, serving

from headway.api import AdminClient, TooLargeError
from headway_dashboard.server_client import admin_client
from headway_dashboard.sources import PrometheusSource, ScrapeSource
from headway_dashboard.sources.ring import UP
from headway_tools.console import ServerUnreachableError, TokenError, fetch_metrics
from headway_tools.load.scrape import read

module = importlib.import_module("headway.api.bounded_session")


def whole(body: bytes, **headers: str) -> Writer:
    """A response with a Content-Length."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            request.send_header(name.replace("_", "-"), value)
        request.end_headers()
        request.wfile.write(body)

    return answer


def endless(request: BaseHTTPRequestHandler) -> None:
    """One that never ends, in chunks of a kilobyte."""
    request.send_response(200)
    request.send_header("Transfer-Encoding", "chunked")
    request.end_headers()
    while True:
        request.wfile.write(b"400\r\n" + b"x" * 1024 + b"\r\n")
        request.wfile.flush()


class Clock:
    """A clock that advances by a tenth of a second at each reading."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += 0.1
        return self.now_s


@pytest.mark.parametrize("size", [0, 1, 999, 1000])
def test_an_answer_within_the_bound_is_read_as_ever(size: int) -> None:
    """Whole, twice over the same session, and with its headers."""
    with serving(whole(b"x" * size, X_Other="1")) as url, module.bounded_session(1000, 60.0) as session:
        for _ in range(2):
            answer = session.get(url, timeout=5)
            assert (answer.status_code, answer.content, answer.headers["X-Other"]) == (200, b"x" * size, "1")


def test_a_larger_one_is_an_error() -> None:
    """Of one kind, which is also one of requests' own."""
    with serving(whole(b"x" * 1001)) as url, module.bounded_session(1000, 60.0) as session:
        with pytest.raises(module.AnswerTooLargeError, match="1000 bytes"):
            session.get(url, timeout=5)
        assert issubclass(module.AnswerTooLargeError, requests.RequestException)


def test_an_answer_without_end_is_ended() -> None:
    """By its bound of bytes, or by its bound of time, which counts from the request."""
    with serving(endless) as url, module.bounded_session(100_000, 60.0) as session:
        with pytest.raises(module.AnswerTooLargeError):
            session.get(url, timeout=5)
        clock = Clock()
        session.mount("http://", module.BoundedAdapter(10**9, 3.0, clock))
        with pytest.raises(requests.ReadTimeout, match="not whole after 3 s"):
            session.get(url, timeout=5)
        assert 3.0 < clock.now_s < 3.3


def test_an_answer_that_breaks_off_is_an_error_as_ever() -> None:
    """Half an answer is none."""

    def half(request: BaseHTTPRequestHandler) -> None:
        whole(b"", Content_Length="100")(request)
        request.wfile.write(b"x" * 50)
        request.close_connection = True

    with (
        serving(half) as url,
        module.bounded_session(1000, 60.0) as session,
        pytest.raises(requests.ConnectionError),
    ):
        session.get(url, timeout=5)


def test_nothing_is_unpacked() -> None:
    """The client asks for uncompressed bytes; a compressed response is not unpacked."""
    asked: list[str] = []

    def packed(request: BaseHTTPRequestHandler) -> None:
        asked.append(request.headers["Accept-Encoding"])
        whole(b"\x1f\x8b" + b"x" * 50, Content_Encoding="gzip")(request)

    with serving(packed) as url, module.bounded_session(1000, 60.0) as session:
        assert session.get(url, timeout=5).content.startswith(b"\x1f\x8bx")
    assert asked == ["identity"]


PRESETS = {"current": {"name": "a", "revision": 1}, "presets": [], "padding": "x" * 5 * 2**20}


def test_every_reader_of_the_admin_api_has_its_bound() -> None:
    """A good answer of 5 MiB is too large for the command and for the dashboard; both say so."""
    with serving(whole(json.dumps(PRESETS).encode())) as url:
        for make in (AdminClient, admin_client):
            with make(url, "x" * 40) as client, pytest.raises(TooLargeError, match="larger than"):
                client.presets()


def test_every_reader_of_metrics_has_its_bound() -> None:
    """A good scrape of 9 MiB is too large; nothing is kept of it."""
    with serving(whole(b"headway_ready 1\n" * (9 * 2**16))) as url:
        with pytest.raises(ServerUnreachableError, match="gave no metrics"):
            fetch_metrics(url, read)
        source = ScrapeSource(url)
        source.poll()
        (server,) = source._servers.values()
        assert (server.health.trouble, list(server.ring._index)) == ("refused", [UP])
        assert "more than" in server.health.detail
        source.close()


def closed(token: str) -> Writer:
    """Metrics for the holder of this token only; 401 without one, 403 with another one."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        sent = request.headers.get("Authorization")
        body = b"headway_ready 1\n"
        request.send_response(200 if sent == f"Bearer {token}" else 403 if sent else 401)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return answer


def test_a_server_of_this_machine_is_reached_past_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the environment names one."""
    for variable in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
    with serving(closed("t" * 40)) as url:
        assert fetch_metrics(url, len, "t" * 40) > 0


def test_readers_of_closed_metrics_send_their_token() -> None:
    """The command and the dashboard; both say what is missing."""
    with serving(closed("t" * 40)) as url:
        assert fetch_metrics(url, len, "t" * 40) > 0
        with pytest.raises(TokenError, match="set HEADWAY_ADMIN_TOKEN"):
            fetch_metrics(url, len)
        with pytest.raises(TokenError, match="refuses the token"):
            fetch_metrics(url, len, "w" * 40)
        for token, kept, detail in (
            ("t" * 40, True, ""),
            (None, False, "closed (HTTP 401)"),
            ("w" * 40, False, "HTTP 403"),
        ):
            source = ScrapeSource(url, token=token)
            source.poll()
            (server,) = source._servers.values()
            names = {name for name, _ in server.ring._index}
            assert names == ({"up", "headway_ready"} if kept else {"up"})
            assert detail in server.health.detail
            source.close()


def test_a_token_follows_no_redirect() -> None:
    """Not even to another path of the same server."""
    asked: list[str] = []

    def elsewhere(request: BaseHTTPRequestHandler) -> None:
        asked.append(request.path)
        request.send_response(302)
        request.send_header("Location", "/elsewhere")
        request.send_header("Content-Length", "0")
        request.end_headers()

    with serving(elsewhere) as url:
        with pytest.raises(ServerUnreachableError, match="answered 302"):
            fetch_metrics(url, len, "t" * 40)
        source = ScrapeSource(url, token="t" * 40)
        source.poll()
        source.close()
    assert asked == ["/metrics", "/metrics"]


def test_the_reader_of_prometheus_has_its_bound() -> None:
    """Also after its client has put in an adapter of its own."""
    body = json.dumps({"status": "success", "data": {"result": [], "padding": "x" * 17 * 2**20}}).encode()
    with serving(whole(body)) as url:
        source = PrometheusSource(url)
        source.refresh()
        assert not source.reachable
        source.close()
    with serving(whole(body.replace(b"x" * 2**20, b""))) as url:
        source = PrometheusSource(url)
        source.refresh()
        assert source.reachable
        source.close()
