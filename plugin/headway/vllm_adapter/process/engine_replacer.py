"""Another EngineCore behind a client whose own is dead.

vLLM's handlers captured the client, its renderer and its input processor, and its stat loggers count on. So only the
parts that belong to the dead process are replaced: the connection to EngineCore, and the task that reads from it. The
client's ``shutdown`` is not called on the way: it would end the renderer as well.
"""

from __future__ import annotations

import asyncio
import functools
import multiprocessing
from contextlib import suppress
from typing import Any

import psutil

from headway.vllm_adapter.process.death_cause import read_death_cause
from headway.vllm_adapter.process.parent_watch import is_killer
from headway_policies import Cause

_CORE_NAME = "EngineCore"  # of the processes that vLLM's CoreEngineProcManager starts (v1/engine/utils.py)


class VllmReplacer:
    """Replaces the engine of one ``AsyncLLM`` (see ``headway.supervision.supervisor.Replacer``).

    ``owns_process``: every process that this one starts from now on belongs to the engine. In a program, which may have
    other children and other engines, only the present core does, and those that vLLM starts while this starts one.
    """

    def __init__(self, client: Any, *, owns_process: bool = True) -> None:
        self._client = client
        self._owns_process = owns_process
        self._cores_before: set[int | None] | None = None  # while another core is starting: those that were there
        engine = _processes(client.engine_core)
        self._others = {one.pid for one in psutil.Process().children(recursive=True) if one not in engine}

    def cause(self) -> Cause:
        """By what EngineCore wrote down before it died; a crash when it could not."""
        return read_death_cause()

    def kill(self) -> None:
        """End the engine's processes, also stopped ones, and those of an engine that is still starting.

        Where nothing runs in it, the reading task is stopped first, so that vLLM logs no fatal error.
        """
        reader = self._client.output_handler
        if reader is not None and not self._client.output_processor.request_states:
            reader.cancel()
        found = psutil.Process().children(recursive=True) if self._owns_process else self._engine_processes()
        for process in found:
            if process.pid not in self._others and not is_killer(process):
                with suppress(psutil.NoSuchProcess):
                    process.kill()

    async def start(self) -> None:
        """Start another EngineCore and connect to it; the event loop keeps running meanwhile."""
        client = self._client
        _end_questions(client.engine_core)
        await asyncio.to_thread(_bury, client.engine_core)
        read_death_cause()
        self._cores_before = {one.pid for one in _cores()}
        try:
            core = await asyncio.to_thread(_another_core, client)
        finally:
            self._cores_before = None
        _forget_requests(client.output_processor)
        client.engine_core = core
        client.output_handler = None
        client._run_output_handler()

    def _engine_processes(self) -> list[psutil.Process]:
        """The engine's processes in a program, also of an engine that is still starting."""
        before = self._cores_before
        starting = [] if before is None else [one.pid for one in _cores() if one.pid not in before]
        return _processes(self._client.engine_core) + [each for pid in starting for each in _family(pid)]


def replaceable(client: Any) -> bool:
    """Whether this client started its engine itself and has the parts that must be replaced."""
    resources = getattr(getattr(client, "engine_core", None), "resources", None)
    parts = ("output_handler", "output_processor", "_run_output_handler", "log_stats", "vllm_config")
    return getattr(resources, "engine_manager", None) is not None and all(hasattr(client, one) for one in parts)


def _cores() -> list[multiprocessing.process.BaseProcess]:
    """The engine cores of this process, of all its engines."""
    return [one for one in multiprocessing.active_children() if one.name.startswith(_CORE_NAME)]


def _another_core(client: Any) -> Any:
    from vllm.v1.engine.core_client import EngineCoreClient
    from vllm.v1.executor import Executor

    config = client.vllm_config
    make: Any = functools.partial(EngineCoreClient.make_async_mp_client, vllm_config=config)
    return make(executor_class=Executor.get_class(config), log_stats=client.log_stats)


def _bury(core: Any) -> None:
    """End what is left of the dead engine: its workers, its sockets, its request records."""
    left = _processes(core)
    core.shutdown(timeout=0)
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=5)


def _processes(core: Any) -> list[psutil.Process]:
    """EngineCore and everything below it, as far as it still lives."""
    processes = getattr(core.resources.engine_manager, "processes", ())
    return [each for one in processes for each in _family(one.pid)]


def _family(pid: int | None) -> list[psutil.Process]:
    """A process and everything below it; nothing where it has ended."""
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        return [parent, *(child for child in parent.children(recursive=True) if not is_killer(child))]
    return []


def _end_questions(core: Any) -> None:
    """Fail all open queries to the dead engine, those of vLLM's own routes too."""
    from vllm.v1.engine.exceptions import EngineDeadError

    for answer in list(getattr(core, "utility_results", {}).values()):
        if not answer.done():
            answer.set_exception(EngineDeadError())


def _forget_requests(processor: Any) -> None:
    """Drop the records of requests that died with the old engine; their callers have been answered."""
    processor.abort_requests(list(processor.request_states), internal=True)
