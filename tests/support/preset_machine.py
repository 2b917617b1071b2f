"""A scene, and the fakes of the engine that it is played on: an engine that reports its steps, an instance of a router.

What they share, and what they were given, is on a ``Machine``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from headway.admission import loop_time_s
from headway.engine import Ended, PlainAdapter, StepListener
from headway.engine.fake import EngineDied, FakeEngine, FakeParams
from headway.router.addresses import Address
from headway.router.forwarding.call import Call, InstanceLostError
from headway.router.forwarding.forwarded import Forwarded, Piece
from headway_policies import Load, Usage
from headway_policies.engine import Stage, Warmup
from headway_policies.memory import Cache
from headway_policies.preset import Ability
from headway_policies.step import StepTerms

SEATS = 64
_CHARACTERS = 4


@dataclass(frozen=True)
class Asked:
    """One request; ``prefix`` of several means that their prompts begin alike, but for the last tokens."""

    at_s: float
    name: str
    class_name: str | None = "normal"
    tokens: int = 3
    prompt_tokens: int = 8
    tenant: str = "x"
    tier: str | None = None
    prefix: int = 0

    @property
    def prompt(self) -> str:
        """Its name is the last word."""
        filling = (f"p{self.prefix} " if self.prefix else f"{self.name} ") * self.prompt_tokens
        return (
            f"{filling[: _CHARACTERS * self.prompt_tokens - 9]:<{_CHARACTERS * self.prompt_tokens - 9}} {self.name:>8}"
        )


@dataclass(frozen=True)
class Scene:
    """What arrives, and what the machine does: ``events`` set an attribute of ``Machine`` at a time, or call it.

    Each sequence holds ``kv_seat_ratio`` of the KV cache. A token takes ``step_s``, ``seat_s`` more for each other
    sequence, and ``prefill_s`` more for each token of a prompt that is not computed yet; on an engine that was ``cold``
    longer by as much as it has been given fewer requests.
    """

    asked: tuple[Asked, ...]
    events: tuple[tuple[float, str, Any], ...] = ()
    step_s: float = 1.0
    seat_s: float = 0.0
    prefill_s: float = 0.0
    kv_tokens: int = 100_000
    kv_seat_ratio: float = 0.0
    warm: bool = False
    cold: bool = False
    rest_s: float = 0.0


@dataclass
class Machine:
    """What the engines of one run share, and a log of what they were given."""

    scene: Scene
    kind: type[Engine]
    log: list[tuple[Any, ...]] = field(default_factory=list)
    engines: list[Engine] = field(default_factory=list)
    began_s: float = 0.0
    kv_use: float = 0.0
    gpu_use: float | None = None
    server_bytes: int = 0
    engine_bytes: int = 0
    stalled: bool = False
    slow: bool = False
    failing: bool = False

    def engine(self) -> Engine:
        """Another engine."""
        self.engines.append(self.kind(self))
        return self.engines[-1]

    def die(self) -> None:
        """The engine in use dies."""
        self.engines[-1].die()

    def note(self, *what: Any) -> None:
        """Log this with the time."""
        self.log.append((round(loop_time_s() - self.began_s, 2), *what))


class Engine(FakeEngine):
    """A fake engine on a machine. It reports its steps, those at one instant as one."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        super().__init__(max_num_seqs=SEATS)
        self.listener: StepListener | None = None
        self._reported_s = -1.0
        self._prefilled = self._begun = self.computed = 0
        self._prefills: dict[str, int] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in ("step_s", "stalled", "slow"):
            super().__setattr__(name, value)

    @property
    def stalled(self) -> bool:  # type: ignore[override]
        return self.machine.stalled

    @property
    def slow(self) -> bool:  # type: ignore[override]
        return self.machine.slow

    @property
    def step_s(self) -> float:  # type: ignore[override]
        scene = self.machine.scene
        slower = 1 + 4 / len(self.machine.log) if scene.cold and self.machine.log else 1.0
        prefill_s = scene.prefill_s * sum(self._prefills.values())
        return slower * (scene.step_s + scene.seat_s * max(0, len(self.running) - 1)) + prefill_s

    @property
    def kv_use(self) -> float:
        """The share of the KV cache in use."""
        return max(self.machine.kv_use, min(1.0, self.machine.scene.kv_seat_ratio * len(self.running)))

    def listen(self, listener: StepListener) -> None:
        """From now on."""
        self.listener = listener

    def shutdown(self, timeout: float | None = None) -> None:
        """Stop everything."""
        self.die()

    async def generate(self, prompt: Any, sampling_params: Any, request_id: str, **options: Any) -> Any:
        """As any other."""
        own = not isinstance(prompt, str)
        size = len(prompt) if own else len(prompt) // _CHARACTERS
        more = getattr(sampling_params, "more", "")
        self.machine.note("own" if own else prompt.split()[-1], size, sampling_params.max_tokens, more)
        if self.machine.failing:
            raise RuntimeError("this request fails")
        made, last_s = 0, loop_time_s()
        self._prefills[request_id] = size
        try:
            async for output in super().generate(prompt, FakeParams(sampling_params.max_tokens), request_id, **options):
                made, took_s, last_s = made + 1, loop_time_s() - last_s, loop_time_s()
                self.computed += 1
                if made == 1:
                    self._prefilled += self._prefills.pop(request_id, 0)
                    self._begun += 1
                self._report(request_id, size, made, took_s, finished=output.finished)
                yield output
        finally:
            self._prefills.pop(request_id, None)

    def _report(self, request_id: str, prompt_tokens: int, made: int, took_s: float, *, finished: bool) -> None:
        if self.listener is None:
            return
        if self._reported_s != loop_time_s():
            self._reported_s = loop_time_s()
            self.listener.step(self._load(took_s if made > 1 else None), len(self.running), [])
        if finished:
            self.listener.step(None, 0, [Ended(request_id, prompt_tokens, made, "length")])

    def _load(self, took_s: float | None) -> Load:
        prefilled, self._prefilled, begun, self._begun = self._prefilled, 0, self._begun, 0
        return Load(
            len(self.running),
            0,
            self.kv_use,
            inter_token_s=took_s,
            prefill_tokens=prefilled,
            kv_capacity_tokens=self.machine.scene.kv_tokens,
            first_tokens=begun,
        )


