"""An OpenAI-compatible completions server with so many seats and a time for each token, and faults by class."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler
from types import TracebackType
from typing import Any

from handler_server import Quiet, running

#: What a class of this name gets in place of an answer.
FAULTS = ("refused", "refused-bare", "broken", "cut", "event", "abort", "silent", "endless-line", "redirected")


class LoadStandIn:
    """Listens on a free loopback port until the ``with`` block ends. The class ``slow`` waits ``wait_s`` first."""

    def __init__(self, *, seats: int = 64, token_s: float = 0.0, wait_s: float = 0.0, longest: int = 4096) -> None:
        self.asked: list[dict[str, Any]] = []
        self.models: dict[str, Any] = {"data": [{"id": "stand-in", "max_model_len": longest}]}
        self.models_status = 200
        self.metrics = ""
        self.takes_ids = True
        self.given: dict[str, str] = {}  # the class that is served in place of one
        self.why = "key"  # the reason that it gives for that
        self.most_open = 0
        self._open = 0
        self._lock = threading.Lock()
        self._seats = threading.Semaphore(seats)
        self._token_s, self._wait_s = token_s, wait_s
        self._running = running(self._handler())
        self.url = ""

    @property
    def classes(self) -> Counter[str]:
        """The requests by class, without the first one."""
        return Counter(one["class"] for one in self.asked if one["class"])

    def __enter__(self) -> LoadStandIn:
        self.url = self._running.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._running.__exit__(kind, error, at)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # http.server calls this name
                if self.path == "/metrics":
                    return server.send(self, 200 if server.metrics else 404, server.metrics.encode())
                return server.send(self, server.models_status, json.dumps(server.models).encode())

            def do_POST(self) -> None:  # http.server calls this name
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                name = self.headers.get("x-headway-class") or ""
                tenant, key = self.headers.get("x-headway-tenant"), self.headers.get("Authorization")
                heard = {"class": name, "tenant": tenant, "key": key, "connection": self.headers.get("Connection")}
                server.asked.append({**body, **heard})
                with contextlib.suppress(ConnectionError), server.counted():
                    server.answer(self, body, name)

        return Handler

    @contextlib.contextmanager
    def counted(self) -> Any:
        """Count an open request."""
        with self._lock:
            self._open += 1
            self.most_open = max(self.most_open, self._open)
        try:
            yield
        finally:
            with self._lock:
                self._open -= 1

    def answer(self, request: BaseHTTPRequestHandler, body: dict[str, Any], name: str) -> None:
        """One answer, or the fault of the class."""
        if isinstance(body["prompt"], list) and not self.takes_ids:
            return self.send(request, 400, b'{"error": {"message": "prompt must be a string"}}')
        if name == "refused":
            return self.send(request, 429, b"{}", {"x-headway-reason": "queue_full", "Retry-After": "7"})
        if name == "refused-bare":
            return self.send(request, 503, b"{}")
        if name == "broken":
            return self.send(request, 500, b'{"error": {"message": "out of luck"}}')
        if name == "redirected":
            return self.send(request, 307, b"", {"Location": "http://127.0.0.1:9/"})
        if name == "silent":
            time.sleep(30)
        if name == "slow":
            time.sleep(self._wait_s)
        request.send_response(200)
        request.send_header("Content-Type", "text/event-stream")
        request.send_header("x-headway-class", self.given.get(name, name))
        if name in self.given:
            request.send_header("x-headway-class-asked", f"{name}; reason={self.why}")
        request.end_headers()
        with self._seats:
            return self._stream(request, body, name)

    def _stream(self, request: BaseHTTPRequestHandler, body: dict[str, Any], name: str) -> None:
        if name == "endless-line":
            return self._write(request, "x" * 1_000_000)
        for number in range(body["max_tokens"]):
            time.sleep(self._token_s)
            last = number == body["max_tokens"] - 1
            finish = {"abort": "abort"}.get(name, "length") if last else None
            if name != "cut" or not last:
                self._write(request, json.dumps({"choices": [{"text": "a", "finish_reason": finish}]}))
            if name == "event" and number == 0:
                return self._write(request, '{"error": {"message": "no next token", "type": "stall_timeout"}}')
        if name != "cut":
            self._write(request, json.dumps({"choices": [], "usage": {"completion_tokens": body["max_tokens"]}}))
            self._write(request, "[DONE]")
        return None

    @staticmethod
    def _write(request: BaseHTTPRequestHandler, data: str) -> None:
        request.wfile.write(f"data: {data}\n\n".encode())
        request.wfile.flush()

    @staticmethod
    def send(
        request: BaseHTTPRequestHandler, status: int, content: bytes, headers: dict[str, str] | None = None
    ) -> None:
        """A whole answer."""
        request.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **(headers or {})}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(content)
