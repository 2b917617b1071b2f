"""A stand-in for a vLLM server behind a router: a process that answers completions, models, health and metrics.

stand_in_instance.py PORT [STEP_S [SEATS [HOW]]]

A token takes ``STEP_S``. At most ``SEATS`` requests run at once; more wait inside, as in an engine. ``HOW`` is "well",
"refuses" (503 to everything that generates) or "breaks" (ends each answer in its middle).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route


class Instance:
    def __init__(self, name: str, step_s: float, seats: int, how: str) -> None:
        self.name, self.step_s, self.how = name, step_s, how
        self.seats, self.most = asyncio.Semaphore(seats), seats
        self.running = self.waiting = self.tokens = self.peak = 0
        self.seen: list[str] = []

    async def complete(self, request: Request) -> Response:
        asked = await request.json()
        if isinstance(asked["prompt"], str):  # tokens are those of a warm-up
            self.seen.append(asked["prompt"])
        if self.how == "refuses":
            return JSONResponse({"error": {"message": "no"}}, 503, {"x-headway-reason": "draining"})
        number = int(asked.get("max_tokens") or 8)
        if asked.get("stream"):
            return StreamingResponse(self._events(str(asked["prompt"]), number), media_type="text/event-stream")
        async for _ in self._steps(number):
            pass
        text = f"{asked['prompt']} by {self.name}"
        usage = {"prompt_tokens": 3, "completion_tokens": number, "total_tokens": 3 + number}
        return JSONResponse({"choices": [{"text": text, "index": 0}], "usage": usage, "headers": _known(request)})

    async def _events(self, prompt: str, number: int) -> AsyncIterator[str]:
        async for step in self._steps(number):
            yield f"data: {json.dumps({'choices': [{'index': 0, 'text': f'{prompt} {step} {self.name}'}]})}\n\n"
        yield "data: [DONE]\n\n"

    async def _steps(self, number: int) -> AsyncIterator[int]:
        self.waiting += 1
        try:
            await self.seats.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            for step in range(number):
                await asyncio.sleep(self.step_s)
                if self.how == "breaks" and step == number // 2:
                    os.kill(os.getpid(), signal.SIGKILL)
                self.tokens += 1
                yield step
        finally:
            self.running -= 1
            self.seats.release()

    async def metrics(self, request: Request) -> Response:
        lines = {
            "vllm:num_requests_running": self.running,
            "vllm:num_requests_waiting": self.waiting,
            "vllm:kv_cache_usage_perc": 0.25 * self.running / self.most,
            "vllm:generation_tokens_total": self.tokens,
        }
        return PlainTextResponse("".join(f'{name}{{engine="0"}} {value}\n' for name, value in lines.items()))

    async def requests(self, request: Request) -> Response:
        """The prompts of all requests so far, how many run, and the most that ever did at once."""
        return JSONResponse({"seen": self.seen, "running": self.running, "peak": self.peak})


def _known(request: Request) -> dict[str, str]:
    names = ("authorization", "x-api-key", "cookie", "x-headway-class", "x-headway-tenant", "traceparent")
    return {name: request.headers[name] for name in names if name in request.headers}


async def _health(request: Request) -> Response:
    return Response()


async def _models(request: Request) -> Response:
    return JSONResponse({"object": "list", "data": [{"id": "tiny", "object": "model"}]})


def main(port: str, step_s: str = "0.01", seats: str = "4", how: str = "well") -> None:
    """Serve until it is ended."""
    one = Instance(port, float(step_s), int(seats), how)
    routes = [
        Route("/v1/completions", one.complete, methods=["POST"]),
        Route("/metrics", one.metrics),
        Route("/requests", one.requests),
        Route("/health", _health),
        Route("/v1/models", _models),
    ]
    uvicorn.run(Starlette(routes=routes), port=int(port), log_level="error")


if __name__ == "__main__":
    main(*sys.argv[1:])
