"""The result of some steps of the engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from headway_simulator.engine_model.sequence import Sequence


@dataclass(slots=True)
class Steps:
    """The result of ``count`` equal steps, all at their common end: ``first`` are first tokens ever, ``dropped`` left
    because they were aborted. ``running`` and ``decoding`` are sequences in each step. Of ``prefix_queried_tokens`` of
    the prompts that were admitted, ``prefix_hit_tokens`` were in the prefix cache.
    """

    count: int
    step_s: float
    running: int
    decoding: int
    prefill_tokens: int
    preemptions: int
    first: list[Sequence] = field(default_factory=list)
    ended: list[Sequence] = field(default_factory=list)
    dropped: list[Sequence] = field(default_factory=list)
    prefix_queried_tokens: int = 0
    prefix_hit_tokens: int = 0
