"""vLLM's side of the engine port."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from headway.engine import Check, Ended, EngineSettings, Invalid, PingAnswer, StepListener, prompt_tokens
from headway.errors import Refused
from headway.http.inference.request_caps import WHOLE_VOCABULARY
from headway.vllm_adapter.engine_core_hooks import (
    CLEAR_WORKERS,
    GET_DISPATCH_BLOCKS,
    GET_LIMITS,
    GET_MEMORY,
    SET_LIMITS,
)
from headway.vllm_adapter.grammars.guard import GrammarGuard, GrammarTooLargeError
from headway.vllm_adapter.process.progress import ProgressReader, engine_of
from headway.vllm_adapter.process.ranks import most_active, ranks_of
from headway_policies import Block, Progress, Usage
from headway_policies.memory import Cache
from headway_policies.preset import Ability
from headway_policies.step import StepFigures, StepTerms

#: How often, and for how long each time, reports that have come are waited for.
_TURNS = 2000
_TURN_S = 0.001


@functools.cache
def _error_class() -> type[Refused]:
    """The class of a refusal that vLLM's handlers answer with its own status, and log as one line.

    ``GracefulHTTPError`` gives the status of a whole response, ``GenerationError`` that of an error inside a stream
    (vllm/exceptions.py). Where a version lacks either class the middleware alone gives the status.
    """
    import vllm.exceptions as exceptions

    names = ("GracefulHTTPError", "GenerationError")
    bases = [getattr(exceptions, name) for name in names if hasattr(exceptions, name)]
    if not bases:
        bases = _old_errors()

    def initialise(self: Any, refused: Refused) -> None:
        # Not Refused.__init__: it would go on to vLLM's constructors, which want other arguments.
        Exception.__init__(self, str(refused))
        self.reason, self.retry_after_s = refused.reason, refused.retry_after_s
        self.message = str(refused)
        self.http_status = HTTPStatus(refused.status)
        self.status_code = HTTPStatus(refused.status)

    return type("VllmRefused", (Refused, *bases), {"__init__": initialise, "__doc__": "A refusal in vLLM's terms."})


def _old_errors() -> list[type[Exception]]:
    """The class of errors inside a stream where releases before 0.29 keep it."""
    try:
        from vllm.entrypoints.openai.engine.protocol import GenerationError  # type: ignore[import-not-found]  # gone in 0.29
    except ImportError:
        return []
    return [GenerationError]


@functools.cache
def _error_answer() -> Any:
    """vLLM's own function from an exception to the body of the answer; None where a version keeps it elsewhere."""
    try:
        from vllm.entrypoints.serve.exception_handling.error_response import create_error_response
    except ImportError:
        return None
    return create_error_response


@functools.cache
def _retryable_error() -> type[Exception] | None:
    """The error of a call of which nothing was computed, by which vLLM 0.33 refuses calls while it is paused."""
    import vllm.exceptions as exceptions

    return getattr(exceptions, "RetryableRequestError", None)


@dataclass(frozen=True, slots=True)
class CallBounds:
    """The bounds of a call to the engine and to vLLM's front end.

    ``prompt_logprobs`` bounds the prompt's tokens times the alternatives listed for each: the front end makes an object
    of each alternative on its event loop. ``grammars`` compiles first; None where grammars are not checked.
    """

    prompt_logprobs: int
    grammars: GrammarGuard | None = None


async def _refuse_logprobs(listed: int, most: int) -> None:
    text = (
        f"prompt_logprobs: {listed} alternatives are asked for over the whole prompt, and at most {most} are allowed: "
        "ask for fewer at each token, or send the prompt in parts"
    )
    raise _invalid(text, "prompt_logprobs")


async def _check_grammar(guard: GrammarGuard, sampling_params: Any, tenant: str) -> None:
    try:
        await guard.check(sampling_params, tenant)
    except GrammarTooLargeError as error:
        raise _invalid(str(error), "structured_outputs") from None


def _invalid(text: str, parameter: str) -> Exception:
    """vLLM's error for invalid parameters, answered with 400."""
    from vllm.exceptions import VLLMValidationError

    make: Any = VLLMValidationError
    error: Exception = make(text, parameter=parameter)
    return error


