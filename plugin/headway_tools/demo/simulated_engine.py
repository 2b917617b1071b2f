"""An engine in real time without a model: a step takes longer the more sequences are in it, and each step is reported.

The engine has vLLM's own metrics that the dashboard reads, beside those of Headway.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from headway.engine import Ended, StepListener, prompt_tokens
from headway.engine.fake import FakeEngine, FakeOutput, FakeParams
from headway_policies import Load

MODEL = "simulated model (demo)"
SEATS = 64
_BASE_S, _SEQUENCE_S, _PREFILL_S = 0.03, 0.003, 0.05
#: Tokens that its KV cache would hold.
_KV_TOKENS = 4000
_LABELS = {"model_name": MODEL, "engine": "0"}
_GAPS_S = (0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)


class EngineFigures:
    """The metrics of vLLM, which outlive an engine that dies."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.running = _gauge(registry, "num_requests_running", "Sequences in the last step.")
        self.kv_ratio = _gauge(registry, "kv_cache_usage_perc", "KV cache in use, from 0 to 1.")
        self.tokens = _counter(registry, "generation_tokens", "Tokens generated.")
        self.prompt_tokens = _counter(registry, "prompt_tokens", "Prompt tokens computed.")
        for name in ("num_preemptions", "prefix_cache_queries", "prefix_cache_hits"):
            _counter(registry, name, "Always 0 in a simulation.")
        _gauge(registry, "num_requests_waiting", "Sequences that wait inside: none, they wait in Headway's queue.")
        self.gap_s = Histogram(
            "vllm:inter_token_latency_seconds", "Time between tokens.", _LABELS, buckets=_GAPS_S, registry=registry
        ).labels(**_LABELS)


def _gauge(registry: CollectorRegistry, name: str, text: str) -> Gauge:
    return Gauge(f"vllm:{name}", text, _LABELS, registry=registry).labels(**_LABELS)


def _counter(registry: CollectorRegistry, name: str, text: str) -> Counter:
    return Counter(f"vllm:{name}", text, _LABELS, registry=registry).labels(**_LABELS)


class SimulatedEngine(FakeEngine):
    """Generates numbered tokens at the pace of a batch. ``run`` makes the steps and reports them."""

    def __init__(self, figures: EngineFigures) -> None:
        super().__init__(max_num_seqs=SEATS, step_s=_BASE_S, add_s=_PREFILL_S)
        self._figures = figures
        self._listener: StepListener | None = None
        self._ended: list[Ended] = []
        self._prefilled = self._held_tokens = 0

    def listen(self, listener: StepListener) -> None:
        """Report each step to a listener."""
        self._listener = listener

    async def generate(
        self, prompt: Any, sampling_params: FakeParams, request_id: str, **options: Any
    ) -> AsyncGenerator[FakeOutput, None]:
        """Generate as the fake does, and count the tokens and the end."""
        size, done, reason = prompt_tokens(prompt), 0, ""
        self._prefilled += size
        self._held_tokens += size
        self._figures.prompt_tokens.inc(size)
        try:
            async for output in super().generate(prompt, sampling_params, request_id, **options):
                done, reason = len(output.tokens), output.finish_reason or ""
                self._held_tokens += 1
                self._figures.tokens.inc()
                yield output
        finally:
            self._held_tokens -= size + done
            self._ended.append(Ended(request_id, size, done, reason))

    async def run(self) -> None:
        """Make steps for as long as the engine lives, of the length that its batch asks for."""
        while not self.errored:
            await asyncio.sleep(self.step_s)
            self.step_s = _BASE_S + _SEQUENCE_S * len(self.running)
            self._report(len(self.running))

    def _report(self, running: int) -> None:
        figures, kv_ratio = self._figures, min(1.0, self._held_tokens / _KV_TOKENS)
        figures.running.set(running)
        figures.kv_ratio.set(kv_ratio)
        if running:
            figures.gap_s.observe(self.step_s)
        if self._listener is not None and (running or self._ended):
            gap_s = self.step_s if running else None
            load = Load(running, 0, kv_ratio, gap_s, self._prefilled, kv_capacity_tokens=_KV_TOKENS)
            ended, self._ended, self._prefilled = self._ended, [], 0
            self._listener.step(load, running, ended)
