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

    def __init__(self, *, longest_prompt: int = 10_000, models: bool = True) -> None:
        self.longest_prompt = longest_prompt
        self.models = models
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
                listed = {"data": [{"id": "stand-in"}]} if server.models else {"detail": "Not Found"}
                server.answer(self, 200 if server.models else 404, json.dumps(listed).encode())

            def do_POST(self) -> None:  # http.server calls this name
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.asked.append(body)
                words = len(body["prompt"].split())
                if words > server.longest_prompt:
                    server.answer(self, 400, b'{"message": "the prompt is too long"}')
                else:
                    server.answer(self, 200, _events(words, body["max_tokens"]), "text/event-stream")

            def log_message(self, format: str, *values: Any) -> None:  # noqa: A002  # http.server passes this name
                pass

        return Handler

    @staticmethod
    def answer(request: BaseHTTPRequestHandler, status: int, content: bytes, kind: str = "application/json") -> None:
        """Send one answer."""
        request.send_response(status)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(content)))
        request.end_headers()
        request.wfile.write(content)


def _events(words: int, pieces: int) -> bytes:
    usage = {"prompt_tokens": words, "completion_tokens": pieces}
    events: list[dict[str, Any]] = [{"choices": [{"text": "a"}]}] * pieces
    lines = [json.dumps(event) for event in [*events, {"choices": [], "usage": usage}]]
    return "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]).encode()
