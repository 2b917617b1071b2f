"""The warm-up plan: which requests run before the server is ready, and how fast the seats are opened afterwards.

    single        one request alone: loads kernels, caches and the front end
    logprobs      the first one of an engine compiles for seconds, and stalls all requests that run beside it
    json_schema   the first grammar loads its compiler
    batch         all seats, at the lengths of the preset, repeated until the last two took equally long
    alone         one request alone, on the engine that is warm now: the unloaded figures of relative objectives

Batches that never agree end the warm-up after ``max_rounds``, or when another one would pass ``timeout_s``: a noisy
machine must not keep a warm engine from serving. Nor is ``alone`` begun where it could pass ``timeout_s``. A stage
that the engine refuses is left out. A warm-up that still runs at ``timeout_s`` has failed; the caller, which has the
clock, detects that.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

#: The answer of ``Stage.ALONE``: enough steps for the fit of the engine to know the time of one.
ALONE_TOKENS = 32

_FIRST_PAUSE_S = 5.0
_MAX_PAUSE_S = 60.0

PromptTokens = Annotated[int, Field(ge=1, le=100_000)]


class Warmup(BaseModel):
    """``[warmup]`` of a preset.

    ``prompt_tokens`` is one usual length, or a list of them: a batch mixes them. ``tolerance_ratio`` is the share by
    which the last two batches may differ. ``keep_warm_after_s``: a short request is sent when nothing has run for so
    long. After a warm-up the seats are opened over ``ramp_s``; 0 opens all at once.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    prompt_tokens: tuple[PromptTokens, ...] = Field(default=(64,), strict=False)  # TOML has lists only
    output_tokens: int = Field(default=8, ge=1, le=10_000)
    logprobs: bool = True
    json_schema: bool = True
    tolerance_ratio: float = Field(default=0.2, gt=0, lt=1)
    max_rounds: int = Field(default=6, ge=1, le=100)
    timeout_s: float = Field(default=300.0, gt=0, le=86_400)
    keep_warm_after_s: float | None = Field(default=None, ge=1, le=86_400)
    ramp_s: float = Field(default=0.0, ge=0, le=86_400)

    def answer_tokens(self, stage: Stage) -> int:
        """The tokens of each answer of a stage."""
        return ALONE_TOKENS if stage is Stage.ALONE else self.output_tokens

    @field_validator("prompt_tokens", mode="before")
    @classmethod
    def _one_or_several(cls, lengths: object) -> object:
        if not isinstance(lengths, list | tuple):
            return (lengths,)
        if not lengths:
            raise ValueError("at least one length is needed")
        return lengths


class Stage(StrEnum):
    """The stages of a warm-up, in their order."""

    SINGLE = "single"
    LOGPROBS = "logprobs"
    JSON_SCHEMA = "json_schema"
    BATCH = "batch"
    ALONE = "alone"


class WarmupPlan:
    """Decides which stage runs next, from the durations so far. Both events raise ValueError once it is over."""

    def __init__(self, config: Warmup) -> None:
        self.config = config
        self._remaining = deque(_stages(config))
        self.took_s: dict[Stage, list[float]] = {}
        self.refused: list[Stage] = []

    @property
    def stage(self) -> Stage | None:
        """The next stage; None when the warm-up is over."""
        return self._remaining[0] if self._remaining else None

    @property
    def settled(self) -> bool:
        """Whether the last two batches agree."""
        return _agree(self.took_s.get(Stage.BATCH, []), self.config.tolerance_ratio)

    def ran(self, took_s: float) -> None:
        """The stage ended after ``took_s`` seconds."""
        stage = self._now()
        self.took_s.setdefault(stage, []).append(took_s)
        if stage is not Stage.BATCH or self._enough():
            self._remaining.popleft()
        if self.stage is Stage.ALONE and self._spent_s + self._alone_s > self.config.timeout_s:
            self._remaining.popleft()

    def refuse(self) -> None:
        """The engine refused this stage: skip it."""
        self.refused.append(self._now())
        self._remaining.popleft()

    @property
    def _spent_s(self) -> float:
        return sum(map(sum, self.took_s.values()))

    @property
    def _alone_s(self) -> float:
        """The bound on the time of the stage ``alone``: no token takes longer than one of the last batch."""
        batches_s = self.took_s.get(Stage.BATCH, [0.0])
        return batches_s[-1] * max(1.0, ALONE_TOKENS / self.config.output_tokens)

    def _now(self) -> Stage:
        if not self._remaining:
            raise ValueError("the warm-up is over")
        return self._remaining[0]

    def _enough(self) -> bool:
        """No further batch: they agree, ``max_rounds`` have run, or another one would end too late."""
        rounds_s = self.took_s[Stage.BATCH]
        late = self._spent_s + rounds_s[-1] > self.config.timeout_s
        return self.settled or late or len(rounds_s) >= self.config.max_rounds


@dataclass(frozen=True, slots=True)
class Ramp:
    """The seats that are open after a warm-up: from one to all of them within ``ramp_s`` seconds.

    Seat n opens at ``ramp_s * log n / log limit``: the load grows by the same ratio in equal times, as in TCP's slow
    start. During most of the ramp a fault would hit few requests.
    """

    ramp_s: float

    def seats(self, limit: int, opened_s: float, now_s: float) -> int:
        """The seats open now, of ``limit``; the ramp began at ``opened_s``."""
        if now_s >= opened_s + self.ramp_s:
            return limit
        return max(1, bisect_right(range(1, limit + 1), now_s, key=lambda seat: self._opens_s(seat, limit, opened_s)))

    def due_s(self, limit: int, opened_s: float, now_s: float) -> float | None:
        """The time of the next seat; None when all are open."""
        seats = self.seats(limit, opened_s, now_s)
        return None if seats >= limit else self._opens_s(seats + 1, limit, opened_s)

    def _opens_s(self, seat: int, limit: int, opened_s: float) -> float:
        return opened_s + self.ramp_s * (math.log(seat) / math.log(limit) if limit > 1 else 0.0)


def retry_after_s(failures: int) -> float:
    """The pause after so many failed warm-ups in a row: 5 s, doubled each time, 60 s at most."""
    return min(_MAX_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(failures - 1, 16))


def keep_warm_due(config: Warmup, idle_s: float) -> bool:
    """Whether an engine that has been idle for ``idle_s`` should run a keep-warm request."""
    return config.keep_warm_after_s is not None and idle_s >= config.keep_warm_after_s


def _stages(config: Warmup) -> list[Stage]:
    wanted = {Stage.LOGPROBS: config.logprobs, Stage.JSON_SCHEMA: config.json_schema}
    return [stage for stage in Stage if wanted.get(stage, True)]


def _agree(rounds_s: list[float], within_ratio: float) -> bool:
    """Whether the last two differ by at most that share of the longer one."""
    if len(rounds_s) < 2:
        return False
    short_s, long_s = sorted(rounds_s[-2:])
    return long_s - short_s <= within_ratio * long_s