class VllmAdapter:
    """The facts of vLLM (see ``headway.engine.EngineAdapter``)."""

    def __init__(self, bounds: CallBounds | None = None) -> None:
        self._bounds = bounds
        self._progress: ProgressReader | None = None

    def seats(self, sampling_params: Any) -> int:
        """``n`` sequences; pooling parameters have no ``n`` and run one sequence."""
        return int(getattr(sampling_params, "n", 1) or 1)

    def size(self, prompt: Any, sampling_params: Any) -> tuple[int, int | None]:
        """The tokens of a rendered prompt, and ``max_tokens``; pooling parameters generate none."""
        return prompt_tokens(getattr(prompt, "prompt_token_ids", prompt)), getattr(sampling_params, "max_tokens", None)

    def check(self, prompt: Any, sampling_params: Any, tenant: str) -> Check | None:
        """A bound on the log probabilities of a prompt, and a compilation of the grammar outside of the engine."""
        bounds = self._bounds
        if bounds is None:
            return None
        if each := getattr(sampling_params, "prompt_logprobs", None):
            listed = self.size(prompt, sampling_params)[0] * (WHOLE_VOCABULARY if each < 0 else each)
            if listed > bounds.prompt_logprobs:
                return functools.partial(_refuse_logprobs, listed, bounds.prompt_logprobs)
        if bounds.grammars is None or getattr(sampling_params, "structured_outputs", None) is None:
            return None
        return functools.partial(_check_grammar, bounds.grammars, sampling_params, tenant)

    def usage(self, output: Any, sequences: int) -> Usage | None:
        """The usage of a call with one sequence, by its own statistics; the stat logger reports the others.

        An output in a stream has one of several sequences, and the statistics of that alone.
        """
        generated = getattr(getattr(output, "metrics", None), "num_generation_tokens", None)
        if generated is None or sequences != 1 or len(_sequences(output)) != 1:
            return None
        return Usage(prompt_tokens(output.prompt_token_ids), int(generated))

    def dropped(self, engine: Any, request_ids: Any, *, internal: bool) -> Sequence[Ended]:
        """The records of these calls that the output processor has now: it counts nothing of them after an abort."""
        processor: Any = getattr(engine, "output_processor", None)
        states = getattr(processor, "request_states", None)
        if states is None:
            return ()
        named = [request_ids] if isinstance(request_ids, str) else list(request_ids)
        parents, children = getattr(processor, "parent_requests", {}), getattr(processor, "external_req_ids", {})
        own: list[str] = []
        for name in named:
            if not internal:
                own += children.get(name, ())
            elif name in parents and name not in states:
                own += parents[name].child_requests
            else:
                own.append(name)
        return [_dropped(states[name]) for name in own if name in states and states[name].stats is not None]

    def unstreamed(self, sampling_params: Any) -> bool:
        """Whether the whole answer comes as one output, the last."""
        return getattr(getattr(sampling_params, "output_kind", None), "name", "") == "FINAL_ONLY"

    def tokens(self, engine: Any, request_id: str) -> int | None:
        """The tokens in the output processor's records, kept under ids of its own (v1/engine/output_processor.py)."""
        processor = getattr(engine, "output_processor", None)
        ids, states = getattr(processor, "external_req_ids", None), getattr(processor, "request_states", None)
        if ids is None or states is None:
            return None
        known = [states[state_id].stats for state_id in ids.get(request_id, ()) if state_id in states]
        return sum(int(stats.num_generation_tokens) for stats in known if stats is not None)

    def first_token_delay_s(self, output: Any) -> float | None:
        """The delay in the statistics of a request whose only output is the last; vLLM counts from arrival as well."""
        if not getattr(output, "finished", False):
            return None
        stats = getattr(output, "metrics", None)
        delay_s = getattr(stats, "first_token_latency", 0.0)
        return float(delay_s) if delay_s and delay_s > 0 else None

    def unfinished(self, output: Any) -> bool:
        """Whether any sequence ended by an abort."""
        return any(getattr(sequence, "finish_reason", None) == "abort" for sequence in _sequences(output))

    def error(self, refused: Refused) -> Exception:
        """The refusal as an exception of vLLM's own family."""
        make: Any = _error_class()
        error: Exception = make(refused)
        return error

    def invalid(self, error: Exception) -> Invalid | None:
        """The answer that vLLM would give, where its status is a fault of the client."""
        answer = _error_answer()
        found = None if answer is None else answer(error).error
        if found is None or not HTTPStatus.BAD_REQUEST <= found.code < HTTPStatus.INTERNAL_SERVER_ERROR:
            return None
        return Invalid(found.code, found.message, found.param)

    def takes_later(self, error: Exception) -> bool:
        """vLLM's word that the client may retry."""
        retryable = _retryable_error()
        return retryable is not None and isinstance(error, retryable)

    def unwell(self) -> Exception:
        """The error that vLLM's health route answers with 503."""
        from vllm.v1.engine.exceptions import EngineDeadError

        error: Exception = EngineDeadError()
        return error

    def ends_late(self, sampling_params: Any) -> bool:
        """Stop strings are found in the front end, which then aborts the sequence (v1/engine/output_processor.py)."""
        return bool(getattr(sampling_params, "stop", None))

    async def catch_up(self, engine: Any) -> None:
        """Wait for the reports, too: the answer to a ping overtakes them, for they have their own queue."""
        await self.ping(engine)
        reports = getattr(engine.engine_core, "outputs_queue", None)
        for _ in range(_TURNS):
            if reports is None or reports.empty():
                return
            await asyncio.sleep(_TURN_S)

    async def ping(self, engine: Any) -> PingAnswer:
        """EngineCore answers a utility call between two steps, and at once when it is idle; every rank must answer."""
        held = await _ask_ranks(engine.engine_core, GET_DISPATCH_BLOCKS)
        return PingAnswer(frozenset(Block(name) for of_a_rank in held for name in of_a_rank))

    def progress(self, engine: Any) -> Sequence[Progress]:
        """The progress reports of EngineCore (``headway.vllm_adapter.process.progress``)."""
        reader = self._progress_reader(engine)
        return () if reader is None else reader.read()

    def step_figures(self, engine: Any) -> StepFigures | None:
        """Read the same file: the sum over all ranks."""
        reader = self._progress_reader(engine)
        return None if reader is None else reader.steps()

    def _progress_reader(self, engine: Any) -> ProgressReader | None:
        if self._progress is None:
            self._progress = ProgressReader.from_environment(engine_of(getattr(engine, "vllm_config", None)))
        return self._progress

    def engine_seats(self, engine: Any) -> int | None:
        """The sequences that all ranks run at most; less where vLLM's own admission limit, for all ranks together, is
        less.
        """
        scheduler = engine.vllm_config.scheduler_config
        seats = ranks_of(engine.vllm_config) * most_active(scheduler)
        most = getattr(scheduler, "max_num_queued_reqs", None)
        return seats if most is None else max(1, min(seats, int(most)))

    def settings(self, engine: Any) -> EngineSettings:
        """The settings in the engine's configuration; a KV type of "auto" is that of the model."""
        config = getattr(engine, "vllm_config", None)
        model, cache = getattr(config, "model_config", None), getattr(config, "cache_config", None)
        scheduler = getattr(config, "scheduler_config", None)
        most = getattr(getattr(config, "lora_config", None), "max_loras", None)  # of one rank
        dtype = str(getattr(model, "dtype", "")).removeprefix("torch.")
        kv_dtype, length = str(getattr(cache, "cache_dtype", "")), getattr(model, "max_model_len", None)
        return EngineSettings(
            dtype=dtype,
            quantization="" if model is None else str(getattr(model, "quantization", None) or "none"),
            kv_cache_dtype=dtype if kv_dtype == "auto" else kv_dtype,
            max_model_len=length if isinstance(length, int) else None,
            step_tokens=getattr(scheduler, "max_num_batched_tokens", None),
            max_loras=None if most is None else ranks_of(config) * most,
        )

    def lacks(self, engine: Any) -> frozenset[Ability]:
        """The empty set: vLLM's engine has every ability."""
        return frozenset()

    def fingerprint(self, engine: Any) -> str:
        """A hash of vLLM's own compilation hash, the model, the device, and the number of processors."""
        from vllm.platforms import current_platform

        config = getattr(engine, "vllm_config", None)
        if config is None:
            return ""
        model = config.model_config
        parts = (
            config.compute_hash(),
            model.model,
            str(model.dtype),
            model.enforce_eager,
            model.max_model_len,
            current_platform.get_device_name(),
            len(os.sched_getaffinity(0)),
            *([ranks] if (ranks := ranks_of(config)) > 1 else ()),
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    async def limit_engine(self, engine: Any, seats: int) -> int | None:
        """Set the scheduler's limit between two steps, through the method that the general plugin added.

        Each rank gets an equal part, rounded up; the gate keeps the sum. vLLM sends a request to the rank with the
        fewest requests by counts of up to 100 ms ago, so that a rank may get more than its part: the excess waits in
        that rank. Returns the sum of the parts.
        """
        core, ranks = engine.engine_core, ranks_of(getattr(engine, "vllm_config", None))
        await _ask_ranks(core, SET_LIMITS, {"max_num_active_reqs": math.ceil(seats / ranks)})
        limits = await _ask_ranks(core, GET_LIMITS)
        return sum(int(of_a_rank["max_num_active_reqs"]) for of_a_rank in limits)

    async def shape_steps(self, engine: Any, terms: StepTerms | None) -> None:
        """Send the terms to EngineCore, where ``headway.vllm_adapter.step_shaper`` applies them from step to step."""
        await _ask_ranks(engine.engine_core, SET_LIMITS, {"step": None if terms is None else terms.plain()})

    async def memory(self, engine: Any) -> Mapping[str, int]:
        """The bytes of all ranks, as their workers count them (``headway.vllm_adapter.process.worker_memory``)."""
        total: Counter[str] = Counter()
        for of_a_rank in await _ask_ranks(engine.engine_core, GET_MEMORY):
            total.update({str(component): int(size_bytes) for component, size_bytes in of_a_rank.items()})
        return dict(total)

    async def clear_cache(self, engine: Any, cache: Cache) -> bool:
        """Clear the prefix cache only while nothing runs: vLLM itself refuses it else (v1/core/block_pool.py)."""
        if cache is Cache.WORKER:
            return all(await _ask_ranks(engine.engine_core, CLEAR_WORKERS))
        return cache is Cache.PREFIX and bool(await engine.reset_prefix_cache())

    def listen(self, engine: Any, listener: StepListener) -> bool:
        """Listen through the plugin's stat logger, or add a stat logger to an engine that keeps statistics."""
        from headway.vllm_adapter.stats import HeadwayStatLogger

        manager = getattr(engine, "logger_manager", None)
        if manager is None:
            return False
        loggers = [logger for logger in manager.stat_loggers if isinstance(logger, HeadwayStatLogger)]
        if not loggers:
            loggers = [HeadwayStatLogger(engine.vllm_config, range(ranks_of(engine.vllm_config)))]
            manager.stat_loggers.extend(loggers)
        for logger in loggers:
            logger.listen(listener)
        return True


async def _ask_ranks(core: Any, method: str, *arguments: Any) -> list[Any]:
    """The answer of each rank to a utility call; before vLLM 0.32 that of the first rank, which asks all ranks."""
    ask: Any = getattr(core, "call_utility_all_async", None)
    if ask is None:
        return [await core.call_utility_async(method, *arguments)]
    answers: list[Any] = await ask(method, *arguments)
    return answers


def _dropped(state: Any) -> Ended:
    """The end of a sequence by an abort. vLLM counts a prompt when its first token comes."""
    computed = not state.is_prefilling
    return Ended(
        str(getattr(state, "external_req_id", state.request_id)),
        int(state.prompt_len) if computed else 0,
        int(state.stats.num_generation_tokens),
        "abort",
        max(0, int(getattr(state, "num_cached_tokens", 0))) if computed else 0,
    )


def _sequences(output: Any) -> list[Any]:
    """The sequences of a generation's output; a pooling output has none."""
    outputs = getattr(output, "outputs", None)
    return outputs if isinstance(outputs, list) else []
