"""The model of the engine: the time of each step, and the sequences in it.

A model of a continuous-batching engine (Yu et al., Orca, OSDI 2022; paged KV as in Kwon et al., vLLM, SOSP 2023):

    step = base + seat * decoding sequences + prefill * prompt tokens          in seconds

One token a step for each decoding sequence; prompts in chunks within a budget of tokens a step; KV in blocks; when
blocks run out the last admitted sequence (or the least urgent one) loses all of them and is computed again later.
Decoding sequences move in lockstep, so a stretch of steps without an arrival, an end or a preemption is one addition:
``finish`` takes as many steps at once as fit before a given time, and ends at the very instant that single steps would.

With ``prefix_cache`` the tokens of a common prefix are computed once, and their blocks shared (``prefix_blocks``).

With a ``variation`` a step takes longer or shorter than that, by when it begins (``variation``). A ``StepPolicy``
bounds the prompt tokens of a step.

Known weak spots: no hand-over time between two steps, the blocks of a whole prompt are taken at its admission, and a
step's time does not depend on how long the contexts are.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from headway_policies.step import Plan, Prompt, StepPolicy
from headway_simulator.engine_model.prefix_blocks import PrefixBlocks
from headway_simulator.engine_model.sequence import GONE, Sequence
from headway_simulator.engine_model.steps import Steps
from headway_simulator.engine_model.variation import Variation

__all__ = ["Engine", "EngineModel", "Sequence", "Steps"]

_LINE = 4  # prompts that are computed in part, as the step policy sees them


@dataclass(frozen=True, slots=True)
class EngineModel:
    """The constants of one engine. Times in seconds; ``prefill_s`` is a prompt token's, ``context_s`` what attention
    takes more in a step while the KV cache is full, in proportion to its use.

    The times are those of a 135 M model on two CPU cores; ``headway simulate --like`` takes those of a server.
    ``most_adapters`` different ones run at once; a sequence of another one is passed over meanwhile, as in vLLM.
    ``order`` is the engine's own waiting line; ``padded`` keeps the place of an ended sequence in the batch until the
    last one has ended, as a naive static batch does. ``variation`` disturbs the speed; without it every step takes
    ``step_s``.
    """

    base_s: float = 0.029
    seat_s: float = 0.00106
    prefill_s: float = 0.0007
    step_tokens: int = 2048
    max_num_seqs: int = 256
    kv_tokens: int = 131_072
    context_s: float = 0.0
    block_tokens: int = 16
    order: Literal["fcfs", "priority"] = "fcfs"
    padded: bool = False
    prefix_cache: bool = False
    most_adapters: int | None = None
    variation: Variation | None = None

    def step_s(self, decoding: int, prefill_tokens: int = 0, kv_usage_ratio: float = 0.0) -> float:
        """How long a step of the undisturbed engine takes."""
        own_s = self.base_s + self.context_s * kv_usage_ratio
        return own_s + self.seat_s * decoding + self.prefill_s * prefill_tokens


class Engine:
    """An engine on a virtual clock: ``submit``, then ``begin`` a step, then ``finish`` it, again and again.

    ``interrupted`` are those that decoded until the step in progress began, and were preempted then.
    """

    def __init__(self, model: EngineModel, step_policy: StepPolicy | None = None) -> None:
        self.model = model
        self.step_policy = step_policy
        self.blocks = model.kv_tokens // model.block_tokens
        self.free_blocks = self.blocks
        self.ends_s = math.inf
        self.running: dict[Sequence, None] = {}
        self.interrupted: list[Sequence] = []
        self._prefixes = PrefixBlocks(self.blocks) if model.prefix_cache else None
        self._queried_tokens = self._hit_tokens = 0
        self._waiting: list[tuple[int, int, Sequence]] = []
        self._waiting_count = 0
        self._prefilling: deque[Sequence] = deque()
        self._chunks: list[tuple[Sequence, int]] = []
        self._decoding = 0
        self._ghosts = 0
        self._phases = [0] * model.block_tokens
        self._ends: list[tuple[int, int, Sequence]] = []
        self._aborted: list[Sequence] = []
        self._turns = 0
        self._step = 0
        self._step_s = 0.0
        self._paced_s, self._same_pace_until_s = -math.inf, math.inf
        self._anchor_s = 0.0
        self._since = 0
        self._prefill_tokens = 0
        self._preempted = 0
        self._disturbed = False
        self._plan: Plan | None = None

    # ------------------------------------------------------------------ from outside

    @property
    def waiting(self) -> int:
        """Sequences in the engine's own line."""
        return self._waiting_count

    @property
    def startable(self) -> bool:
        """Whether the engine is idle and has a sequence to begin with."""
        return self.ends_s == math.inf and self._waiting_count > 0

    @property
    def kv_usage_ratio(self) -> float:
        """The share of the KV blocks in use."""
        return 1.0 - self.free_blocks / self.blocks

    def could_hold(self, prompt_tokens: int, output_tokens: int) -> bool:
        """Whether a sequence fits into the whole KV space."""
        return self._blocks_for(prompt_tokens + output_tokens - 1) <= self.blocks

    def submit(self, sequence: Sequence) -> None:
        """Put a sequence into the engine's line; it may be in the next step that begins."""
        self._turns += 1
        sequence.turn = self._turns
        self._wait(sequence)
        self._disturbed = True

    def abort(self, sequence: Sequence) -> None:
        """Drop a sequence at the end of the step in progress. Does nothing to one that has ended already."""
        if not sequence.dropped:
            sequence.dropped = True
            self._aborted.append(sequence)
            self._disturbed = True

    def made_tokens(self, sequence: Sequence) -> int:
        """How many tokens a sequence has generated so far."""
        decoded = self._step - sequence.began_step if sequence.decoding else 0
        return sequence.made_tokens + decoded

    # ------------------------------------------------------------------ a step begins

    def begin(self, now_s: float) -> None:
        """Choose the sequences of the next step; ``ends_s`` says when it is over, infinity where there is none."""
        self._preempted = self._queried_tokens = self._hit_tokens = 0
        self.interrupted.clear()
        self._take_blocks()
        self._plan_prefill(now_s)
        self._disturbed = False
        if not self.running:
            self.ends_s, self._step_s = math.inf, 0.0
            return
        step_s = self.model.step_s(self._decoding + self._ghosts, self._prefill_tokens, self.kv_usage_ratio)
        if self.model.variation is not None:
            step_s = self._varied(step_s, self.model.variation, now_s)
        if step_s != self._step_s:
            self._anchor_s, self._since, self._step_s = now_s, 0, step_s
        self.ends_s = self._anchor_s + (self._since + 1) * step_s

    def _varied(self, step_s: float, variation: Variation, now_s: float) -> float:
        """How long the step takes that begins now, instead of ``step_s``."""
        pace = variation.pace(now_s, self._step, self._paced_s)
        self._paced_s, self._same_pace_until_s = now_s, pace.until_s
        return step_s * pace.factor + pace.extra_s

    def _take_blocks(self) -> None:
        """Each decoding sequence whose blocks are full takes one more; if there is none the last ones in give way."""
        place = -self._step % self.model.block_tokens
        while self._phases[place] > self.free_blocks:
            self._preempt(self._victim())
        self._take(self._phases[place])

    def _take(self, blocks: int) -> None:
        self.free_blocks -= blocks
        if self._prefixes is not None:
            self._prefixes.take(blocks)

    def _victim(self) -> Sequence:
        if self.model.order == "fcfs":
            return next(reversed(self.running))
        return max(self.running, key=lambda sequence: (sequence.priority, sequence.turn))

    def _preempt(self, sequence: Sequence) -> None:
        self._preempted += 1
        if sequence.decoding:
            self.interrupted.append(sequence)
        self._stop(sequence)
        self._wait(sequence)

    def _plan_prefill(self, now_s: float) -> None:
        self._chunks.clear()
        self._prefill_tokens = 0
        budget_tokens, most_tokens = self._budget(now_s)
        for sequence in self._prefilling:
            budget_tokens -= self._chunk(sequence, min(budget_tokens, most_tokens))
        most, passed = self.model.most_adapters, list[Sequence]()
        adapters = {sequence.adapter for sequence in self.running if sequence.adapter} if most else set()
        while self._waiting and budget_tokens > 0 and not self._preempted:
            sequence = self._waiting[0][2]
            if most and sequence.adapter and not sequence.dropped:
                if len(adapters | {sequence.adapter}) > most:
                    passed.append(heapq.heappop(self._waiting)[2])
                    continue
                adapters.add(sequence.adapter)
            if not sequence.dropped:
                context_tokens = sequence.prompt_tokens + sequence.made_tokens
                if len(self.running) + self._ghosts >= self.model.max_num_seqs:
                    break
                if self._blocks_wanted(sequence, context_tokens) > self.free_blocks:
                    break
                self._admit(sequence, context_tokens)
                budget_tokens -= self._chunk(sequence, min(budget_tokens, most_tokens))
            heapq.heappop(self._waiting)
        for sequence in passed:
            self._waiting_count -= 1
            self._wait(sequence)

    def _budget(self, now_s: float) -> tuple[int, int]:
        """The prompt tokens of the step that begins, and the most of them for one prompt."""
        budget_tokens, policy = self.model.step_tokens - self._decoding, self.step_policy
        if policy is None:
            return budget_tokens, budget_tokens
        policy.preempted(self._preempted)
        line = [self._prompt(sequence, now_s) for sequence in islice(self._prefilling, _LINE)]
        if self._waiting and len(self.running) + self._ghosts < self.model.max_num_seqs:
            line.append(self._prompt(self._waiting[0][2], now_s))
        plan = policy.plan(self._decoding, line)
        self._plan = plan
        return (min(budget_tokens, plan.prompt_tokens), plan.chunk_tokens) if plan else (budget_tokens, budget_tokens)

    def _prompt(self, sequence: Sequence, now_s: float) -> Prompt:
        """The prompt of a sequence. Its part in the prefix cache is not known yet while it waits."""
        tokens = sequence.prompt_tokens + sequence.made_tokens
        return Prompt(tokens, sequence.prefill_left or tokens, sequence.priority, now_s - sequence.sent_s)

    def _blocks_wanted(self, sequence: Sequence, context_tokens: int) -> int:
        blocks = self._blocks_for(context_tokens)
        if self._prefixes is None:
            return blocks
        return self._prefixes.wanted(sequence.prefix, self._shared_blocks(sequence), blocks)

    def _shared_blocks(self, sequence: Sequence) -> int:
        return sequence.prefix_tokens // self.model.block_tokens if sequence.prefix else 0

    def _admit(self, sequence: Sequence, context_tokens: int) -> None:
        self._waiting_count -= 1
        self.free_blocks -= self._blocks_wanted(sequence, context_tokens)
        sequence.running = True
        sequence.prefill_left = max(context_tokens - self._look_up(sequence, context_tokens), 1)
        self.running[sequence] = None
        self._prefilling.append(sequence)

    def _look_up(self, sequence: Sequence, context_tokens: int) -> int:
        """Take the blocks of a sequence; the tokens that need not be computed."""
        if self._prefixes is None:
            return 0
        shared = self._shared_blocks(sequence)
        hit_tokens = self._prefixes.found(sequence.prefix, shared) * self.model.block_tokens
        self._prefixes.admit(sequence.prefix, shared, self._blocks_for(context_tokens))
        self._queried_tokens += context_tokens
        self._hit_tokens += hit_tokens
        return hit_tokens

    def _chunk(self, sequence: Sequence, budget_tokens: int) -> int:
        tokens = min(sequence.prefill_left, budget_tokens)
        if tokens > 0:
            self._chunks.append((sequence, tokens))
            self._prefill_tokens += tokens
        return max(tokens, 0)

    # ------------------------------------------------------------------ a step ends

    def finish(self, until_s: float, most_steps: int) -> Steps:
        """End the step in progress, and with it as many equal ones as end by ``until_s``, at most ``most_steps``."""
        count = self._alike(until_s, most_steps) if most_steps > 1 else 1
        if self.step_policy is not None and self._step_s:
            self.step_policy.learn(
                self._decoding, self._prefill_tokens, self._step_s, self.kv_usage_ratio, plan=self._plan, steps=count
            )
        steps = Steps(count, self._step_s, len(self.running), self._decoding, self._prefill_tokens, self._preempted)
        steps.prefix_queried_tokens, steps.prefix_hit_tokens = self._queried_tokens, self._hit_tokens
        for ahead in range(1, count):
            self._take(self._phases[-(self._step + ahead) % self.model.block_tokens])
        self._step += count
        self._since += count
        self.ends_s = self._anchor_s + self._since * self._step_s
        self._drop_aborted(steps)
        self._end_prefills(steps)
        self._end_decodes(steps)
        if not self.running:
            self._ghosts = 0
        return steps

    def _alike(self, until_s: float, most_steps: int) -> int:
        """How many steps, from this one on, are the same: no arrival, end, lack of a block or change of the engine's
        speed before the last ends. Contexts that cost time grow by less than a block each.
        """
        if self._chunks or self._disturbed or self._preempted:
            return 1
        while self._ends[0][2].end_step != self._ends[0][0]:
            heapq.heappop(self._ends)
        most = min(most_steps, self._ends[0][0] - self._step)
        if self.model.context_s:
            most = min(most, self.model.block_tokens)
        if until_s < math.inf:
            most = min(most, int((until_s - self._anchor_s) / self._step_s) - self._since + 1)
        while most > 1 and self._anchor_s + (self._since + most) * self._step_s > until_s:
            most -= 1
        if self._same_pace_until_s < math.inf:
            most = self._at_one_pace(most)
        left = self.free_blocks
        for ahead in range(1, most):
            left -= self._phases[-(self._step + ahead) % self.model.block_tokens]
            if left < 0:
                return ahead
        return max(most, 1)

    def _at_one_pace(self, most: int) -> int:
        """How many steps, from this one on and at most so many, begin before the engine's speed may change."""
        until_s = self._same_pace_until_s
        most = min(most, int((until_s - self._anchor_s) / self._step_s) - self._since + 2)
        while most > 1 and self._anchor_s + (self._since + most - 1) * self._step_s >= until_s:
            most -= 1
        return most

    def _drop_aborted(self, steps: Steps) -> None:
        for sequence in self._aborted:
            if sequence.running:
                self._stop(sequence)
            else:
                self._waiting_count -= 1
            steps.dropped.append(sequence)
        self._aborted.clear()

    def _end_prefills(self, steps: Steps) -> None:
        for sequence, tokens in self._chunks:
            if sequence.dropped:
                continue
            sequence.prefill_left -= tokens
            if sequence.prefill_left:
                continue
            self._prefilling.remove(sequence)
            if not sequence.made_tokens:
                steps.first.append(sequence)
            sequence.made_tokens += 1
            self._decode(sequence)

    def _decode(self, sequence: Sequence) -> None:
        """Let a sequence decode from the next step on: its prompt is computed and one token made."""
        sequence.began_step = self._step
        sequence.end_step = self._step + sequence.output_tokens - sequence.made_tokens
        self._decoding += 1
        self._phases[(sequence.prompt_tokens + sequence.made_tokens - 1 - self._step) % self.model.block_tokens] += 1
        heapq.heappush(self._ends, (sequence.end_step, sequence.turn, sequence))

    def _end_decodes(self, steps: Steps) -> None:
        while self._ends and self._ends[0][0] <= self._step:
            end_step, _, sequence = heapq.heappop(self._ends)
            if sequence.end_step == end_step:
                self._stop(sequence)
                sequence.dropped = True
                self._ghosts += self.model.padded
                steps.ended.append(sequence)

    def _stop(self, sequence: Sequence) -> None:
        """Take a running sequence out, and give back its blocks. Its generated tokens are kept."""
        del self.running[sequence]
        sequence.running = False
        if not sequence.decoding:
            self._prefilling.remove(sequence)
            self._give_back(sequence, sequence.prompt_tokens + sequence.made_tokens)
            return
        sequence.made_tokens += self._step - sequence.began_step
        sequence.end_step = GONE
        held_tokens = sequence.prompt_tokens + sequence.made_tokens - 1
        self._decoding -= 1
        self._phases[(held_tokens - self._step) % self.model.block_tokens] -= 1
        self._give_back(sequence, held_tokens)

    def _give_back(self, sequence: Sequence, held_tokens: int) -> None:
        blocks = self._blocks_for(held_tokens)
        if self._prefixes is not None:
            blocks = self._prefixes.release(sequence.prefix, self._shared_blocks(sequence), blocks)
        self.free_blocks += blocks

    def _wait(self, sequence: Sequence) -> None:
        urgency = sequence.priority if self.model.order == "priority" else 0
        heapq.heappush(self._waiting, (urgency, sequence.turn, sequence))
        self._waiting_count += 1

    def _blocks_for(self, tokens: int) -> int:
        return -(-tokens // self.model.block_tokens)
