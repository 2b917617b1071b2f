"""The stat-logger plugin: the figures of each engine step, and the sequences that ended in it.

vLLM calls ``record`` once for each step with output, and never while idle. The plugin reads the fields it knows and
does without those that a version lacks. The figures of the step itself are what EngineCore has written down
(``process.step_ring``): vLLM counts the tokens of a chunked prefill when its last chunk is done, and the fit of the
engine's speed takes the chunks for steps of a slower engine. EngineCore writes before it sends, so that a call finds
some steps at once or none. A rank whose steps are not written (``step_recorder`` says when) is counted by vLLM.

A step like the last one is left where it is written, and read with those that follow: at most ``_MOST_STEPS`` within
``_MOST_S``, while the listener says that it can wait. What they have in common is passed on once.

With data parallelism each rank steps by itself. The load reported with a step is that of all ranks: the sequences of
all of them by the last step of each, the KV use of the fullest, the KV capacity of all. The times and the tokens are
those of the one step.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from vllm.v1.metrics.loggers import AggregateStatLoggerBase

from headway.engine import Ended, StepListener
from headway.vllm_adapter.process.progress import engine_of
from headway.vllm_adapter.process.step_ring import StepRingReader
from headway.vllm_adapter.rank_loads import RankLoads
from headway_policies import Load
from headway_policies.limits import EqualSteps, RankLoad

_GIVEN_UP = ("abort", "error")
_MOST_STEPS, _MOST_S = 8, 0.1


class HeadwayStatLogger(AggregateStatLoggerBase):
    """Passes each step on to its listener; does nothing without one."""

    def __init__(
        self, vllm_config: Any, engine_indexes: Sequence[int] = (0,), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.listener: StepListener | None = None
        self._clock = clock
        self._running = self._may_keep = 0
        self._keep_until_s = 0.0
        self._engine, self._ranks = engine_of(vllm_config), max(1, len(engine_indexes))
        self._loads = RankLoads()
        self._ring: StepRingReader | None = None
        self._cache_counts = Counter[str]()
        self._first_tokens: int | None = 0
        self._cache_config = getattr(vllm_config, "cache_config", None)
        self._kv_capacity_tokens: int | None = None

    def listen(self, listener: StepListener) -> None:
        """Pass the steps from now on to this listener."""
        self.listener = listener
        self._ring = StepRingReader.from_environment(self._ranks, self._loads, self._engine)
        if self._ring is not None:
            self._ring.read()  # what was before

    def record(
        self, scheduler_stats: Any, iteration_stats: Any, mm_cache_stats: Any = None, engine_idx: int = 0
    ) -> None:
        """Report one engine step: its load, the sequences in it, and those that ended."""
        if self.listener is None or self._kept(self.listener, scheduler_stats, iteration_stats):
            return
        ended = [
            _ended(sequence)
            for sequence in getattr(iteration_stats, "finished_requests", ())
            if hasattr(sequence, "request_id")
        ]
        if scheduler_stats is None:
            self.listener.step(None, _sequences(iteration_stats), ended)
            return
        self._note(getattr(scheduler_stats, "prefix_cache_stats", None), _first_tokens(iteration_stats))
        steps = self._written(engine_idx)
        if steps is None:
            steps = [self._counted(scheduler_stats, iteration_stats, engine_idx)]
        if not steps:
            self.listener.step(None, 0, ended)
        reports = _together(steps)
        for place, (load, sequences) in enumerate(reports, 1):
            self.listener.step(load, sequences, ended if place == len(reports) else ())
        if self._ring is not None and self._ring.written == [True]:
            self._running = scheduler_stats.num_running_reqs
            self._may_keep, self._keep_until_s = _MOST_STEPS - 1, self._clock() + _MOST_S

    def _kept(self, listener: StepListener, scheduler_stats: Any, iteration_stats: Any) -> bool:
        """Whether the step stays in the ring of the only rank, to be read with the next ones."""
        if not self._may_keep or scheduler_stats is None or iteration_stats is None:
            return False
        prefixes = getattr(scheduler_stats, "prefix_cache_stats", None)
        if (
            scheduler_stats.num_running_reqs != self._running
            or scheduler_stats.num_waiting_reqs
            or getattr(scheduler_stats, "num_skipped_waiting_reqs", 0)
            or getattr(iteration_stats, "finished_requests", True)
            or getattr(iteration_stats, "time_to_first_tokens_iter", True)
            or getattr(iteration_stats, "num_preempted_reqs", True)
            or getattr(prefixes, "queries", 0)
            or getattr(prefixes, "reset", False)
            or self._clock() >= self._keep_until_s
            or not listener.heard()
        ):
            self._may_keep = 0
            return False
        self._may_keep -= 1
        return True

    def _written(self, rank: int) -> list[tuple[Load, int]] | None:
        """The new steps that EngineCore has written down; None where it writes none of this rank."""
        if self._ring is None or rank >= self._ranks:
            return None
        steps = self._ring.read_rank(rank, self._known)
        return steps if steps or self._ring.written[rank] else None

    def _counted(self, scheduler_stats: Any, iteration_stats: Any, rank: int) -> tuple[Load, int]:
        """A step as vLLM counts it, and the number of its sequences."""
        between_s: Sequence[float] = getattr(iteration_stats, "inter_token_latencies_iter", ())
        own = _rank_load(scheduler_stats)
        load = Load(
            **self._loads.add(rank, own),
            inter_token_s=sum(between_s) / len(between_s) if between_s else None,
            prefill_tokens=_prefill_tokens(iteration_stats),
            preemptions=int(getattr(iteration_stats, "num_preempted_reqs", 0)),
            **self._known(),
        )
        return load, max(_sequences(iteration_stats), own.running)

    def _note(self, prefixes: Any, first_tokens: int | None) -> None:
        """Keep what vLLM alone says, or says best, for the next step that is reported."""
        self._first_tokens = None if first_tokens is None else (self._first_tokens or 0) + first_tokens
        self._cache_counts["prefix_queried_tokens"] += int(getattr(prefixes, "queries", 0))
        self._cache_counts["prefix_hit_tokens"] += int(getattr(prefixes, "hits", 0))
        if getattr(prefixes, "reset", False):
            self._cache_counts["prefix_cleared"] = True

    def _known(self) -> dict[str, Any]:
        """The facts of the engine that no step has."""
        capacity_tokens = self._kv_capacity_tokens or self._read_kv_capacity_tokens()
        known = {"kv_capacity_tokens": capacity_tokens, "first_tokens": self._first_tokens, **self._cache_counts}
        self._first_tokens = self._first_tokens and 0
        self._cache_counts.clear()
        return known

    def forget_loads(self) -> None:
        """Forget the loads of the old ranks, which have been replaced."""
        self._may_keep = 0
        if self._ring is not None:
            self._ring.forget()
        self._loads.forget()

    def log_engine_initialized(self) -> None:
        """Log nothing."""

    def _read_kv_capacity_tokens(self) -> int | None:
        """The KV capacity of all ranks, known only once the engine has measured its memory, after this logger was made.

        vLLM keeps the tokens of one rank, and the blocks of all of them.
        """
        of_a_rank = getattr(self._cache_config, "kv_cache_size_tokens", None)
        if of_a_rank is None:
            blocks = getattr(self._cache_config, "num_gpu_blocks", None) or 0
            tokens = blocks * (getattr(self._cache_config, "block_size", None) or 0)
        else:
            tokens = self._ranks * of_a_rank
        self._kv_capacity_tokens = int(tokens) or None
        return self._kv_capacity_tokens


def _together(steps: list[tuple[Load, int]]) -> list[tuple[Load, int]]:
    """The steps in their order, those that are alike as one, each with the number of its sequences."""
    if len(steps) < 2:
        return steps
    alike, told, found = EqualSteps(), 0, list[tuple[Load, int]]()
    reports = [report for load, _ in steps for report in alike.add(load, 0.0)]
    for load, _ in (*reports, *alike.take()):
        told += load.steps
        found.append((load, steps[told - 1][1]))
    return found


def _rank_load(scheduler_stats: Any) -> RankLoad:
    """vLLM counts those that it skips apart from the others that wait."""
    deferred = int(getattr(scheduler_stats, "num_skipped_waiting_reqs", 0))
    return RankLoad(
        int(scheduler_stats.num_running_reqs),
        int(scheduler_stats.num_waiting_reqs) + deferred,
        deferred,
        float(scheduler_stats.kv_cache_usage),
    )


def _prefill_tokens(iteration_stats: Any) -> int:
    """The prompt tokens computed in the step; where a version does not distinguish them, the cached ones as well."""
    sources = getattr(iteration_stats, "prompt_token_stats", None)
    return int(getattr(iteration_stats, "num_prompt_tokens", 0) if sources is None else sources.computed)


def _sequences(iteration_stats: Any) -> int:
    """The sequences that had a token."""
    return len(getattr(iteration_stats, "inter_token_latencies_iter", ())) + (_first_tokens(iteration_stats) or 0)


def _first_tokens(iteration_stats: Any) -> int | None:
    """The sequences that had their first token, 0 in a step without output; None where a version counts none."""
    if iteration_stats is None:
        return 0
    times_s: Sequence[float] | None = getattr(iteration_stats, "time_to_first_tokens_iter", None)
    return None if times_s is None else len(times_s)


def _ended(finished: Any) -> Ended:
    """The end of a sequence. vLLM counts no prompt of one that it gave up before it had computed it."""
    output_tokens = int(getattr(finished, "num_generation_tokens", 0))
    reason = str(getattr(finished, "finish_reason", ""))
    computed = bool(output_tokens) or reason not in _GIVEN_UP
    return Ended(
        str(finished.request_id),
        int(getattr(finished, "num_prompt_tokens", 0)) if computed else 0,
        output_tokens,
        reason,
        max(0, int(getattr(finished, "num_cached_tokens", 0))) if computed else 0,
    )
