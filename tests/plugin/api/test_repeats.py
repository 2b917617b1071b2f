"""An order is sent again where that helps, under one key, and never where it does not."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from admin_answers import problem
from admin_stand_in import TOKEN, admin_stand_in

from headway.api import (
    AdminClient,
    BrokenConnectionError,
    RefusedError,
    StaleError,
    TooManyError,
    UnreachableError,
)
from headway.api.repeats import MAX_WAIT_S, MOST_TRIES
from headway.api.schema import RecycleAccepted

Answer = tuple[int, dict[str, str], bytes] | None

DONE: Answer = (202, {}, RecycleAccepted(accepted=True, seats_taken=5).model_dump_json().encode())
BREAKS: Answer = None


def refused(status: int, **headers: str) -> Answer:
    """A problem, with headers whose names have underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return status, named, problem(status, "no.").model_dump_json().encode()


@contextmanager
def scripted(*answers: Answer) -> Iterator[tuple[str, list[str | None]]]:
    """A server that gives these answers one after the other; BREAKS ends the connection. Its URL, and the keys."""
    left, keys = list(answers), list[str | None]()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self._next()

        def do_GET(self) -> None:
            self._next()

        def _next(self) -> None:
            keys.append(self.headers.get("Idempotency-Key"))
            answer = left.pop(0)
            if answer is None:
                self.close_connection = True
                return
            status, headers, body = answer
            self.send_response(status)
            kind = "application/json" if status < 400 else "application/problem+json"
            for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", keys
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("answers", "waits"),
    [
        ([DONE], []),
        ([BREAKS, DONE], []),
        ([BREAKS, BREAKS, BREAKS, DONE], []),
        ([refused(429, Retry_After="3"), DONE], [3.0]),
        ([BREAKS, refused(409, Retry_After="1"), refused(409, Retry_After="1"), DONE], [1.0, 1.0]),
    ],
    ids=["at once", "broken", "broken often", "too many", "under way"],
)
def test_an_order_is_sent_again_under_its_key(answers: list[Answer], waits: list[float]) -> None:
    """Until its answer comes."""
    slept: list[float] = []
    with scripted(*answers) as (url, keys), AdminClient(url, TOKEN, sleep=slept.append) as client:
        assert client.recycle().seats_taken == 5
    assert (len(keys), slept) == (len(answers), waits)
    assert len(set(keys)) == 1
    assert keys[0] is not None


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ([BREAKS] * MOST_TRIES, BrokenConnectionError),
        ([refused(429, Retry_After="1")] * MOST_TRIES, TooManyError),
        ([refused(429, Retry_After=f"{MAX_WAIT_S + 1:.0f}")], TooManyError),
        ([refused(429)], TooManyError),
        ([refused(429, Retry_After="soon")], TooManyError),
        ([refused(409)], RefusedError),
        ([refused(412, Retry_After="1")], StaleError),
        ([refused(503, Retry_After="1")], RefusedError),
    ],
    ids=["broken", "too many", "long", "no time", "no number", "conflict", "stale", "not ready"],
)
def test_an_order_is_not_sent_for_ever(answers: list[Answer], error: type[Exception]) -> None:
    """What another try would not change is an error at once; the rest is one in the end."""
    with scripted(*answers) as (url, keys), AdminClient(url, TOKEN, sleep=lambda _: None) as client:
        with pytest.raises(error):
            client.recycle()
        assert len(keys) == len(answers)


def test_each_order_has_a_key_of_its_own() -> None:
    """The same order, given twice, is two orders."""
    with scripted(DONE, DONE) as (url, keys), AdminClient(url, TOKEN) as client:
        client.recycle()
        client.recycle()
    assert len(set(keys)) == 2


def test_every_method_that_changes_something_sends_a_key() -> None:
    """And no other does."""
    with admin_stand_in() as server, AdminClient(server.url, TOKEN) as client:
        client.status()
        client.preset()
        orders: list[Callable[[], object]] = [
            lambda: client.switch("latency", revision=3),
            lambda: client.order_limit(48, revision=4),
            lambda: client.order_fallback("cap"),
            client.recycle,
            client.pause,
            client.resume,
            client.drain,
            client.warm_up,
        ]
        for order in orders:
            order()
    keyed = {(method, "Idempotency-Key" in headers) for method, _, headers, _ in server.seen}
    assert keyed == {("GET", False), ("PUT", True), ("POST", True)}


def test_reading_is_not_repeated() -> None:
    """The reader does that, as often as it likes."""
    with scripted(BREAKS) as (url, keys), AdminClient(url, TOKEN) as client:
        with pytest.raises(UnreachableError):
            client.status()
        assert keys == [None]


def test_a_server_that_is_not_there_is_asked_once() -> None:
    """Nothing was sent, so nothing is repeated."""
    with scripted() as (url, _):
        pass
    waits: list[float] = []
    with AdminClient(url, TOKEN, sleep=waits.append) as client, pytest.raises(UnreachableError) as caught:
        client.recycle()
    assert (type(caught.value), waits) == (UnreachableError, [])


def test_no_order_says_that_it_comes_from_a_page() -> None:
    """The server would look for the page's origin."""
    with admin_stand_in() as server, AdminClient(server.url, TOKEN) as client:
        client.pause()
    assert not {"origin", "referer"} & {name.lower() for name in server.seen[0][2]}
