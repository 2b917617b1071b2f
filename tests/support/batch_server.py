"""A server of files and batches in this process: the route guard with two tenants, the routes, and a handler behind."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from guarded_server import access
from small_presets import small_preset
from starlette.types import Receive, Scope, Send

from headway.api_errors import answer
from headway.batches import Batches, BatchRoutes, BatchRunner
from headway.http.access import RouteGuard
from headway.http.access.identity import identity_of
from headway.http.limits import Bounds, Budget, RequestLimits, whole_body
from headway.keys import Key, KeyRing
from headway_policies.entitlement import Entitlement

ACME, ZENITH = "hw-acme", "hw-zenith"
ENDS = ("completed", "failed", "expired", "cancelled")
CHAT = "/v1/chat/completions"


class Keys:
    """A keys file of two tenants."""

    def __init__(self, *names: str) -> None:
        made = datetime(2026, 1, 1, tzinfo=UTC)
        keys = [Key(f"{name}-1", hashlib.sha256(f"hw-{name}".encode()).digest(), name, made) for name in names]
        self.ring = KeyRing(keys, {name: Entitlement(name) for name in names})


class Engine:
    """Answers each line with ``reply`` of its body, in ``takes_s``; ``asked`` has what came, with class and tenant."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.running = self.peak = 0
        self.takes_s = 0.0
        self.reply: Callable[[dict[str, Any]], tuple[int, Any, dict[str, str]]] = lambda body: (200, {"echo": body}, {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = json.loads((await whole_body(receive))["body"])
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        identity = identity_of(scope)
        assert identity is not None
        self.asked.append({**body, "class": headers.get("x-headway-class"), "tenant": identity.tenant})
        self.running += 1
        self.peak = max(self.peak, self.running)
        left = asyncio.create_task(receive())
        try:
            await asyncio.wait([left], timeout=self.takes_s) if self.takes_s else await asyncio.sleep(0)
            if left.done():
                return
        finally:
            left.cancel()
            self.running -= 1
        status, value, more = self.reply(body)
        fields = [(name.encode(), text.encode()) for name, text in more.items()]
        await answer(send, status, json.dumps(value).encode(), [(b"content-type", b"application/json"), *fields])  # type: ignore[arg-type]


class Server:
    """The server; ``client`` gives the HTTP client of a key."""

    def __init__(self, folder: Path, engine: Engine, *, seats: int, names: tuple[str, ...], **settings: str) -> None:
        self.engine, self.seats = engine, seats
        named = {"HEADWAY_BATCH_DIR": str(folder), **settings}
        found = Batches.from_environment(named)
        assert found is not None
        self.batches, self.preset = found, small_preset()
        guarded = RouteGuard(BatchRoutes(engine, self.batches), access(keys=Keys(*names)))
        bounds = Bounds.from_environment(named)
        self.app = RequestLimits(guarded, bounds, Budget(bounds.max_bodies_bytes))
        self.runner = BatchRunner(self.batches, self.app, lambda: self.seats, lambda: self.preset)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self.runner.run())

    async def stop(self) -> None:
        """End as a server does: what runs is cancelled, and the folder given back."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await asyncio.to_thread(self.batches.close)

    def client(self, key: str = ACME) -> Any:
        transport = httpx.ASGITransport(app=self.app)
        return httpx.AsyncClient(
            transport=transport, base_url="http://headway", headers={"authorization": f"Bearer {key}"}
        )

    async def upload(self, text: bytes, key: str = ACME, name: str = "in.jsonl") -> str:
        async with self.client(key) as client:
            reply = await client.post("/v1/files", data={"purpose": "batch"}, files={"file": (name, text)})
        assert reply.status_code == 200, reply.text
        return str(reply.json()["id"])

    async def create(self, text: bytes, key: str = ACME, window: str = "24h", **more: Any) -> dict[str, Any]:
        body = {"input_file_id": await self.upload(text, key), "endpoint": CHAT, "completion_window": window, **more}
        reply = await self.ask("POST", "/v1/batches", key, json=body)
        assert reply.status_code == 200, reply.text
        return dict(reply.json())

    async def ask(self, method: str, path: str, key: str = ACME, **more: Any) -> Any:
        async with self.client(key) as client:
            return await client.request(method, path, **more)

    async def ended(self, batch: dict[str, Any], key: str = ACME) -> dict[str, Any]:
        """The batch at its end."""
        return await self.until(batch, lambda now: now["status"] in ENDS, key)

    async def until(
        self, batch: dict[str, Any], holds: Callable[[dict[str, Any]], bool], key: str = ACME
    ) -> dict[str, Any]:
        async with asyncio.timeout(20):
            while True:
                now = (await self.ask("GET", f"/v1/batches/{batch['id']}", key)).json()
                if holds(now):
                    return dict(now)
                await asyncio.sleep(0.01)

    async def lines(self, file_id: str, key: str = ACME) -> list[dict[str, Any]]:
        """The lines of an output or error file."""
        reply = await self.ask("GET", f"/v1/files/{file_id}/content", key)
        assert reply.status_code == 200, reply.text
        return [json.loads(line) for line in reply.text.splitlines()]


@asynccontextmanager
async def serving(
    folder: Path, engine: Engine, *, seats: int = 4, names: tuple[str, ...] = ("acme", "zenith"), **settings: str
) -> AsyncIterator[Server]:
    """A server that runs batches."""
    server = Server(folder, engine, seats=seats, names=names, **settings)
    server.start()
    try:
        yield server
    finally:
        await server.stop()


def request(number: int, **more: Any) -> bytes:
    """A line of an input."""
    body = {"model": "tiny", "number": number, "messages": [{"role": "user", "content": "hello"}]}
    return json.dumps({"custom_id": f"r{number}", "method": "POST", "url": CHAT, "body": body, **more}).encode() + b"\n"


def requests(number: int) -> bytes:
    """An input of so many lines."""
    return b"".join(map(request, range(number)))
