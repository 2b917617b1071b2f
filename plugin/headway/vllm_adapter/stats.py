"""The stat-logger plugin: what each engine step reported, and which sequences ended in it.

vLLM calls ``record`` once for each step with output, and never while idle. It reads the fields it knows and lives
without those a version lacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vllm.v1.metrics.loggers import AggregateStatLoggerBase

from headway.engine import StepListener
from headway_policies import Load


class HeadwayStatLogger(AggregateStatLoggerBase):
    """Passes each step on to whoever listens; does nothing until somebody does."""

    def __init__(self, vllm_config: Any, engine_indexes: Sequence[int] = (0,)) -> None:
        self.listener: StepListener | None = None

    def record(
        self, scheduler_stats: Any, iteration_stats: Any, mm_cache_stats: Any = None, engine_idx: int = 0
    ) -> None:
        """One engine step: its load, the sequences in it, and the request ids of those that ended."""
        if self.listener is None:
            return
        load, sequences, ended = None, 0, ()
        if iteration_stats is not None:
            steps = ("inter_token_latencies_iter", "time_to_first_tokens_iter")
            sequences = sum(len(getattr(iteration_stats, name, ())) for name in steps)
            finished = getattr(iteration_stats, "finished_requests", ())
            ended = tuple(one.request_id for one in finished if getattr(one, "request_id", None) is not None)
        if scheduler_stats is not None:
            running = int(scheduler_stats.num_running_reqs)
            sequences = max(sequences, running)
            load = Load(running, int(scheduler_stats.num_waiting_reqs), float(scheduler_stats.kv_cache_usage))
        self.listener.step(load, sequences, ended)

    def log_engine_initialized(self) -> None:
        """Nothing to say."""
