"""A server with Headway's own admission, admin API and metrics around a fake engine that slows down with its batch."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import threading
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Any

import httpx
from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram
from quick_exposition import QuickExposition
from starlette.applications import Starlette

import headway
from headway.engine.fake import FakeEngine, FakeParams
from headway.engine.port import PlainAdapter
from headway.http.admin.handlers import routes
from headway.http.admin.tokens import Role, Tokens
from headway.operator import Control, Meters, MetricsCollector, PresetCatalogue, Surroundings, install, prepare
from headway.usage import UsageLog
from headway_policies import Preset

TOKEN = "live-token-0123456789-0123456789-abcdef"


class SlowingEngine(FakeEngine):
    """A step takes ``base_s`` and ``seat_s`` more for each sequence in it."""

    base_s, seat_s = 0.002, 0.0002

    @property
    def step_s(self) -> float:  # type: ignore[override]  # an attribute there
        """The length of a step now."""
        return self.base_s + self.seat_s * len(self.running)

    @step_s.setter
    def step_s(self, value: float) -> None:
        pass


class LiveStandIn:
    """Listens on a free loopback port until the ``with`` block ends. ``clients`` keep it busy, if there are some.

    With an accounting, ``usage``, it also diagnoses itself, as a server does.
    """

    def __init__(
        self, preset: Preset | str = "balanced", *, clients: int = 0, token: str = TOKEN, usage: UsageLog | None = None
    ) -> None:
        self.control: Control
        self.url = ""
        self._preset, self._clients, self._token, self._usage = preset, clients, token, usage
        self._ids = itertools.count()
        self._ready, self._end, self.warmed = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> LiveStandIn:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end.set()
        self.warmed.set()
        self._thread.join(30)

    def call(self, work: Any) -> Any:
        """Await a coroutine on the server's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def send_clients_away(self) -> None:
        """Nobody asks any more; what was asked stays on record."""
        self.call(self._send_away())

    @property
    def preset(self) -> Preset:
        """The preset in force."""
        return self.control.preset

    @property
    def orders(self) -> list[str]:
        """What the audit says, the oldest first."""
        return [entry.after for entry in reversed(self.control.audit.entries(500)) if entry.action == "order_limit"]

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        registry, catalogue = CollectorRegistry(), PresetCatalogue()
        preset = catalogue.get(self._preset) if isinstance(self._preset, str) else catalogue.include(self._preset)
        meters = Meters.for_presets(catalogue, registry)
        self.engine = SlowingEngine(max_num_seqs=64)
        parts = prepare(self.engine, PlainAdapter(), preset, meters=meters)
        self.control = install(parts, catalogue, Surroundings(warm_beside_traffic=self._warm, usage=self._usage))
        registry.register(MetricsCollector(self.control.snapshot, self._loop))
        self._tokens = Counter("made_tokens", "-", registry=registry)
        bounds = [0.0005 * 1.15**place for place in range(40)]
        self._gaps = Histogram("gaps", "-", buckets=bounds, registry=registry)
        self._meters, self._exposition = meters, QuickExposition(registry)
        app = Starlette(routes=routes(lambda: self.control, Tokens({self._token: Role.OPERATOR})))
        self._admin = httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://headway")
        await self._serve()

    async def _serve(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/headway/{tail:.*}", self._forward)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/completions", self._completions)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self._users = [asyncio.create_task(self._user()) for _ in range(self._clients)]
        if self._usage is not None:
            self._users.append(asyncio.create_task(self.control.diagnostics.run()))
        self._ready.set()
        await asyncio.to_thread(self._end.wait)
        await self._send_away()
        self.control.limits.leave()
        await self._admin.aclose()
        await runner.cleanup()

    async def _send_away(self) -> None:
        for user in self._users:
            user.cancel()
        await asyncio.gather(*self._users, return_exceptions=True)

    async def _user(self) -> None:
        while True:
            try:
                async for _ in self._stream("normal", 20):
                    pass
            except headway.Refused:
                await asyncio.sleep(0.1)

    async def _stream(self, class_name: str, tokens: int) -> AsyncGenerator[int, None]:
        clock, last_s = self._loop.time, None
        name = f"r{next(self._ids)}"
        made = self.engine.generate("text", FakeParams(tokens), name, priority=class_name)  # type: ignore[arg-type]  # a class, behind the gate
        async with contextlib.aclosing(made):
            async for _ in made:
                now_s = clock()
                self._tokens.inc()
                self._meters.step(len(self.engine.running))
                if last_s is not None:
                    self._gaps.observe(now_s - last_s)
                last_s = now_s
                yield 1

    async def _warm(self, batch_size: int) -> str:
        """A warm-up that goes on until ``warmed`` is set."""
        await asyncio.to_thread(self.warmed.wait, 30)
        return ""

    async def _forward(self, request: web.Request) -> web.Response:
        headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
        body = await request.read()
        answer = await self._admin.request(request.method, request.path_qs, headers=headers, content=body)
        kept = {name: value for name, value in answer.headers.items() if name.lower() in ("etag", "content-type")}
        return web.Response(status=answer.status_code, body=answer.content, headers=kept)

    async def _metrics(self, request: web.Request) -> web.Response:
        text = self._exposition.text()
        text = text.replace("made_tokens_total", "vllm:generation_tokens_total")
        text = text.replace("gaps_", "vllm:inter_token_latency_seconds_").replace(
            " gaps ", " vllm:inter_token_latency_seconds "
        )
        return web.Response(text=text.replace(" made_tokens ", " vllm:generation_tokens "))

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "fake", "max_model_len": 64}]})

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        stream = self._stream(request.headers.get("x-headway-class", "normal"), body["max_tokens"])
        number = 0
        try:
            async with contextlib.aclosing(stream):
                async for _ in stream:
                    number += 1
                    if number == 1:
                        await answer.prepare(request)
                    finish = "length" if number == body["max_tokens"] else None
                    event = {"choices": [{"text": "a", "finish_reason": finish}], "usage": None}
                    await answer.write(f"data: {json.dumps(event)}\n\n".encode())
        except ConnectionError:
            return answer
        except headway.Refused as refused:
            return web.json_response({}, status=refused.status, headers={"Retry-After": str(refused.retry_after_s)})
        await answer.write(b"data: [DONE]\n\n")
        return answer
