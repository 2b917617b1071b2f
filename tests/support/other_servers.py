"""Stand-ins for servers of other makers, each with the routes, statuses, metrics and streams that its sources give it.

The sources are those of SGLang 0.5.23, TGI 3.3.6, llama.cpp b11434, and of vLLM 0.32's front end in Rust. A stand-in
runs in the loop of the test, which changes what it does. ``OtherServer`` itself is of a maker that nobody knows.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

from aiohttp import web

PROMPT_TOKENS = 5


@dataclass
class OtherServer:
    """It says nothing of itself but its model: no health, no metrics, no owner that is known.

    It runs ``seats`` requests at once, and each token takes ``step_s``. While it is ``full`` it refuses as its maker
    does, while ``loading`` it is not ready; without ``metered`` its flag for metrics is not set. ``bodies`` are those
    of all requests, ``left`` counts the clients that went before the end.
    """

    seats: int = 4
    context: int = 2048
    step_s: float = 0.01
    full: bool = False
    loading: bool = False
    metered: bool = True
    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    running: int = 0
    waiting: int = 0
    left: int = 0
    tokens: int = 0
    answered: int = 0
    owner: ClassVar[str] = "somebody"
    #: What a stream has before its first token.
    opening: ClassVar[bytes] = b""

    def __post_init__(self) -> None:
        self._free = asyncio.Semaphore(self.seats)

    def routes(self) -> list[web.RouteDef]:
        """Those beside its model and what generates."""
        return []

    def entry(self) -> dict[str, Any]:
        """What its list of models says beside the name and the owner."""
        return {}

    def refusal(self, body: dict[str, Any]) -> web.Response | None:
        """None for a request that it takes."""
        return web.json_response({"error": {"message": "busy"}}, status=503) if self.full else None

    def usage(self, tokens: int) -> dict[str, Any]:
        """What a whole answer, or the end of a stream, says of its tokens."""
        counts = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": tokens, "total_tokens": PROMPT_TOKENS + tokens}
        return {"usage": counts}

    def last_events(self, body: dict[str, Any], tokens: int) -> list[str]:
        """The end of a stream."""
        return [data({"choices": [], **self.usage(tokens)})] if _wants_usage(body) else []

    def most_tokens(self, body: dict[str, Any]) -> int:
        """How long the answer is."""
        return int(next((body[name] for name in ("max_completion_tokens", "max_tokens") if body.get(name)), 8))

    async def models(self, request: web.Request) -> web.Response:
        """The list of models."""
        if self.loading:
            return web.Response(status=503)
        entry = {"id": "tiny", "object": "model", "created": 0, "owned_by": self.owner, **self.entry()}
        return web.json_response({"object": "list", "data": [entry]})

    async def generate(self, request: web.Request) -> web.StreamResponse:
        """One completion, whole or as a stream."""
        body = await request.json()
        self.bodies.append(body)
        refusal = self.refusal(body)
        if refusal is not None:
            return refusal
        chat, number = request.path.endswith("/chat/completions"), self.most_tokens(body)
        try:
            if body.get("stream"):
                return await self._stream(request, body, number, chat=chat)
            async for _ in self._tokens(number):
                pass
        except (asyncio.CancelledError, ConnectionResetError):
            self.left += 1
            raise
        text = {"message": {"role": "assistant", "content": "word " * number}} if chat else {"text": "word " * number}
        return web.json_response({"choices": [{"index": 0, "finish_reason": "length", **text}], **self.usage(number)})

    async def _stream(
        self, request: web.Request, body: dict[str, Any], number: int, *, chat: bool
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(self.opening)
        async for step in self._tokens(number):
            for event in self.events(step, chat=chat):
                await response.write(event.encode())
        for event in (*self.last_events(body, number), "data: [DONE]\n\n"):
            await response.write(event.encode())
        return response

    def events(self, step: int, *, chat: bool) -> list[str]:
        """Those of one token: the role of a chat comes with the first one, in an event of its own."""
        role = [data({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})]
        text = {"delta": {"content": "word "}} if chat else {"text": "word "}
        return [*(role if chat and step == 0 else []), data({"choices": [{"index": 0, **text}]})]

    async def _tokens(self, number: int) -> AsyncIterator[int]:
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            for step in range(number):
                await asyncio.sleep(self.step_s)
                self.tokens += 1
                yield step
            self.answered += 1
        finally:
            self.running -= 1
            self._free.release()


@dataclass
class RustVllm(OtherServer):
    """vLLM's front end in Rust: vLLM's metrics in the form of OpenMetrics, without the space of the KV cache."""

    owner: ClassVar[str] = "vllm-frontend-rs"

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/health", self._health), web.get("/metrics", self._metrics)]

    def entry(self) -> dict[str, Any]:
        return {"root": "tiny", "parent": None, "max_model_len": self.context}

    def refusal(self, body: dict[str, Any]) -> web.Response | None:
        detail = {"message": "failed to submit", "type": "server_error", "param": None, "code": "server_error"}
        return web.json_response({"error": detail}, status=500) if self.full else None

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(status=503 if self.loading else 200)

    async def _metrics(self, request: web.Request) -> web.Response:
        labels = '{model_name="tiny",engine="0"}'
        text = exposition(labels, {
            "vllm:num_requests_running": self.running, "vllm:num_requests_waiting": self.waiting,
            "vllm:kv_cache_usage_perc": self.running / self.seats / 4,
            "vllm:prompt_tokens_total": PROMPT_TOKENS * self.answered, "vllm:generation_tokens_total": self.tokens,
            "vllm:inter_token_latency_seconds_sum": self.tokens * self.step_s,
            "vllm:inter_token_latency_seconds_count": self.tokens, "vllm:num_preemptions_total": 0,
        })  # fmt: skip
        return web.Response(text=text + "# EOF\n", headers={"content-type": "application/openmetrics-text"})


@dataclass
class Sglang(OtherServer):
    """SGLang: its health route computes a token and looks for it once a second; a stream is refused in its first event.

    ``health_s`` is the time until that token; ``--enable-metrics`` is needed for metrics.
    """

    health_s: float = 0.0
    owner: ClassVar[str] = "sglang"

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/health", self._health),
            web.get("/server_info", self._info),
            *([web.get("/metrics", self._metrics)] if self.metered else []),
        ]

    def entry(self) -> dict[str, Any]:
        return {"root": "tiny", "parent": None, "max_model_len": self.context}

    def refusal(self, body: dict[str, Any]) -> web.Response | None:
        if not self.full:
            return None
        detail = {"object": "error", "message": "The request queue is full.", "param": None, "code": 503}
        if not body.get("stream"):
            return web.json_response({**detail, "type": "503"}, status=503)
        return refused_stream({"error": {**detail, "type": "SERVICE_UNAVAILABLE"}})

    async def _health(self, request: web.Request) -> web.Response:
        if not self.loading:
            await asyncio.sleep(self.health_s)
        return web.Response(status=503 if self.loading else 200)

    async def _info(self, request: web.Request) -> web.Response:
        states = [{"effective_max_running_requests_per_dp": self.seats // 2}] * 2
        return web.json_response({"max_running_requests": None, "dp_size": 2, "internal_states": states})

    async def _metrics(self, request: web.Request) -> web.Response:
        labels = '{engine_type="unified",model_name="tiny",moe_ep_rank="0",pp_rank="0",priority="",tp_rank="0"}'
        of_one = labels.replace('priority=""', 'priority="3"')
        return web.Response(text=exposition(labels, {
            "sglang:num_running_reqs": self.running, "sglang:num_queue_reqs": self.waiting,
            "sglang:token_usage": self.running / self.seats / 4, "sglang:max_total_num_tokens": 4096,
            "sglang:prompt_tokens_total": PROMPT_TOKENS * self.answered,
            "sglang:generation_tokens_total": self.answered,
            "sglang:inter_token_latency_seconds_sum": self.tokens * self.step_s,
            "sglang:inter_token_latency_seconds_count": self.tokens,
        }) + exposition(of_one, {"sglang:num_running_reqs": self.running}))  # fmt: skip


@dataclass
class Tgi(OtherServer):
    """TGI: at most ``seats`` requests are let in at all; it takes texts alone, and a stream is refused in its first
    event. Its limit of tokens may not reach beyond the context.
    """

    owner: ClassVar[str] = "tiny"
    #: A comment that keeps the connection open, as every 15 seconds.
    opening: ClassVar[bytes] = b":\n\n"

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/health", self._health),
            web.get("/info", self._info),
            web.get("/metrics", self._metrics),
        ]

    def refusal(self, body: dict[str, Any]) -> web.Response | None:
        if not isinstance(body.get("prompt", ""), str):
            return web.Response(status=422, text="Failed to deserialize the JSON body into the target type")
        if self.full or self.running + self.waiting >= self.seats:
            return self._error(body, 429, "Model is overloaded", "overloaded")
        if PROMPT_TOKENS + min(int(body.get("max_tokens") or 0), 1024) > self.context:
            text = f"Input validation error: `inputs` tokens + `max_new_tokens` must be <= {self.context}."
            return self._error(body, 422, text, "validation")
        return None

    def usage(self, tokens: int) -> dict[str, Any]:
        """That of a whole answer has no prompt: it counts the details of the prefill, which nobody asked for."""
        return {"usage": {"prompt_tokens": 0, "completion_tokens": tokens, "total_tokens": tokens}}

    def events(self, step: int, *, chat: bool) -> list[str]:
        """Each names the role."""
        text = {"delta": {"role": "assistant", "content": "word "}} if chat else {"text": "word "}
        return [data({"choices": [{"index": 0, **text}]})]

    def last_events(self, body: dict[str, Any], tokens: int) -> list[str]:
        """A completion says its usage in any case."""
        return [data({"choices": [], **super().usage(tokens)})] if "prompt" in body or _wants_usage(body) else []

    def _error(self, body: dict[str, Any], status: int, text: str, kind: str) -> web.Response:
        if body.get("stream"):
            return refused_stream({"error": {"message": text, "http_status_code": status}})
        return web.json_response({"error": text, "error_type": kind}, status=status)

    async def _health(self, request: web.Request) -> web.Response:
        down = {"error": "unhealthy", "error_type": "healthcheck"}
        return web.json_response(down, status=503) if self.loading else web.Response()

    async def _info(self, request: web.Request) -> web.Response:
        sizes = {"max_concurrent_requests": self.seats, "max_total_tokens": self.context}
        return web.json_response({"model_id": "tiny", "max_client_batch_size": 4, "version": "3.3.6-dev0", **sizes})

    async def _metrics(self, request: web.Request) -> web.Response:
        gauges = {
            "tgi_batch_current_size": self.running, "tgi_queue_size": self.waiting,
            "tgi_batch_current_max_tokens": 256 * self.running, "tgi_batch_max_total_tokens": 4096,
            "tgi_request_input_length_sum": PROMPT_TOKENS * self.answered,
            "tgi_request_mean_time_per_token_duration_sum": self.step_s * self.answered,
            "tgi_request_mean_time_per_token_duration_count": self.answered,
        }  # fmt: skip
        steps = exposition('{method="decode"}', {"tgi_batch_inference_count": self.tokens})
        return web.Response(text=exposition("", gauges) + steps)


@dataclass
class LlamaCpp(OtherServer):
    """llama.cpp's server: 503 on every route while it loads, a queue without an end, and ``n_predict``, which counts
    before the other names of a limit and is none where it is below 0; ``--metrics`` is needed for metrics.
    """

    owner: ClassVar[str] = "llamacpp"

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/{route:.*}", self._other)]

    def entry(self) -> dict[str, Any]:
        return {"meta": {"n_vocab": 49152, "n_ctx": self.context, "n_ctx_train": 8192}}

    def most_tokens(self, body: dict[str, Any]) -> int:
        names = ("n_predict", "max_completion_tokens", "max_tokens")
        limit = int(next((body[name] for name in names if name in body), -1))
        return self.context // 64 if limit < 0 else limit

    def usage(self, tokens: int) -> dict[str, Any]:
        return {**super().usage(tokens), **self._timings(tokens)}

    def last_events(self, body: dict[str, Any], tokens: int) -> list[str]:
        """The timings stand there in any case."""
        ended = data({"choices": [{"index": 0, "finish_reason": "length", "delta": {}}], **self._timings(tokens)})
        return [ended, *super().last_events(body, tokens)]

    async def models(self, request: web.Request) -> web.Response:
        return _still_loading() if self.loading else await super().models(request)

    def _timings(self, tokens: int) -> dict[str, Any]:
        return {"timings": {"cache_n": 0, "prompt_n": PROMPT_TOKENS, "predicted_n": tokens}}

    async def _other(self, request: web.Request) -> web.Response:
        route = request.path
        if self.loading:
            return _still_loading()
        if route == "/health":
            return web.json_response({"status": "ok"})
        if route == "/props":
            settings = {"n_ctx": self.context, "params": {"n_predict": -1}}
            return web.json_response({"default_generation_settings": settings, "total_slots": self.seats})
        if route != "/metrics":
            return _llama_error(404, "File Not Found", "not_found_error")
        if not self.metered:
            text = "This server does not support metrics endpoint. Start it with `--metrics`"
            return _llama_error(501, text, "not_supported_error")
        return web.Response(text=exposition("", {
            "llamacpp:prompt_tokens_total": PROMPT_TOKENS * self.answered,
            "llamacpp:tokens_predicted_total": self.answered,
            "llamacpp:tokens_predicted_seconds_total": self.answered * self.step_s,
            "llamacpp:n_decode_total": self.tokens, "llamacpp:n_tokens_max": 0,
            "llamacpp:requests_processing": self.running, "llamacpp:requests_deferred": self.waiting,
        }))  # fmt: skip


def data(content: object) -> str:
    """An event."""
    return f"data: {json.dumps(content)}\n\n"


def exposition(labels: str, values: dict[str, float]) -> str:
    """Samples as an exposition has them."""
    return "".join(f"# HELP {name} What it is\n{name}{labels} {value}\n" for name, value in values.items())


def refused_stream(error: object) -> web.Response:
    """A refusal in a stream, whose status says that all is well."""
    text = data(error) + "data: [DONE]\n\n"
    return web.Response(text=text, headers={"content-type": "text/event-stream"})


@asynccontextmanager
async def standing_in(*servers: OtherServer) -> AsyncIterator[None]:
    """They listen for the length of a block."""
    runners = []
    try:
        for server in servers:
            application = web.Application()
            application.add_routes([
                web.get("/v1/models", server.models), web.post("/v1/completions", server.generate),
                web.post("/v1/chat/completions", server.generate), *server.routes(),
            ])  # fmt: skip
            runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0.1)
            runners.append(runner)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield
    finally:
        for runner in runners:
            await runner.cleanup()


def _wants_usage(body: dict[str, Any]) -> bool:
    return bool((body.get("stream_options") or {}).get("include_usage"))


def _still_loading() -> web.Response:
    return _llama_error(503, "Loading model", "unavailable_error")


def _llama_error(status: int, text: str, kind: str) -> web.Response:
    return web.json_response({"error": {"message": text, "type": kind, "code": status}}, status=status)
