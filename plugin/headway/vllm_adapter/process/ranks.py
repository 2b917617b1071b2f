"""The ranks of one engine: the EngineCore processes of vLLM's data parallelism, which one client shares.

They are one engine to Headway, so the death of one rank is the death of all, at once. By itself vLLM asks the others to
end and gives them five seconds, in which the client counts as alive and sends requests to the dead rank. Headway
retries the requests that had sent no output; the others are broken off, on every rank.

The ranks start from one configuration, in which vLLM writes the devices of each rank (v1/engine/utils.py). The value
that the user gave is put back, or the ranks of the next engine would divide the devices of the last rank.
"""

from __future__ import annotations

import functools
from multiprocessing import connection
from typing import Any

from headway.vllm_adapter.process.core_start import family, kill

_DEVICES = "assigned_physical_gpu_ids"
_LOOK_S = 1.0


def ranks_of(config: Any) -> int:
    """The number of EngineCore processes behind a client with this configuration of vLLM."""
    return int(getattr(getattr(config, "parallel_config", None), "data_parallel_size", 1) or 1)


def most_active(scheduler_config: Any) -> int:
    """The sequences that a rank runs at most: ``--max-num-active-seqs``, where vLLM has it and it is given, else the
    ``--max-num-seqs`` of the model runner.
    """
    most = getattr(scheduler_config, "max_num_active_seqs", None)
    return int(scheduler_config.max_num_seqs if most is None else min(most, scheduler_config.max_num_seqs))


def bind_ranks(manager: type[Any] | None) -> None:
    """Have the processes that this class of vLLM's starts begin and end as one engine. Further calls do nothing."""
    watch: Any = getattr(manager, "monitor_engine_liveness", None)
    if manager is None or watch is None or hasattr(manager, "headway_binds_ranks"):
        return
    start: Any = getattr(manager, "__init__")  # noqa: B009 - mypy refuses the attribute of a class that it does not know

    @functools.wraps(start)
    def start_ranks(self: Any, *arguments: Any, **options: Any) -> None:
        parallel = getattr(options.get("vllm_config"), "parallel_config", None)
        given = getattr(parallel, _DEVICES, None)
        try:
            start(self, *arguments, **options)
        finally:
            if hasattr(parallel, _DEVICES):
                setattr(parallel, _DEVICES, given)

    @functools.wraps(watch)
    def watch_ranks(self: Any) -> None:
        _end_with_the_first(self)
        watch(self)

    setattr(manager, "__init__", start_ranks)  # noqa: B010 - a plain assignment is one that mypy refuses
    setattr(manager, "monitor_engine_liveness", watch_ranks)  # noqa: B010 - as above
    setattr(manager, "headway_binds_ranks", True)  # noqa: B010 - as above


def _end_with_the_first(manager: Any) -> None:
    """Wait until the first of several processes has died, or their end was ordered; kill the others after a death.

    A process that ended in order was told to, as the others were: they finish what they run.
    """
    by_end = {process.sentinel: process for process in manager.processes}
    if len(by_end) < 2:
        return
    ended: list[Any] = []
    while not ended and not manager.manager_stopped.is_set():
        ended = [
            by_end[sentinel] for sentinel in connection.wait(list(by_end), timeout=_LOOK_S) if isinstance(sentinel, int)
        ]
    for process in ended:
        process.join(_LOOK_S)  # its end of the pipe closes a moment before it has an exit code
    if manager.manager_stopped.is_set() or all(process.exitcode == 0 for process in ended):
        return
    kill([member for process in manager.processes if process not in ended for member in family(process.pid)])
