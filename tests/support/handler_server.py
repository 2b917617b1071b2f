"""An HTTP server in a thread of a test, on a free loopback port until a block ends.

``running`` has a handler of its own, ``serving`` writes each response by one function, and ``answering`` makes it from
the request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Writer = Callable[[BaseHTTPRequestHandler], None]


class Quiet(BaseHTTPRequestHandler):
    """A handler that logs nothing; a client that leaves is no error."""

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


@contextmanager
def running(handler: type[BaseHTTPRequestHandler], port: int = 0) -> Iterator[str]:
    """The URL of a server with this handler."""
    with _Server(("127.0.0.1", port), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def serving(answer: Writer) -> AbstractContextManager[str]:
    """A server that gives this response to every request."""

    class Handler(Quiet, BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer(self)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            answer(self)

    return running(Handler)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request."""

    path: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """Its answer."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


def answering(answer: Callable[[Asked], Answer]) -> AbstractContextManager[str]:
    """A server whose answers are a function of the requests."""

    class Handler(Quiet, BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            given = answer(Asked(self.path, body, dict(self.headers)))
            self.send_response(given.status)
            for name, value in {"Content-Length": str(len(given.body)), **given.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(given.body)

        do_POST = do_GET  # noqa: N815  # the name that the base class looks for

    return running(Handler)
