"""A server on a simulated engine, with sample traffic: ``headway dashboard --demo`` watches and changes it.

Admission, admin API and metrics are those of every server; there is no route for requests from outside. Run as
``python -m headway_tools.demo.simulated_server DESCRIPTOR PARENT``, of a socket that listens already and of the process
with which it ends.
"""

from __future__ import annotations

import asyncio
import ctypes
import itertools
import os
import secrets
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import uvicorn
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from headway import Refused
from headway.engine import PlainAdapter
from headway.engine.fake import EngineDied, FakeParams
from headway.engine_service import EngineService
from headway.http.admin import Tokens, routes
from headway.operator import SIMULATED, PresetCatalogue, ServerIdentity
from headway.supervision import FactoryReplacer
from headway.warmup import OneRequest
from headway_simulator import Request
from headway_tools.demo.simulated_engine import MODEL, EngineFigures, SimulatedEngine
from headway_tools.demo.traffic import arrivals, overload

_RATE_PER_S, _OVERLOAD_PER_S = 3.0, 14.0
#: An overload of a minute every five minutes; the engine dies every quarter of an hour, and is replaced.
_OVERLOAD_EVERY_S, _OVERLOAD_FROM_S, _OVERLOAD_S = 300.0, 120.0, 60.0
_DIES_EVERY_S, _RESTART_S = 900.0, 15.0
_END_WITH_PARENT = 1  # linux/prctl.h: PR_SET_PDEATHSIG


class SimulatedServer:
    """The engine with all that is around one, the application that serves it, and its traffic."""

    def __init__(self, tokens: Tokens) -> None:
        registry, catalogue, self._adapter = CollectorRegistry(), PresetCatalogue(), PlainAdapter()
        ProcessCollector(registry=registry)
        self._figures = EngineFigures(registry)
        self.engine = SimulatedEngine(self._figures)
        replacer = FactoryReplacer(self.engine, self._another)
        self._service = EngineService(
            self.engine,
            self._adapter,
            catalogue.get("balanced"),
            catalogue,
            registry=registry,
            identity=ServerIdentity(MODEL, SIMULATED),
            source=OneRequest(lambda request_id: self.engine.generate("a" * 160, FakeParams(8), request_id)),
            warm_up=True,
            replacer=replacer,
        )
        replacer.replaced = self._replaced
        self.control = self._service.control
        self._tasks = self._service.parts.tasks

        async def metrics(request: HttpRequest) -> Response:
            return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")

        admin = routes(lambda: self.control, tokens)
        self.app = Starlette(routes=[*admin, Route("/metrics", metrics)], lifespan=self.running)

    @asynccontextmanager
    async def running(self, app: Starlette) -> AsyncIterator[None]:
        """Warm the engine up, then let requests come, until the block ends."""
        self._tasks.start("engine", self.engine.run())
        self._tasks.start("demo", self._play())
        yield
        self._tasks.stop_all()

    async def _play(self) -> None:
        await self._service.serve()
        self._tasks.start("traffic", self._send(arrivals(0, _RATE_PER_S)))
        self._tasks.start("deaths", self._deaths())
        await asyncio.sleep(_OVERLOAD_FROM_S)
        for seed in itertools.count(1):
            await self._send(overload(seed, _OVERLOAD_PER_S, _OVERLOAD_S))
            await asyncio.sleep(_OVERLOAD_EVERY_S - _OVERLOAD_S)

    async def _send(self, planned: Iterator[Request]) -> None:
        """Send each request at its time, whatever became of those before it."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        for request in planned:
            await asyncio.sleep(max(0.0, began_s + request.at_s - loop.time()))
            name = secrets.token_hex(8)
            self._tasks.start(name, self._ask(name, request))

    async def _ask(self, name: str, one: Request) -> None:
        prompt, params = "a" * (4 * one.prompt_tokens), FakeParams(one.output_tokens)
        with suppress(Refused, EngineDied):
            async for _ in self.engine.generate(prompt, params, name, priority=one.class_name):
                pass

    async def _deaths(self) -> None:
        while True:
            await asyncio.sleep(_DIES_EVERY_S)
            self.engine.die()

    async def _another(self) -> SimulatedEngine:
        await asyncio.sleep(_RESTART_S)
        return SimulatedEngine(self._figures)

    def _replaced(self) -> None:
        self._adapter.listen(self.engine, self._service.parts.activity)
        self._tasks.start("engine", self.engine.run())


def main(descriptor: int, parent: int) -> None:
    """Serve on a socket that listens already, until the process that started this one ends."""
    ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGTERM)
    if os.getppid() == parent:
        app = SimulatedServer(Tokens.from_environment()).app
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1))
        server.run(sockets=[socket.socket(fileno=descriptor)])


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
