"""The step policy: how many prompt tokens the next step computes beside the sequences that decode.

A prompt that is computed in one step delays the next token of every sequence by the time that it takes. In parts, one
in each step (chunked prefill; Agrawal et al., Sarathi-Serve, OSDI 2024), it delays each token a little. How large the
parts may be follows from what a step costs and from what the objectives leave, not from a fixed number of tokens
(Lyu et al., FairBatching, arXiv 2510.14392):

    alone   = base + sequence * decoding           the step without prompts, by the fitted costs
    step    = min(1.9 alone, aim)                  at least alone / (1 - least share)
    step    = alone / (1 - needed)                 pressed: with less a prompt would miss its objective for the first
                                                   token; at most max(1.9 alone, aim + spare)
    tokens  = (step - alone) / prefill_token

    whole   = max(4 aim, aim + spare)

``aim`` is ``_AIM_RATIO`` of the objective for the time between tokens, ``spare`` what the steps so far took less than
that, at most ``_DEPTH_STEPS`` of it. Where each prompt in line would take a step of at most ``whole``, the next step
takes them all, as far as ``whole`` goes: what counts is the mean time between tokens of an answer, so a short delay
misses no objective, and a prompt in parts would have its own first token late.

A prompt that would be late at the most as well gets all that the engine would give it, as in an overload, where there
is no pace left to keep. A prompt that takes longer than the most ``spare``, and would be late by itself with all that
lasts without it, counts for nothing: a prompt that is as long as its objective does not cost others their pace.

With a share of its own, a step takes alone / (1 - share) whatever the objectives are. Where nothing decodes, or no
prompt waits, the engine's own values hold; also for ``_ASIDE_STEPS`` after it ran out of KV blocks, since a prompt that
is computed slowly holds its blocks for longer. A step goes no further than ``_GROWTH`` times beyond what was measured:
the first prompts of an engine tell little of what long ones cost.

A prompt that needs several steps leaves up to half of the tokens to those behind it that are at most half as long:
short prompts do not wait for a long one.

**No prompt is held for ever.** Prompts get at least ``_LEAST_SHARE`` of the time of each step, or the share that was
set, and the first in line half of it. So a prompt that is the first in line has its first token within 2 / share times
the time that its tokens take alone, and one step, whatever comes after it.

Weak spots: short prompts that keep coming take the pace, as in the engine alone, where nothing in front paces them
(``limits.pacing``); the costs are linear, while those of attention grow with the context; the objectives count from a
request's arrival in the engine; what is spared is that of all sequences together, so one that has just begun to decode
pays for what it never had.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import NamedTuple

from headway_policies.limits.fit.step_profile import StepProfile
from headway_policies.limits.fit.step_time import StepTime
from headway_policies.request import resolve
from headway_policies.step.figures import StepFigures
from headway_policies.step.settings import StepTerms

_AIM_RATIO = 0.9
#: In aims of a step: prompts are not computed in parts within these.
_WHOLE_STEPS = 4.0
_CALM_RATIO = 1.9
_LEAST_SHARE = 0.25
_LEAST_TOKENS = 16
#: A step has no more prompt tokens than this, or so many times the most that have been measured in one.
_FIRST_TOKENS, _GROWTH = 64, 4
_ASIDE_STEPS = 256
_DEPTH_STEPS = 16.0
#: The least for which a prompt counts as held: one that has just come has waited for no time.
_HELD_S = 1e-3
#: Of the objective for the first token: what a prompt is computed within.
_IN_TIME_RATIO = 0.8


class Prompt(NamedTuple):
    """A prompt that waits, or is computed in part: its tokens, those that are left, its sequence's priority in the
    engine, and for how long it has been there.
    """

    tokens: int
    left: int
    priority: int
    waited_s: float


class Plan(NamedTuple):
    """The bound on the prompt tokens of the next step, and on those of a single prompt.

    ``share`` is the part of its time that they are to take, ``held_s`` for how long the first of the prompts that they
    are too few for has been there; 0 where all are computed.
    """

    prompt_tokens: int
    chunk_tokens: int
    share: float = 0.0
    held_s: float = 0.0


class StepPolicy:
    """Plans steps under ``terms`` by the times of earlier steps; under None like the engine."""

    def __init__(self, terms: StepTerms | None) -> None:
        self.terms = terms
        self.figures = StepFigures()
        self._profile = StepProfile()
        self._aside = 0
        self._spare_s = 0.0
        self._measured_tokens = 0

    def learn(
        self,
        decoding: int,
        prompt_tokens: int,
        step_s: float,
        kv_usage_ratio: float = 0.0,
        *,
        plan: Plan | None = None,
        steps: int = 1,
    ) -> None:
        """A step has ended, with so many decoding sequences and so much of the KV cache in use, 0 where that is not
        known, by this plan if any. So many ``steps`` were like it.
        """
        self._measured_tokens = max(self._measured_tokens, prompt_tokens)
        self._profile.add(max(decoding, 1), prompt_tokens, step_s, kv_usage_ratio)
        if decoding:
            self._save(step_s, steps)
        if plan is not None and prompt_tokens:
            self._count(plan, decoding, prompt_tokens, step_s, steps)

    def _count(self, plan: Plan, decoding: int, prompt_tokens: int, step_s: float, steps: int) -> None:
        figures = self.figures
        figures.steps += steps
        figures.prompt_tokens += steps * prompt_tokens
        figures.decode_tokens += steps * decoding
        figures.budget_tokens += steps * (decoding + plan.prompt_tokens)
        figures.total_s += steps * step_s
        figures.prompt_s += steps * min(step_s, self._profile.costs.prefill_token_s * prompt_tokens)
        figures.target_s += steps * plan.share * step_s
        if plan.held_s:
            figures.held += steps
            figures.held_s = plan.held_s

    def _save(self, step_s: float, steps: int) -> None:
        """Keep what steps took less than their aim."""
        if (aim_s := self._aim_s()) < inf:
            self._spare_s = max(0.0, min(self._spare_s + steps * (aim_s - step_s), _DEPTH_STEPS * aim_s))

    def _aim_s(self) -> float:
        """The time between tokens to aim at; infinite without an objective."""
        objective_ms = None if self.terms is None else self.terms.inter_token_ms
        if objective_ms is None:
            return inf
        return _AIM_RATIO * resolve(objective_ms, 1000 * self._profile.token_s) / 1000

    def preempted(self, sequences: int) -> None:
        """The engine ran out of KV blocks, and so many sequences lost theirs; nothing follows from 0."""
        if sequences:
            self._aside = _ASIDE_STEPS

    def plan(self, decoding: int, line: Sequence[Prompt]) -> Plan | None:
        """The next step with so many decoding sequences, and these prompts first in line; None: as the engine would."""
        if self._aside:
            self._aside -= 1
            return None
        if self.terms is None or not decoding or not line:
            return None
        known = max(_FIRST_TOKENS, _GROWTH * self._measured_tokens)
        costs = self._profile.costs
        plan = self._by_costs(self.terms, costs, decoding, line) if costs.prefill_token_s > 0 else Plan(known, known)
        if plan is None:
            return None
        tokens, ahead, held_s = min(plan.prompt_tokens, known), 0, 0.0
        for prompt in line:
            if (ahead := ahead + prompt.left) > tokens:
                held_s = max(held_s, prompt.waited_s, _HELD_S)
        return Plan(tokens, min(plan.chunk_tokens, known), plan.share, held_s)

    def _by_costs(self, terms: StepTerms, costs: StepTime, decoding: int, line: Sequence[Prompt]) -> Plan | None:
        """The plan that these costs ask for."""
        alone_s, share = costs.step_s(decoding, 0), terms.prefill_share
        if alone_s <= 0:  # a fit of few steps may charge the prompts with all of it
            return None
        if not isinstance(share, str):
            return _plan(alone_s / (1 - share), alone_s, costs, line)
        if (aim_s := self._aim_s()) == inf:
            return None
        most_s = max(_WHOLE_STEPS * aim_s, aim_s + self._spare_s)
        if alone_s + costs.prefill_token_s * max(prompt.tokens for prompt in line) <= most_s:
            return _whole(most_s, alone_s, costs, line)
        calm = max(_LEAST_SHARE, 1 - alone_s / min(_CALM_RATIO * alone_s, max(aim_s, alone_s)))
        lasting = 1 - alone_s / max(_CALM_RATIO * alone_s, aim_s)
        needed = self._needed_share(terms.first_token_s or {}, lasting, _DEPTH_STEPS * aim_s, costs, line)
        if needed <= calm:
            return _plan(alone_s / (1 - calm), alone_s, costs, line)
        self.figures.pressed += 1
        if alone_s <= (1 - needed) * max(_CALM_RATIO * alone_s, aim_s + self._spare_s):
            return _plan(alone_s / (1 - needed), alone_s, costs, line)
        calm_tokens = _plan(alone_s / (1 - calm), alone_s, costs, line).prompt_tokens
        if not (shorter_tokens := _shorter(line, calm_tokens)):
            return None
        half = max(calm_tokens, shorter_tokens)
        prompts_s = 2 * half * costs.prefill_token_s
        return Plan(2 * half, half, prompts_s / (alone_s + prompts_s))

    def _needed_share(
        self,
        objectives: Mapping[int, float | str],
        lasting: float,
        most_spare_s: float,
        costs: StepTime,
        line: Sequence[Prompt],
    ) -> float:
        """The share of the time with which every prompt has its first token in time, but for those that would be late
        by themselves with the ``lasting`` one and take longer than ``most_spare_s``; 1 or more where there is none.
        """
        ahead_s = shorter_s = needed = 0.0
        token_s, prefill_token_s, half_left = self._profile.token_s, costs.prefill_token_s, line[0].left / 2
        for tokens, left, priority, waited_s in line:
            left_s = prefill_token_s * left
            ahead_s += left_s
            until_s = ahead_s
            if left <= half_left:  # the first in line leaves half to these
                shorter_s += 2 * left_s
                until_s = min(ahead_s, shorter_s)
            objective = objectives.get(priority)
            if objective is None:
                continue
            own_s = prefill_token_s * tokens
            most_s = resolve(objective, token_s + own_s) if isinstance(objective, str) else objective
            in_time_s = _IN_TIME_RATIO * most_s
            if own_s < in_time_s and own_s <= max(lasting * in_time_s, most_spare_s):
                share = until_s / (in_time_s - waited_s) if waited_s < in_time_s else 1.0
                if share > needed:
                    needed = share
        return needed


def _whole(most_s: float, alone_s: float, costs: StepTime, line: Sequence[Prompt]) -> Plan:
    """The plan of a step that takes all these prompts, if that takes no longer."""
    tokens = int((most_s - alone_s) / costs.prefill_token_s)
    prompts_s = costs.prefill_token_s * min(tokens, sum(prompt.left for prompt in line))
    return Plan(tokens, tokens, prompts_s / (alone_s + prompts_s))


def _plan(step_s: float, alone_s: float, costs: StepTime, line: Sequence[Prompt]) -> Plan:
    """The plan of a step that takes so long."""
    tokens = max(int((step_s - alone_s) / costs.prefill_token_s), _LEAST_TOKENS)
    return Plan(tokens, tokens - min(tokens // 2, _shorter(line, tokens)), 1 - alone_s / step_s)


def _shorter(line: Sequence[Prompt], tokens: int) -> int:
    """The tokens of prompts behind a first prompt that is too long, each at most half as long."""
    first = line[0].left
    return 0 if first <= tokens else sum(prompt.left for prompt in line[1:] if 2 * prompt.left <= first)
