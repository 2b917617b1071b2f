"""The step policy in EngineCore: before each step the scheduler is told how many prompt tokens it may have.

A step, from its beginning:

    schedule()             what waits and decodes is read; ``max_num_scheduled_tokens`` and the scheduler's
                           ``long_prefill_token_threshold`` hold the plan for this one call, then their own values again
                           sequences that decode are put in front of prompts in part, so that no such prompt takes what
                           a plan leaves them: each would have to leave enough, and the first in line would get little
    execute_model()        vLLM's own, also while the step before it runs (asynchronous scheduling)
    update_from_output()   the time since the step before it is what the step took: the policy learns it

vLLM reads both values anew in every ``schedule()``, and both only lower what it would do. From 0.33 on it also holds
all prompts back for some steps where ``prefill_schedule_interval`` was given (``local_prefill_interval`` of the
scheduler). The interval does not count while a plan is in force, which says for each step what its prompts may take,
and holds none for ever. Nothing is changed of an engine whose preset has no step policy: the two methods are replaced
on its scheduler alone, by the first terms that come. An engine of which anything is not as it has to be is left to
itself (``unshaped_because``), and so is one in which an error occurs here.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

from headway.vllm_adapter.process.progress import report_steps
from headway_policies.step import Plan, Prompt, StepPolicy, StepTerms

log = logging.getLogger(__name__)

_LINE = 4
#: Steps are alike: beyond so many of about this many sequences the policy learns one of a few, of those with prompts
#: one of fewer.
_FEW_STEPS, _LEARNT_EVERY, _WITH_PROMPTS_EVERY = 32, 4, 2
_IN_FLIGHT = 64
_INTERVAL = "local_prefill_interval"


def unshaped_because(scheduler: Any) -> str | None:
    """Why the steps of this scheduler are left to vLLM; None where they can be shaped."""
    try:
        return _unfit(scheduler)
    except (TypeError, AttributeError) as error:  # a value of another kind than in the versions that are known
        return f"its scheduler is of an unknown kind: {error}"


def _unfit(scheduler: Any) -> str | None:
    config: Any = getattr(scheduler, "scheduler_config", None)
    parallel = getattr(scheduler, "parallel_config", None)
    needed = (
        (scheduler, ("max_num_scheduled_tokens", "running", "waiting", "schedule", "update_from_output")),
        (config, ("long_prefill_token_threshold", "enable_chunked_prefill")),
    )
    missing = [name for owner, names in needed for name in names if not hasattr(owner, name)]
    if missing:
        return f"this vLLM has no {missing[0]}"
    unfit = {
        "prompts are not computed in chunks": not config.enable_chunked_prefill,
        "long_prefill_token_threshold is set": config.long_prefill_token_threshold > 0,
        "long_prefill_token_threshold is adaptive": getattr(scheduler, "adaptive_long_prefill_threshold", False),
        "the model has an encoder": bool(getattr(scheduler, "max_num_encoder_input_tokens", 0)),
        "chunks have to end at the blocks of a state space model": getattr(
            scheduler, "need_mamba_block_aligned_split", False
        ),
        "chunks have to leave tokens for drafts": getattr(scheduler, "num_prefill_lookahead", 0) > 1,
        "the model samples no tokens": getattr(scheduler, "num_sampled_tokens_per_step", 1) != 1,
        "KV blocks come from elsewhere": any(
            getattr(scheduler, name, None) is not None for name in ("connector", "ec_connector")
        ),
        "the model runs in a pipeline": getattr(parallel, "pipeline_parallel_size", 1) > 1,
        "prompts wait for a step of all ranks": getattr(config, "prefill_schedule_interval", 1) > 1
        and getattr(parallel, "data_parallel_size", 1) > 1,
    }
    return next((reason for reason, holds in unfit.items() if holds), None)


class StepShaper:
    """Shapes the steps of one scheduler by a policy, from ``install`` on."""

    def __init__(self, scheduler: Any, policy: StepPolicy, clock: Callable[[], float] = time.perf_counter) -> None:
        self.policy = policy
        self._scheduler = scheduler
        self._config = scheduler.scheduler_config
        self._clock = clock
        self._schedule, self._update = scheduler.schedule, scheduler.update_from_output
        self._per_decode = 1 + int(getattr(scheduler, "num_spec_tokens", 0) or 0)
        self._kv = getattr(scheduler, "kv_cache_manager", None)
        self._in_flight: deque[tuple[Any, float, int, int, float, Plan | None]] = deque(maxlen=_IN_FLIGHT)
        self._plan: Plan | None = None
        self._off = False
        self._prompts_left = False
        self._decoding = 0
        self._ended_s = 0.0
        self._seen: Counter[int] = Counter()

    def install(self) -> None:
        """Take the place of the scheduler's two methods."""
        self._scheduler.schedule, self._scheduler.update_from_output = self.schedule, self.update_from_output

    def schedule(self, *arguments: Any, **options: Any) -> Any:
        """vLLM's own, within the plan."""
        scheduler, config = self._scheduler, self._config
        budget, began_s = self._budget(), self._clock()
        if budget is None:
            output = self._schedule(*arguments, **options)
        else:
            own = scheduler.max_num_scheduled_tokens, config.long_prefill_token_threshold
            scheduler.max_num_scheduled_tokens, config.long_prefill_token_threshold = min(own[0], budget[0]), budget[1]
            interval = getattr(scheduler, _INTERVAL, 1)
            if interval > 1:
                setattr(scheduler, _INTERVAL, 1)
            try:
                output = self._schedule(*arguments, **options)
            finally:
                scheduler.max_num_scheduled_tokens, config.long_prefill_token_threshold = own
                if interval > 1:
                    setattr(scheduler, _INTERVAL, interval)
        try:
            if not self._off:
                self._scheduled(output, began_s, planned=budget is not None)
        except Exception as error:
            self._give_up(error)
        return output

    def update_from_output(self, scheduler_output: Any, *arguments: Any, **options: Any) -> Any:
        """vLLM's own, and the end of a step."""
        try:
            if not self._off:
                self._ended(scheduler_output)
        except Exception as error:
            self._give_up(error)
        return self._update(scheduler_output, *arguments, **options)

    def _budget(self) -> tuple[int, int] | None:
        """The tokens of the next step and the most of them for a prompt, 0 for no bound; None: vLLM's own."""
        scheduler = self._scheduler
        if self._off or not (scheduler.running and (self._prompts_left or scheduler.waiting)):
            return None
        try:
            return self._planned()
        except Exception as error:
            self._give_up(error)
            return None

    def _planned(self) -> tuple[int, int] | None:
        scheduler, now_s = self._scheduler, time.time()
        running = scheduler.running
        begun = [request for request in running if request.is_prefill_chunk]
        decoding = len(running) - len(begun)
        line = [_prompt(request, now_s) for request in begun[:_LINE]]
        seats = getattr(scheduler, "max_num_active_reqs", None) or scheduler.max_num_running_reqs
        if scheduler.waiting and len(running) < seats:
            line.append(_prompt(scheduler.waiting.peek_request(), now_s))
        self._plan = plan = self.policy.plan(decoding, line)
        if plan is None:
            return None
        if running[decoding:] != begun:
            running[:] = [request for request in running if not request.is_prefill_chunk] + begun
        self._decoding = decoding
        return _bounds(plan, scheduler.max_num_scheduled_tokens, self._per_decode, decoding)

    def _scheduled(self, output: Any, began_s: float, *, planned: bool) -> None:
        self.policy.preempted(len(output.preempted_req_ids or ()))
        total = output.total_num_scheduled_tokens
        if planned:
            decoding, prompt_tokens = self._decoding, max(0, total - self._decoding * self._per_decode)
        else:
            decoding, prompt_tokens = parts(output, self._per_decode)
        self._prompts_left = prompt_tokens > 0 or planned
        if total:
            kv_usage_ratio = 0.0 if self._kv is None else self._kv.usage
            plan = self._plan if planned else None
            self._in_flight.append((output, began_s, decoding, prompt_tokens, kv_usage_ratio, plan))

    def _ended(self, output: Any) -> None:
        now_s, last_s = self._clock(), self._ended_s
        while self._in_flight:
            one, began_s, decoding, prompt_tokens, kv_usage_ratio, plan = self._in_flight.popleft()
            if one is output:
                self._ended_s = now_s
                self._seen[octave := decoding.bit_length()] += 1
                every = _WITH_PROMPTS_EVERY if prompt_tokens else _LEARNT_EVERY
                if (few := self._seen[octave] <= _FEW_STEPS) or self._seen[octave] % every == 0:
                    step_s = now_s - max(began_s, last_s)
                    steps = 1 if few else every
                    self.policy.learn(decoding, prompt_tokens, step_s, kv_usage_ratio, plan=plan, steps=steps)
                return

    def _give_up(self, error: Exception) -> None:
        """Leave the scheduler to itself for good. Its methods stay replaced: others may have been put around them."""
        log.warning("the step policy is off, vLLM shapes its steps itself: %s: %s", type(error).__name__, error)
        self.policy.terms, self._off = None, True


