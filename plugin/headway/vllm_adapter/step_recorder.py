"""The steps of one scheduler, written into the ring that the process with the queue reads.

A step ends with ``update_from_output``, whose outputs have the scheduler's statistics. Where anything is not as it has
to be nothing is written, and the queue knows the steps by what is answered. With ``--disable-log-stats`` there are no
statistics, and in a pipeline several steps are under way at once.
"""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headway.vllm_adapter.process.progress import STEPS, VARIABLE
from headway.vllm_adapter.process.step_ring import EngineStep, StepRing
from headway.vllm_adapter.step_shaper import parts

log = logging.getLogger(__name__)

_RECORDER = "headway_step_recorder"


class StepRecorder:
    """Writes each step of a scheduler, from ``install`` on."""

    def __init__(self, scheduler: Any, ring: StepRing, clock: Callable[[], float] = time.perf_counter) -> None:
        self._scheduler = scheduler
        self._ring = ring
        self._clock = clock
        self._update = scheduler.update_from_output
        self._per_decode = 1 + int(getattr(scheduler, "num_spec_tokens", 0) or 0)
        self._ended_s = 0.0
        self._running = 0

    def install(self) -> None:
        """Take the place of the scheduler's method."""
        self._scheduler.update_from_output = self.update_from_output

    def update_from_output(self, scheduler_output: Any, *arguments: Any, **options: Any) -> Any:
        """vLLM's own, and the record of the step."""
        outputs = self._update(scheduler_output, *arguments, **options)
        try:
            self._record(scheduler_output, outputs)
        except Exception as error:
            log.warning("EngineCore records its steps no longer: %s: %s", type(error).__name__, error)
            self._ring.close()
            self._record = lambda *_: None  # type: ignore[method-assign]  # the step policy may have wrapped this method
        return outputs

    def _record(self, output: Any, outputs: Any) -> None:
        """Write the step. A sequence that was not running before computes its prompt, and be it one token long; without
        a token of the step a sequence was not served by it.
        """
        stats = next(
            (output.scheduler_stats for output in outputs.values() if output.scheduler_stats is not None), None
        )
        if stats is None:
            return
        now_s, step_s = self._clock(), 0.0
        decoding, prompt_tokens = parts(output, self._per_decode)
        answered = sum([len(output.outputs) for output in outputs.values()])
        new, decoding = max(0, decoding - self._running), min(decoding, self._running, answered)
        if output.total_num_scheduled_tokens:
            if decoding:
                step_s = now_s - self._ended_s
            self._ended_s, self._running = now_s, stats.num_running_reqs
        deferred = getattr(stats, "num_skipped_waiting_reqs", 0)
        self._ring.write(
            EngineStep(
                step_s,
                stats.kv_cache_usage,
                stats.num_running_reqs,
                stats.num_waiting_reqs + deferred,
                deferred,
                prompt_tokens + new,
                len(output.preempted_req_ids or ()),
                answered - decoding,
                max(len(output.num_scheduled_tokens), stats.num_running_reqs),
            )
        )


def record_steps(core: type[Any]) -> None:
    """In EngineCore's process: record the steps."""
    if VARIABLE not in os.environ or hasattr(core, "headway_records_steps"):
        return
    core.headway_records_steps = True
    for name in STEPS:
        step = getattr(core, name, None)
        if step is not None:
            setattr(core, name, _recorded(step))


def _recorded(step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)
    def recorded(self: Any, *arguments: Any, **options: Any) -> Any:
        if _RECORDER not in self.__dict__:
            self.__dict__[_RECORDER] = _recorder(self)
        return step(self, *arguments, **options)

    return recorded


def _recorder(core: Any) -> StepRecorder | None:
    """The recorder of one EngineCore, made when it first works; None where its steps cannot be recorded."""
    parallel = getattr(core.scheduler, "parallel_config", None)
    if getattr(parallel, "pipeline_parallel_size", 1) > 1:
        return None
    try:
        ring = StepRing(Path(os.environ[VARIABLE]), getattr(core, "engine_index", 0))
        recorder = StepRecorder(core.scheduler, ring)
    except (OSError, ValueError, AttributeError) as error:
        log.warning("EngineCore cannot record its steps: %s", error)
        return None
    recorder.install()
    return recorder
