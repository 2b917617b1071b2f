"""Another EngineCore behind a client whose own is dead.

vLLM's handlers captured the client, its renderer and its input processor, and its stat loggers count on. So only the
parts that belong to the dead process are replaced: the connection to EngineCore, and the task that reads from it. The
client's ``shutdown`` is not called: it would end the renderer as well.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import psutil

from headway.errors import NoEngineError
from headway.vllm_adapter.process.core_start import CoreStart, another_core, bury, cores, family, kill, processes
from headway.vllm_adapter.process.death_cause import read_death_cause
from headway.vllm_adapter.process.engine_sockets import remove_unbound
from headway.vllm_adapter.process.parent_watch import is_killer
from headway.vllm_adapter.process.spare_memory import why_no_spare
from headway_policies import Cause

log = logging.getLogger(__name__)


class VllmReplacer:
    """The replacer of an ``AsyncLLM``'s engine, also by a spare (``headway.supervision``: ``SpareStarter``).

    ``owns_process``: every process that this one starts from now on belongs to the engine. In a program, which may have
    other children and other engines, only the present core does, and those that vLLM starts while this starts one.
    """

    def __init__(self, client: Any, *, owns_process: bool = True) -> None:
        self._client = client
        self._owns_process = owns_process
        self._cores_before: set[int | None] | None = None  # while another core is starting: those that were there
        self._spare: CoreStart | None = None
        self._dropped: CoreStart | None = None
        engine = processes(client.engine_core)
        self._others = {process.pid for process in psutil.Process().children(recursive=True) if process not in engine}

    def cause(self) -> Cause:
        """The cause that EngineCore wrote down before it died; a crash when it could not."""
        return read_death_cause()

    def kill(self) -> None:
        """End the engine's processes, also stopped processes, and the processes that ``start`` is starting.

        A spare lives on. Where nothing runs in the engine, the reading task is stopped first, so that vLLM logs no
        fatal error.
        """
        reader = self._client.output_handler
        if reader is not None and not self._client.output_processor.request_states:
            reader.cancel()
        found = psutil.Process().children(recursive=True) if self._owns_process else self._engine_processes()
        others = self._others | {process.pid for process in self._spare_processes()}
        kill([process for process in found if process.pid not in others and not is_killer(process)])

    async def start(self) -> None:
        """Connect to the spare, where it exists, else start another EngineCore; the event loop runs meanwhile."""
        client = self._client
        _end_questions(client.engine_core)
        await asyncio.to_thread(bury, client.engine_core)
        read_death_cause()
        core = await self._spare_core()
        if core is None:
            core = await self._new_core()
        else:
            self._spare = None
        _forget_requests(client)
        _forget_loads(client)
        client.engine_core = core
        client.output_handler = None
        client._run_output_handler()
        await asyncio.to_thread(remove_unbound)

    async def why_no_spare(self) -> str:
        """A shortage of memory on the machine or its devices; unreadable memory counts as not enough."""
        try:
            return await asyncio.to_thread(why_no_spare, self._client)
        except Exception as error:
            log.warning("the memory for a spare engine could not be read: %s: %s", type(error).__name__, error)
            return "the free memory could not be read"

    async def start_spare(self) -> None:
        """Start another EngineCore beside the present one; it goes on starting where the caller is cancelled."""
        if self._spare is not None:
            raise NoEngineError("there is a spare engine already")
        await self._dropped_is_over()
        self._spare = spare = CoreStart(self._client)
        try:
            await spare.core()
        except NoEngineError:
            if self._spare is spare:
                self._drop(spare)
            raise

    def spare_up(self) -> bool:
        """Whether the spare's core has started and lives."""
        return self._spare is not None and self._spare.up

    def end_spare(self) -> None:
        """Kill the spare's processes at once."""
        if self._spare is not None:
            self._drop(self._spare)

    # ------------------------------------------------------------------ inside

    async def _spare_core(self) -> Any | None:
        """The spare's core; None where there is no spare, or the spare did not start or has died.

        Raises NoEngineError where the spare was ended meanwhile: then no engine is wanted.
        """
        spare = self._spare
        if spare is None:
            return None
        try:
            return await spare.core()
        except NoEngineError as error:
            if spare.ended:
                raise
            log.warning("the spare engine cannot be used: %s; another engine is started", error)
            if self._spare is spare:
                self._drop(spare)
            return None

    async def _new_core(self) -> Any:
        await self._dropped_is_over()
        self._cores_before = {core.pid for core in cores()}
        try:
            return await asyncio.to_thread(another_core, self._client)
        finally:
            self._cores_before = None

    def _drop(self, spare: CoreStart) -> None:
        """End a spare; ``_dropped_is_over`` waits for its end."""
        spare.end()
        self._spare, self._dropped = None, spare

    async def _dropped_is_over(self) -> None:
        """Wait for a dropped spare: what is killed with it while it starts must not be the next core."""
        if self._dropped is not None:
            await self._dropped.over()
            self._dropped = None

    def _spare_processes(self) -> list[psutil.Process]:
        return [] if self._spare is None else self._spare.processes()

    def _engine_processes(self) -> list[psutil.Process]:
        """The engine's processes in a program, also of an engine that is still starting."""
        before = self._cores_before
        starting = [] if before is None else [core.pid for core in cores() if core.pid not in before]
        return processes(self._client.engine_core) + [member for pid in starting for member in family(pid)]


def replaceable(client: Any) -> bool:
    """Whether this client started its engine itself and has the parts that must be replaced."""
    resources = getattr(getattr(client, "engine_core", None), "resources", None)
    parts = ("output_handler", "output_processor", "_run_output_handler", "log_stats", "vllm_config")
    return getattr(resources, "engine_manager", None) is not None and all(hasattr(client, name) for name in parts)


def _end_questions(core: Any) -> None:
    """Fail all open queries to the dead engine, also those of vLLM's own routes."""
    from vllm.v1.engine.exceptions import EngineDeadError

    for answer in list(getattr(core, "utility_results", {}).values()):
        if not answer.done():
            answer.set_exception(EngineDeadError())


def _forget_requests(client: Any) -> None:
    """Drop the records of requests that died with the old engine; their callers have been answered."""
    processor = client.output_processor
    ids, count = list(processor.request_states), vars(type(client)).get("_headway_count_dropped")
    if count is not None:  # it is a policy client
        count(client, ids, internal=True)
    processor.abort_requests(ids, internal=True)


def _forget_loads(client: Any) -> None:
    """Drop the last loads of the old engine's ranks: a new rank may be idle, and then reports nothing."""
    for logger in getattr(getattr(client, "logger_manager", None), "stat_loggers", ()):
        if hasattr(logger, "forget_loads"):
            logger.forget_loads()
