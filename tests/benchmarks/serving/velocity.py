"""The arm of VelocityLLM: its dynamic policy in front of the same engine, in this process.

The package serves vLLM on NVIDIA alone, but its policy takes any backend; ours is the engine of all other arms. It is
called as its ``/generate`` does, for the whole answer: its streamed call goes past its own queue. Tokens are counted
when the engine makes them, which is earlier than VelocityLLM would deliver them. Its objective is the time of the whole
answer; each request states what both of ours come to. All else is as it comes.

It is not a dependency of Headway; where it is not installed, the arm is left out.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
from collections.abc import AsyncIterator
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary

from headway_simulator.engine_model.capacity import Slo
from headway_simulator.traffic.workload import Request
from serving.client import Answer, Engine, Send

VERSION = "0.4.4"
#: What an operator is told where it is missing.
INSTALL = f"pip install --no-deps velocityllm=={VERSION}"
REFUSED = "velocityllm"
_USUAL_TOKENS = 64
_PRIORITIES = {"realtime": 1, "normal": 2, "batch": 3}


def installed() -> bool:
    """Whether its scheduler can be imported here."""
    return importlib.util.find_spec("scheduler_engine") is not None


def velocity(engine: Engine, slo: Slo) -> Send:
    """Sends through VelocityLLM's policy; what it has learnt about an engine lasts from one block to the next."""
    if engine not in _found:
        _found[engine] = _Velocity(engine, slo)
    return _found[engine].send


class _Velocity:
    """The policy and its dispatch loop, which runs only while requests do: it would disturb the other arms."""

    def __init__(self, engine: Engine, slo: Slo) -> None:
        self._slo = slo
        self._types, policies = _modules()
        config = self._types.ServerConfig(target_sla_ms=self._answer_ms(_USUAL_TOKENS))
        self._backend = _Backend(engine)
        self._policy = policies.DynamicBatchPolicy(self._backend, config)
        self._rejected = policies.AdmissionRejectedException
        self._ids, self._unfinished = count(), 0

    async def send(self, request: Request, answer: Answer) -> None:
        """Run one request as VelocityLLM's own endpoint does."""
        request_id = f"v{next(self._ids)}"
        words = self._types.InferenceRequest(
            prompt="word " * request.prompt_tokens,
            max_tokens=request.output_tokens,
            priority=_PRIORITIES[request.class_name],
            sla_target_ms=self._answer_ms(request.output_tokens),
            request_id=request_id,
        )
        self._unfinished += 1
        self._backend.asked[request_id] = (request, answer)
        ended = False
        try:
            if self._unfinished == 1:
                await self._policy.initialize()
            await self._policy.schedule(words)
            ended = True
        except self._rejected:
            answer.end, ended = REFUSED, True
        finally:
            self._unfinished -= 1
            if not ended:
                await self._policy.cancel_request(request_id)
            if not self._unfinished:
                await self._policy.shutdown()
            self._backend.asked.pop(request_id, None)

    def _answer_ms(self, tokens: int) -> float:
        return 1000 * (self._slo.ttft_s + tokens * self._slo.inter_token_s)


class _Backend:
    """VelocityLLM's ``InferenceBackend``: the engine that all arms share, and no GPU to read."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.asked: dict[str, tuple[Request, Answer]] = {}

    async def initialize(self) -> None:
        """The engine runs already."""

    async def shutdown(self) -> None:
        """The engine goes on."""

    async def generate_stream(
        self, prompt: str, max_tokens: int, temperature: float, request_id: str, image: str | None = None
    ) -> AsyncIterator[str]:
        """One piece for the whole answer: the policy joins them."""
        await self._engine.bare(*self.asked[request_id])
        yield "."

    def pop_token_count(self, request_id: str) -> int:
        """The tokens of an answer that has ended."""
        return self.asked[request_id][1].tokens

    def get_gpu_telemetry(self) -> tuple[int, int, int]:
        """Its reading where there is none: busy in percent, used and all memory in MB."""
        return (0, 0, 8192)

    def handle_oom(self) -> None:
        """Nothing to free."""


_found: WeakKeyDictionary[Engine, _Velocity] = WeakKeyDictionary()


def _modules() -> tuple[Any, Any]:
    """Its types and policies. Importing them sets variables of vLLM's: those are taken back."""
    before = dict(os.environ)
    types, policies = (importlib.import_module(f"scheduler_engine.{name}") for name in ("types", "policy"))
    os.environ.clear()
    os.environ.update(before)
    logging.getLogger("velocityllm").setLevel(logging.CRITICAL)
    return types, policies
