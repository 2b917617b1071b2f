"""A simulated continuous-batching engine to evaluate limits on: step time, KV capacity, preemption by recompute.

A step lasts ``base_s + sequence_s * decoding + prefill_token_s * prompt tokens``. The queue is never empty. When the KV
cache overflows, the latest sequence is preempted and recomputed from its start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import exp, log, sqrt
from random import Random

from headway_policies import Load, Signals
from headway_policies.limits.limit import Limit

BASE_S, SEQUENCE_S, PREFILL_TOKEN_S = 0.029, 0.00106, 0.0007
SLO_S = 0.075
_MAX_PREFILL_TOKENS = 2048


@dataclass(frozen=True)
class Mix:
    """Lengths of the arriving requests, in tokens: mean prompt, mean output, coefficient of variation of the output."""

    prompt_tokens: int
    output_tokens: int
    variation: float = 1.0


CHAT, LONG_PROMPT, LONG_OUTPUT, SHORT = Mix(64, 64), Mix(384, 32), Mix(16, 192), Mix(32, 16)
LIGHT = Mix(16, 128)


@dataclass(slots=True, eq=False)
class Sequence:
    """One request in the engine."""

    prompt_tokens: int
    output_tokens: int
    made_tokens: int = 0
    first_s: float = 0.0
    last_s: float | None = None

    @property
    def kv_tokens(self) -> int:
        return self.prompt_tokens + self.made_tokens


@dataclass(frozen=True)
class Step:
    """The result of one step; ``good`` counts the sequences that ended within the SLO."""

    now_s: float
    limit: int
    taken: int
    tokens: int
    ended: int
    good: int
    good_tokens: int
    preemptions: int
    inter_token_s: float | None


@dataclass
class SimulatedEngine:
    """Runs a limit on the simulated engine, step by step, in virtual time."""

    limit: Limit
    mix: Callable[[float], Mix] = lambda now_s: CHAT
    slowness: Callable[[float], float] = lambda now_s: 1.0
    noise: float = 0.0
    kv_capacity_tokens: int = 1_000_000
    seed: int = 1
    slo_s: float = SLO_S
    now_s: float = 0.0
    _running: list[Sequence] = field(default_factory=list)
    _again: deque[Sequence] = field(default_factory=deque)
    _used: int = 0  # KV tokens of those that run
    _prompt_tokens: float = 0.0
    _output_tokens: float = 0.0
    _square: float = 0.0
    _ended: int = 0

    def __post_init__(self) -> None:
        self._random = Random(self.seed)

    def run(self, until_s: float) -> list[Step]:
        """Run until ``until_s``; returns all steps."""
        return list(self._steps(until_s))

    def _steps(self, until_s: float) -> Iterator[Step]:
        while self.now_s < until_s:
            seats = self.limit.seats(self.now_s)
            limited, prefill_tokens, new = self._admit(seats)
            yield self._step(seats, limited, prefill_tokens, new)

    def _admit(self, seats: int) -> tuple[bool, int, list[Sequence]]:
        """Admit as many sequences as the limit, the KV cache and the prefill budget allow."""
        prefill_tokens = 0
        new: list[Sequence] = []
        while len(self._running) < seats:
            one = self._again.popleft() if self._again else self._fresh()
            if self._running and (
                self._used + one.kv_tokens > self.kv_capacity_tokens
                or (prefill_tokens and prefill_tokens + one.kv_tokens > _MAX_PREFILL_TOKENS)
            ):
                self._again.appendleft(one)
                return False, prefill_tokens, new
            self._used += one.kv_tokens
            prefill_tokens += one.kv_tokens
            self._running.append(one)
            new.append(one)
        return True, prefill_tokens, new

    def _fresh(self) -> Sequence:
        mix = self.mix(self.now_s)
        spread = log(1 + mix.variation**2)
        drawn = exp(self._random.gauss(log(mix.output_tokens) - spread / 2, sqrt(spread)))
        return Sequence(mix.prompt_tokens, max(2, min(8 * mix.output_tokens, round(drawn))))

    def _step(self, seats: int, limited: bool, prefill_tokens: int, new: list[Sequence]) -> Step:
        decoding = len(self._running) - len(new)
        length_s = BASE_S + SEQUENCE_S * decoding + PREFILL_TOKEN_S * prefill_tokens
        self.now_s += length_s * self.slowness(self.now_s) * exp(self._random.gauss(0, self.noise))
        now_s, between_s, ended = self.now_s, list[float](), list[Sequence]()
        running, taken = len(self._running), len(self._running) + len(self._again)
        for one in self._running:
            one.made_tokens += 1
            if one.last_s is None:
                one.first_s = now_s
            else:
                between_s.append(now_s - one.last_s)
            one.last_s = now_s
            if one.made_tokens >= one.output_tokens:
                ended.append(one)
        self._used += running - sum(one.kv_tokens for one in ended)
        if ended:
            self._running = [one for one in self._running if one.made_tokens < one.output_tokens]
        good = [one for one in ended if (self.now_s - one.first_s) / (one.made_tokens - 1) <= self.slo_s]
        preemptions = self._preempt()
        self._learn(ended)
        mean_s = sum(between_s) / len(between_s) if between_s else None
        self._report(running, taken, limited, mean_s, prefill_tokens, preemptions)
        good_tokens = sum(one.output_tokens for one in good)
        return Step(self.now_s, seats, taken, running, len(ended), len(good), good_tokens, preemptions, mean_s)

    def _preempt(self) -> int:
        count = 0
        while self._used > self.kv_capacity_tokens and len(self._running) > 1:
            last = self._running.pop()
            self._used -= last.kv_tokens
            self._again.appendleft(last)
            count += 1
        return count

    def _learn(self, ended: list[Sequence]) -> None:
        for one in ended:
            self._ended += 1
            weight = max(0.02, 1 / self._ended)
            self._prompt_tokens += weight * (one.prompt_tokens - self._prompt_tokens)
            self._output_tokens += weight * (one.output_tokens - self._output_tokens)
            self._square += weight * ((one.prompt_tokens + one.output_tokens) ** 2 - self._square)

    def _report(
        self, running: int, taken: int, limited: bool, mean_s: float | None, prefill_tokens: int, preemptions: int
    ) -> None:
        usage_ratio = min(1.0, self._used / self.kv_capacity_tokens)
        load = Load(
            running, len(self._again), usage_ratio, mean_s, prefill_tokens, preemptions, self.kv_capacity_tokens
        )
        variance = self._square - (self._prompt_tokens + self._output_tokens) ** 2
        self.limit.observe(
            Signals(load, taken, 1000, limited, self._prompt_tokens, self._output_tokens, sqrt(max(0.0, variance))),
            self.now_s,
        )


def aim(mix: Mix, slowness: float = 1.0) -> float:
    """The seats that meet the set point in a steady stream."""
    return (0.92 * SLO_S / slowness - BASE_S) / (SEQUENCE_S + PREFILL_TOKEN_S * mix.prompt_tokens / mix.output_tokens)


def good_tokens_s(steps: list[Step], from_s: float, to_s: float) -> float:
    """Tokens a second of the sequences that ended within the SLO in that time."""
    return sum(step.good_tokens for step in steps if from_s <= step.now_s < to_s) / (to_s - from_s)


def mean_limit(steps: list[Step], from_s: float, to_s: float) -> float:
    """The limit's mean over that time, weighted by time."""
    held = [(b.now_s - a.now_s, b.limit) for a, b in pairwise(steps) if from_s <= b.now_s < to_s]
    return sum(length_s * limit for length_s, limit in held) / sum(length_s for length_s, _ in held)