class VllmLike(PlainAdapter):
    """What vLLM's adapter can do beside a plain one: clear the engine's caches, shape its steps."""

    def lacks(self, engine: Any) -> frozenset[Ability]:
        return frozenset()

    async def shape_steps(self, engine: Any, terms: StepTerms | None) -> None:
        engine.machine.note("shaped", terms)

    async def clear_cache(self, engine: Any, cache: Cache) -> bool:
        engine.machine.note("cleared", cache.value)
        return True


@dataclass(frozen=True)
class OwnParams:
    """The parameters of a request of the warm-up."""

    max_tokens: int
    more: str = ""
    n: int = 1


@dataclass(frozen=True)
class WarmupSource:
    """Makes the requests that vLLM's source would, by length and stage."""

    engine: Any

    def ask(self, stage: Stage, config: Warmup, index: int, request_id: str) -> AsyncGenerator[Any, None]:
        prompt = [1] * config.prompt_tokens[index % len(config.prompt_tokens)]
        more = stage.value if stage in (Stage.LOGPROBS, Stage.JSON_SCHEMA) else ""
        return self.engine.generate(prompt, OwnParams(config.answer_tokens(stage), more), request_id)  # type: ignore[no-any-return]

    def short_request(self, request_id: str) -> AsyncGenerator[Any, None]:
        return self.engine.generate([1], OwnParams(1), request_id)  # type: ignore[no-any-return]

    def refused(self, error: Exception) -> bool:
        return False


class Instance:
    """The HTTP client of one instance: a plain server around the engine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self._ids = iter(range(1_000_000))

    async def get(self, address: Address, path: str, within_s: float) -> tuple[int, str]:
        """What vLLM answers."""
        engine = self.machine.engines[-1]
        if engine.errored:
            raise ConnectionRefusedError
        if engine.stalled:
            await asyncio.sleep(within_s)
            raise TimeoutError
        if path == "/v1/models":
            return 200, json.dumps({"data": [{"id": "tiny", "max_model_len": 4096}]})
        lines = {
            'vllm:num_requests_running{engine="0"}': len(engine.running),
            'vllm:kv_cache_usage_perc{engine="0"}': engine.kv_use,
            'vllm:generation_tokens_total{engine="0"}': engine.computed,
            f'vllm:cache_config_info{{block_size="1",num_gpu_blocks="{self.machine.scene.kv_tokens}"}}': 1.0,
        }
        text = "".join(f"{name} {value}\n" for name, value in lines.items())
        return (404 if path.startswith("/headway") else 200), text if path == "/metrics" else ""

    async def exchange(
        self, address: Address, request: Forwarded, call: Call, prompt_tokens: int
    ) -> AsyncGenerator[Piece, None]:
        """One stream."""
        asked, status, made = json.loads(request.body), 200, 0
        more = next((one for one in ("logprobs", "response_format") if one in asked), "")
        params = OwnParams(asked["max_tokens"], {"response_format": "json_schema"}.get(more, more))
        engine = self.machine.engines[-1]
        if engine.errored:
            raise InstanceLostError(address.name, sent=False)
        headers: tuple[tuple[str, str], ...] = (("content-type", "text/event-stream"),)
        async with aclosing(engine.generate(asked["prompt"], params, f"call {next(self._ids)}")) as outputs:
            while True:
                try:
                    output = await call.step(_next(outputs))
                except RuntimeError as error:
                    if isinstance(error, EngineDied):
                        raise InstanceLostError(address.name, sent=True) from None
                    yield Piece(b'{"error": {}}', 500, (("content-type", "application/json"),), last=True)
                    return
                if output is None:
                    break
                made += 1
                yield Piece(b'data: {"choices": [{"text": "a"}]}\n\n', status or None, headers, tokens=1)
                status, headers = 0, ()
        yield Piece(b"data: [DONE]\n\n", last=True, usage=Usage(prompt_tokens, made))

    async def close(self) -> None:
        """Nothing is held."""


async def _next(outputs: AsyncGenerator[Any, None]) -> Any:
    return await anext(outputs, None)


class SilentEngine(Engine):
    """Reports nothing."""

    listen = progress = None  # type: ignore[assignment]
