"""The start of another EngineCore for a client of vLLM's: its thread, its processes, and its end at any moment."""

from __future__ import annotations

import asyncio
import functools
import multiprocessing
import threading
from contextlib import suppress
from typing import Any

import psutil

from headway.errors import NoEngineError
from headway.vllm_adapter.process.death_cause import one_line, read_death_cause, why_not_started
from headway.vllm_adapter.process.parent_watch import is_killer

_CORE_NAME = "EngineCore"  # of the processes that vLLM's CoreEngineProcManager starts (v1/engine/utils.py)
_POLL_S = 0.05
_END_WITHIN_S = 10.0
_KILLED_WITHIN_S = 5.0


class CoreStart:
    """Starts one EngineCore beside that of the client, in a thread.

    The thread is a daemon: where vLLM waits for a process that was ended, the end of this one does not wait for vLLM.
    Known weak spot: another engine of the same program that starts meanwhile is taken for a part of this one.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._before = {core.pid for core in cores()}
        self._done = threading.Event()
        self._buried = threading.Event()
        self._core: Any = None
        self._error: Exception | None = None
        self.ended = False
        threading.Thread(target=self._run, name="headway-spare-engine", daemon=True).start()

    @property
    def up(self) -> bool:
        """Whether the core has started, and still lives."""
        if not self._done.is_set() or self._core is None or self.ended:
            return False
        resources = self._core.resources
        return not resources.engine_dead and all(
            process.exitcode is None for process in resources.engine_manager.processes
        )

    async def core(self) -> Any:
        """The client of the new core, once it is up. Raises NoEngineError where it does not start, or has died."""
        while not self._done.is_set():  # noqa: ASYNC110 - an event of a thread
            await asyncio.sleep(_POLL_S)
        if self._error is not None:
            cause = why_not_started()
            if cause is not None:
                read_death_cause()  # or it would be taken for that of the engine that serves
            raise NoEngineError(cause or one_line(self._error)) from self._error
        if not self.up:
            raise NoEngineError("its process has ended")
        return self._core

    async def over(self) -> None:
        """Wait, after ``end``, until nothing of the core is left, for some seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_WITHIN_S):
                while not self._buried.is_set():  # noqa: ASYNC110 - an event of a thread
                    await asyncio.sleep(_POLL_S)

    def processes(self) -> list[psutil.Process]:
        """The living processes of the new core and below it. vLLM ends those of a start that fails."""
        if self._done.is_set():
            return [] if self._core is None else processes(self._core)
        return [member for core in cores() if core.pid not in self._before for member in family(core.pid)]

    def end(self) -> None:
        """Kill the core at once; what vLLM starts even after that is killed as well."""
        if self.ended:
            return
        self.ended = True
        if self._core is not None:
            self._core.resources.engine_dead = True  # or vLLM logs that it ended unexpectedly
        kill(self.processes())
        threading.Thread(target=self._bury, name="headway-spare-end", daemon=True).start()

    # ------------------------------------------------------------------ inside

    def _run(self) -> None:
        try:
            self._core = another_core(self._client)
        except Exception as error:  # the waiting side gets it
            self._error = error
        finally:
            self._done.set()

    def _bury(self) -> None:
        while not self._done.wait(_POLL_S):
            kill(self.processes())
        if self._core is not None:
            bury(self._core)
        self._buried.set()


def another_core(client: Any) -> Any:
    """Start another EngineCore with the client's configuration, and connect to it. Blocks until it is up."""
    from vllm.v1.engine.core_client import EngineCoreClient
    from vllm.v1.executor import Executor

    config = client.vllm_config
    blocks = config.cache_config.num_gpu_blocks
    make: Any = functools.partial(EngineCoreClient.make_async_mp_client, vllm_config=config)
    try:
        return make(executor_class=Executor.get_class(config), log_stats=client.log_stats)
    finally:
        config.cache_config.num_gpu_blocks = blocks  # vLLM adds up those of all the cores that a client starts


def cores() -> list[multiprocessing.process.BaseProcess]:
    """The engine cores that this process has started, for all its engines."""
    return [child for child in multiprocessing.active_children() if child.name.startswith(_CORE_NAME)]


def processes(core: Any) -> list[psutil.Process]:
    """The living processes of an EngineCore and below it. ``core`` is its client."""
    started = getattr(core.resources.engine_manager, "processes", ())
    return [member for process in started for member in family(process.pid)]


def family(pid: int | None) -> list[psutil.Process]:
    """A process and everything below it; nothing where the process has ended."""
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        return [parent, *(child for child in parent.children(recursive=True) if not is_killer(child))]
    return []


def kill(found: list[psutil.Process]) -> None:
    """Kill these processes, also stopped ones."""
    for process in found:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def bury(core: Any) -> None:
    """End what is left of an engine: its workers, its sockets, its request records.

    Its own processes are joined, for multiprocessing takes a child whose end is read elsewhere for a living one.
    """
    left = processes(core)
    core.shutdown(timeout=0)
    kill(left)
    for process in getattr(core.resources.engine_manager, "processes", ()):
        process.join(_KILLED_WITHIN_S)
    psutil.wait_procs(left, timeout=_KILLED_WITHIN_S)
