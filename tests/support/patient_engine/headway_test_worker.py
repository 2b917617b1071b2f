"""A worker of vLLM without a model, for a release that has no kernels for the machine at hand.

All else is vLLM's own: the API server, EngineCore and its scheduler, the executor and the process of its worker.
"""

from __future__ import annotations

from time import sleep
from typing import Any

import numpy as np
import torch
from vllm.v1.kv_cache_interface import FullAttentionSpec
from vllm.v1.outputs import LogprobsLists, ModelRunnerOutput
from vllm.v1.worker.worker_base import CompilationTimes, WorkerBase

STEP_S = 0.02
#: The token of every answer, where no grammar wants another one.
TOKEN = 300
_KV_CACHE_BYTES = 64 << 20


class ModellessWorker(WorkerBase):
    """A worker that answers each request with the same token, and one with a grammar with a token that this allows."""

    def init_device(self) -> None:
        self.device = torch.device("cpu")
        self._known: dict[str, int] = {}  # tokens of each request, prompt and answer
        self._running: dict[str, bool] = {}  # whether a token follows, of each request of this step

    def load_model(self, *, load_dummy_weights: bool = False) -> None: ...

    def determine_available_memory(self) -> int:
        return _KV_CACHE_BYTES

    def get_kv_cache_spec(self) -> dict[str, Any]:
        size = self.cache_config.block_size or 16
        return {"layer": FullAttentionSpec(block_size=size, num_kv_heads=1, head_size=64, dtype=torch.float32)}

    def initialize_from_config(self, kv_cache_config: Any) -> None: ...

    def compile_or_warm_up_model(self) -> CompilationTimes:
        return CompilationTimes(language_model=0.0, encoder=0.0)

    def get_supported_tasks(self) -> tuple[str, ...]:
        return ("generate",)

    def execute_model(self, scheduler_output: Any) -> ModelRunnerOutput | None:
        for request_id in scheduler_output.finished_req_ids:
            self._known.pop(request_id, None)
        cached = scheduler_output.scheduled_cached_reqs
        computed = dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
        for new in scheduler_output.scheduled_new_reqs:
            self._known[new.req_id], computed[new.req_id] = len(new.prompt_token_ids), new.num_computed_tokens
        scheduled = scheduler_output.num_scheduled_tokens
        self._running = {name: computed[name] + tokens >= self._known[name] for name, tokens in scheduled.items()}
        return None if self._running else ModelRunnerOutput([], {})

    def sample_tokens(self, grammar_output: Any) -> ModelRunnerOutput:
        sleep(STEP_S)
        tokens = dict.fromkeys(self._running, TOKEN)
        if grammar_output is not None:
            rows = zip(grammar_output.structured_output_request_ids, grammar_output.grammar_bitmask, strict=True)
            tokens |= {name: _first(row) for name, row in rows}
        sampled = [[tokens[name]] if follows else [] for name, follows in self._running.items()]
        for name, follows in self._running.items():
            self._known[name] += follows
        names, listed = list(self._running), np.array([[tokens[name]] * 2 for name in self._running])
        logprobs = LogprobsLists(listed, np.zeros(listed.shape), np.ones(len(names), dtype=int))
        return ModelRunnerOutput(names, {name: at for at, name in enumerate(names)}, sampled, logprobs)


def _first(row: Any) -> int:
    """The first token that a row of a bit mask allows."""
    return int(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))[0])
