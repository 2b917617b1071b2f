"""An OpenAI-compatible completions server that streams as many pieces as are asked for, at once."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


class CompletionsStandIn:
    """Listens on a free loopback port until the ``with`` block ends. A word of the prompt is a token."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self._http = _Server(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> CompletionsStandIn:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join(5)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # http.server calls this name
                server.answer(self, b'{"data": [{"id": "stand-in"}]}', "application/json")

            def do_POST(self) -> None:  # http.server calls this name
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.asked.append(body)
                events = _events(len(body["prompt"].split()), body["max_tokens"])
                server.answer(self, events, "text/event-stream")

            def log_message(self, format: str, *values: Any) -> None:  # noqa: A002  # http.server passes this name
                pass

        return Handler

    @staticmethod
    def answer(request: BaseHTTPRequestHandler, content: bytes, kind: str) -> None:
        """Send one answer."""
        request.send_response(200)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)


def _events(words: int, pieces: int) -> bytes:
    usage = {"prompt_tokens": words, "completion_tokens": pieces}
    events: list[dict[str, Any]] = [{"choices": [{"text": "a"}]}] * pieces
    lines = [json.dumps(event) for event in [*events, {"choices": [], "usage": usage}]]
    return "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]).encode()
