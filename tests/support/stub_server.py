"""A stub of a Headway server: real Prometheus text on /metrics, and the admin API.

No engine, no desk: a small state whose numbers a test changes by hand (``world.step``) or lets move with the clock
(``moving=True``). The text is what ``prometheus_client.generate_latest`` writes, as vLLM's endpoint serves it.
"""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from admin_answers import current_preset, preset_entry, problem
from handler_server import Quiet
from prometheus_client import CollectorRegistry
from pydantic import BaseModel
from quick_exposition import QuickExposition
from stub_metrics import WorldMetrics
from stub_world import World
from tenant_reports import noisy, report

from headway.api import schema
from headway_policies.fallback.rungs import Rung

OPERATOR_TOKEN = "stub-operator-" + "o" * 32
VIEWER_TOKEN = "stub-viewer-" + "v" * 32


def as_bytes(body: BaseModel | dict[str, Any] | bytes | str) -> bytes:
    """What is sent of a body."""
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    return (body.model_dump_json() if isinstance(body, BaseModel) else json.dumps(body)).encode()


class StubServer:
    """Serves a world on a free loopback port until the ``with`` block ends."""

    def __init__(
        self, *, gpu: bool = False, moving: bool = False, admin: bool = True, port: int = 0, load: float = 1.0
    ) -> None:
        self.world = World(gpu=gpu)
        self.world.load = load
        self.admin = admin
        self.moving = moving
        self.delay_s = 0.0
        self.silent = threading.Event()
        self.forced: dict[tuple[str, str], tuple[int, dict[str, Any] | str]] = {}
        self.database: str | None = None
        self.requests: list[tuple[str, str]] = []
        self._registry = CollectorRegistry()
        self.metrics = WorldMetrics(self.world)
        self._registry.register(self.metrics)
        self._exposition = QuickExposition(self._registry)
        self._stop = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._http.daemon_threads = True
        self._threads: list[threading.Thread] = []

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def __enter__(self) -> StubServer:
        for work in (lambda: self._http.serve_forever(0.05), self._move):
            thread = threading.Thread(target=work, daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        """Close the port and end the threads. Safe to call twice."""
        if not self._stop.is_set():
            self._stop.set()
            self._http.shutdown()
            self._http.server_close()
            for thread in self._threads:
                thread.join(5)

    def _move(self) -> None:
        while not self._stop.wait(0.25):
            if self.moving:
                self.world.step(0.25)

    def scrape(self) -> bytes:
        """The text of /metrics."""
        return self._exposition.text().encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        stub = self

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stub.answer(self)

            do_PUT = do_POST = do_GET  # noqa: N815  # the names that http.server calls

        return Handler

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        path = request.path.split("?")[0]
        self.requests.append((request.command, request.path))
        length = int(request.headers.get("Content-Length") or 0)
        body = request.rfile.read(length)
        if self.delay_s:
            self._stop.wait(self.delay_s)
        if (request.command, path) in self.forced:
            status, forced = self.forced[request.command, path]
            return self._send(request, status, forced)
        if path == "/metrics":
            return self._send(request, 200, self.scrape(), kind="text/plain; version=0.0.4; charset=utf-8")
        if path == "/headway/readyz":
            reasons = self.world.reasons()
            return self._send(request, 503 if reasons else 200, schema.Readiness(ready=not reasons, reasons=reasons))
        if path.startswith("/headway/v1/"):
            return self._admin(request, path.removeprefix("/headway/v1/"), body)
        return self._problem(request, 404, "no such page")

    def _admin(self, request: BaseHTTPRequestHandler, path: str, body: bytes) -> None:
        if not self.admin:
            return self._problem(request, 404, "The admin API is off. Set HEADWAY_ADMIN_TOKEN.")
        roles = {f"Bearer {OPERATOR_TOKEN}": "operator", f"Bearer {VIEWER_TOKEN}": "viewer"}
        role = roles.get(request.headers.get("Authorization", ""))
        if role is None:
            return self._problem(request, 401, "A valid token is needed.")
        world = self.world
        if request.command == "PUT" and path == "preset":
            return self._switch(request, role, body)
        if request.command in ("PUT", "POST"):
            return self._carry_out(request, path, role, body)
        if path == "fallback":
            return self._send(request, 200, world.ladder())
        if path == "presets":
            listed = [preset_entry(preset) for preset in world.presets.values()]
            return self._send(request, 200, schema.PresetList(current=world.current(), presets=listed))
        if path == "preset":
            return self._send(request, 200, current_preset(world.presets[world.preset], world.revision), etag=True)
        if path == "audit":
            return self._send(request, 200, schema.AuditLog(entries=world.audit[:50]))
        if path == "status":
            return self._send(request, 200, world.status())
        if path == "usage":
            return self._usage(request)
        return self._problem(request, 404, "no such page")

    def _usage(self, request: BaseHTTPRequestHandler) -> None:
        """The accounting: of all tenants, or of one by its parts."""
        tenant = dict(parse_qsl(urlsplit(request.path).query, keep_blank_values=True)).get("tenant")
        whole = noisy().model_copy(update={"database": self.database})
        if tenant is None:
            return self._send(request, 200, whole)
        names = ("class", "key", "model", "outcome", "reason")
        parts = [
            one.model_copy(update={"group": dict(zip(names, ("normal", "k-1", "stub", "completed", ""), strict=True))})
            for one in whole.rows
            if one.group["tenant"] == tenant
        ]
        budgets = [one for one in whole.budgets if one.owner == f"tenant {tenant}"]
        return self._send(request, 200, report(*parts, by=",".join(names), budgets=budgets))

    def _carry_out(self, request: BaseHTTPRequestHandler, path: str, role: str, body: bytes) -> None:
        """An order to the ladder, or a recycle."""
        if role != "operator":
            return self._problem(request, 403, "This token may read but not change anything.")
        world, wanted = self.world, json.loads(body)
        who = {"actor": wanted.get("actor") or role, "role": role, "address": "127.0.0.1"}
        reason = wanted.get("reason", "")
        if path == "fallback":
            word, before = wanted["rung"], world.rung.word
            if word is not None and word not in world.usable:
                return self._problem(request, 422, f"{word} has nothing to do here.")
            world.climb(Rung.NORMAL if word is None else Rung[word.upper()], "operator", ordered=word is not None)
            world.note(who, before, world.rung.word, reason, "applied", "order_fallback")
            return self._send(request, 200, world.ladder())
        if path != "recycle":
            return self._problem(request, 404, "no such page")
        if not world.can_replace:
            return self._problem(request, 501, "this server cannot replace its engine; restart it.")
        if world.recycling:
            return self._problem(request, 409, "a recycle is under way.")
        world.recycling = True
        world.note(who, world.preset, world.preset, reason, "accepted", "recycle_engine")
        taken = sum(world.in_flight.values())
        return self._send(request, 202, schema.RecycleAccepted(accepted=True, seats_taken=taken))

    def _switch(self, request: BaseHTTPRequestHandler, role: str, body: bytes) -> None:
        who = {"actor": role, "role": role, "address": "127.0.0.1"}
        if role != "operator":
            return self._problem(request, 403, "This token may read but not change anything.")
        expected = request.headers.get("If-Match")
        if expected is None:
            return self._problem(request, 428, "Send If-Match.")
        wanted = json.loads(body)
        who["actor"] = wanted.get("actor") or role
        if expected != f'"{self.world.revision}"':
            refused = f"refused: revision {self.world.revision} runs now"
            self.world.note(who, self.world.preset, wanted["name"], wanted.get("reason", ""), refused)
            return self._problem(request, 412, f"Revision {self.world.revision} runs now.")
        if wanted["name"] not in self.world.presets:
            return self._problem(request, 422, f"unknown preset {wanted['name']!r}.")
        return self._send(request, 200, self.world.switch(wanted["name"], who, wanted.get("reason", "")), etag=True)

    def _problem(self, request: BaseHTTPRequestHandler, status: int, detail: str) -> None:
        self._send(request, status, problem(status, detail), kind="application/problem+json")

    def _send(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        body: BaseModel | dict[str, Any] | bytes | str,
        *,
        kind: str = "application/json",
        etag: bool = False,
    ) -> None:
        content = as_bytes(body)
        request.send_response(status)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(content)))
        if etag:
            request.send_header("ETag", f'"{self.world.revision}"')
        with contextlib.suppress(ConnectionError):  # a client that had enough of waiting
            request.end_headers()
            request.wfile.write(content)