def _prompt(request: Any, now_s: float) -> Prompt:
    tokens, waited_s = request.num_tokens, max(0.0, now_s - request.arrival_time)
    return Prompt(tokens, tokens - request.num_computed_tokens, request.priority, waited_s)


def parts(output: Any, per_decode: int) -> tuple[int, int]:
    """The sequences of a step that decode, of at most so many tokens each, and its prompt tokens."""
    each, total = output.num_scheduled_tokens, output.total_num_scheduled_tokens
    if total <= len(each) * per_decode:
        return len(each), 0
    tokens = list(each.values())
    if per_decode == 1:
        ones = tokens.count(1)
        return ones, total - ones
    decoded = [count for count in tokens if count <= per_decode]
    return len(decoded), total - sum(decoded)


def _bounds(plan: Plan, most: int, per_decode: int, decoding: int) -> tuple[int, int]:
    """The budget of a step of at most so many tokens, and the most of one prompt, 0 for no bound."""
    decodes = per_decode * decoding
    prompts = max(min(plan.prompt_tokens, most - decodes), per_decode)
    chunk = max(min(plan.chunk_tokens, prompts), per_decode)
    return decodes + prompts, chunk if chunk < prompts else 0


def shape_steps(core: Any, plain: dict[str, Any] | None) -> None:
    """Put these terms in force, as ``StepTerms.plain`` has them; None: vLLM's own steps, from the next one on."""
    shaper: StepShaper | None = core.__dict__.get("headway_step_shaper")
    terms = None if plain is None else StepTerms.read(plain)
    if shaper is not None:
        shaper.policy.terms = terms
        figures = shaper.policy.figures
        log.info("step policy: %d steps planned, %.2f of their time to prompts", figures.steps, figures.prefill_share)
    elif terms is not None:
        reason = unshaped_because(core.scheduler)
        if reason is not None:
            level = logging.INFO if terms.prefill_share == "auto" else logging.WARNING  # the default, or a number
            log.log(level, "the step policy has no effect, vLLM shapes its steps itself: %s", reason)
            return
        core.headway_step_shaper = shaper = StepShaper(core.scheduler, StepPolicy(terms))
        shaper.install()
        report_steps(core, shaper.policy.figures)
