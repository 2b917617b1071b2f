"""A scheduler that takes its sequences as vLLM's does: in order, within a budget, prompts in chunks.

Of v1/core/sched/scheduler.py it has the loop over what runs, the one over what waits, and the attributes that both read
anew in each call. A step takes the time of an engine model.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from itertools import count
from types import SimpleNamespace
from typing import Any

from headway_simulator import EngineModel

_IDS = count()


@dataclass(eq=False)
class StandInRequest:
    """A request in the scheduler."""

    prompt_tokens: int
    output_tokens: int
    priority: int = 0
    arrival_time: float = field(default_factory=lambda: 0.0)
    num_computed_tokens: int = 0
    made_tokens: int = 0
    is_prefill_chunk: bool = False
    id: int = field(default_factory=lambda: next(_IDS))

    @property
    def num_tokens(self) -> int:
        return self.prompt_tokens + self.made_tokens


class Waiting(deque[StandInRequest]):
    """First come, first served."""

    def peek_request(self) -> StandInRequest:
        return self[0]


@dataclass(eq=False)
class Output:
    """What was scheduled."""

    num_scheduled_tokens: dict[StandInRequest, int]
    preempted_req_ids: set[str] = field(default_factory=set)

    @property
    def total_num_scheduled_tokens(self) -> int:
        return sum(self.num_scheduled_tokens.values())


class StandInScheduler:
    """``step`` is one step of an engine whose clock is ``now_s``; ``steps`` has for each the time, the sequences that
    decoded and the prompt tokens, ``first_s`` when a request had its first token. With a ``local_prefill_interval``
    prompts are computed in one of so many steps while others decode.
    """

    def __init__(self, model: EngineModel, **config: Any) -> None:
        usual = {"long_prefill_token_threshold": 0, "enable_chunked_prefill": True, "max_num_seqs": model.max_num_seqs}
        self.scheduler_config = SimpleNamespace(**{**usual, **config})
        self.model = model
        self.max_num_scheduled_tokens = model.step_tokens
        self.max_num_active_reqs = self.max_num_running_reqs = model.max_num_seqs
        self.local_prefill_interval, self._since_prompts = 1, 0
        self.running: list[StandInRequest] = []
        self.waiting = Waiting()
        self.now_s = 0.0
        self.steps: list[tuple[float, int, int]] = []
        self.skipped = 0
        self.first_s: dict[StandInRequest, float] = {}

    def clock(self) -> float:
        """The time of its engine."""
        return self.now_s

    def schedule(self) -> Output:
        """Who gets how many tokens. ``skipped`` counts the sequences that decode and got none."""
        budget, most = self.max_num_scheduled_tokens, self.scheduler_config.long_prefill_token_threshold
        given: dict[StandInRequest, int] = {}
        self._since_prompts += 1
        decodes = any(not request.is_prefill_chunk for request in self.running)
        held = decodes and self._since_prompts < self.local_prefill_interval
        for request in self.running:
            if held and request.is_prefill_chunk:
                continue
            budget -= self._give(request, budget, most, given)
            self.skipped += request not in given and not request.is_prefill_chunk
        while self.waiting and not held and budget > 0 and len(self.running) < self.max_num_active_reqs:
            request = self.waiting.popleft()
            self.running.append(request)
            budget -= self._give(request, budget, most, given)
        for request, tokens in given.items():
            if request.num_computed_tokens < request.prompt_tokens:
                self._since_prompts = 0
            request.num_computed_tokens += tokens
            request.is_prefill_chunk = request.num_computed_tokens < request.num_tokens
        assert sum(given.values()) <= self.max_num_scheduled_tokens
        return Output(given)

    def update_from_output(self, output: Output, _: Any = None) -> list[StandInRequest]:
        """Each sequence that is not in its prompt has one token more; those that have all are returned."""
        for request in output.num_scheduled_tokens:
            if not request.is_prefill_chunk:
                self.first_s.setdefault(request, self.now_s)
                request.made_tokens += 1
        ended = [one for one in self.running if one.made_tokens >= one.output_tokens]
        self.running = [one for one in self.running if one not in ended]
        return ended

    def step(self) -> None:
        """As EngineCore's: schedule, compute, update."""
        output = self.schedule()
        each = output.num_scheduled_tokens
        decoding = sum(1 for one in each if one.num_computed_tokens > one.prompt_tokens)
        prompt_tokens = output.total_num_scheduled_tokens - decoding
        took_s = self.model.step_s(decoding, prompt_tokens)
        self.now_s += took_s
        self.steps.append((took_s, decoding, prompt_tokens))
        self.update_from_output(output)

    @staticmethod
    def _give(request: StandInRequest, budget: int, most: int, given: dict[StandInRequest, int]) -> int:
        tokens = request.num_tokens - request.num_computed_tokens
        tokens = min(tokens, most or tokens, budget)
        if tokens > 0:
            given[request] = tokens
        return max(tokens, 0)
