"""The middleware around routes that generate with a fake engine, one token a second, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from asgi_client import AsgiClient, posted
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

import headway
from headway.engine.fake import FakeEngine, FakeParams
from headway.http.inference.middleware import AdmissionMiddleware
from headway_policies import Preset

PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages")


class GeneratingSite:
    """A request asks for ``max_tokens``, three if it names none, as a whole or as a ``stream``."""

    def __init__(self, preset: Preset, *more: Route, step_s: float = 1.0, **middleware: Any) -> None:
        self.engine: Any = headway.wrap(FakeEngine(step_s=step_s), preset)
        self.control: headway.Control = self.engine.headway
        routes = [*(Route(path, self.generate, methods=["POST"]) for path in PATHS), *more]
        self.app = AdmissionMiddleware(Starlette(routes=routes), preset=lambda: self.control.preset, **middleware)

    async def generate(self, request: Request) -> Response:
        """Asks for its seat at the first token, as a stream of Starlette's does."""
        asked = await request.json()
        outputs = self.engine.generate("p", FakeParams(asked.get("max_tokens", 3)), "id")
        if not asked.get("stream"):
            return JSONResponse({"tokens": len([output async for output in outputs])})

        async def events() -> AsyncIterator[str]:
            async for output in outputs:
                yield f"data: {len(output.tokens)}\n\n"

        return StreamingResponse(events(), media_type="text/event-stream")

    async def ask(self, asked: Any = None, path: str = PATHS[0], **headers: str) -> AsgiClient:
        """The client after one request; an underscore in a header's name stands for a hyphen."""
        async with asyncio.timeout(1_000):  # a time-out that never comes fails the test
            return await posted(self.app, asked, path, **headers)

    async def post(self, asked: Any = None, path: str = PATHS[0], **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the answer."""
        client = await self.ask(asked, path, **headers)
        return client.status, client.headers, client.body
