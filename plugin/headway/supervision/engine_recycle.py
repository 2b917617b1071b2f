"""Recycle of an engine: a living engine is replaced by a new one, and no request is lost.

1. Dispatch is suspended; requests that arrive wait, bounded and timed as always.
2. Running requests finish, within ``recycle_drain_s``; otherwise the recycle is given up and service goes on.
3. The engine is replaced and dispatch resumes. Where that fails, or the engine dies meanwhile, the supervisor takes
   over, and the recycle ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from headway.admission import Gateway
from headway.audit import Caller
from headway.background_tasks import BackgroundTasks
from headway.errors import HeadwayError
from headway.supervision.memory_report import MemoryReport
from headway_policies import AdmissionState, Hold

log = logging.getLogger(__name__)

TASK = "recycle"
_POLL_S = 0.05

Replace = Callable[[], Awaitable[None]]
#: Writes one line of the audit: the caller, the reason given, and the result.
Record = Callable[[Caller, str, str], None]


class CannotReplaceError(HeadwayError):
    """This server has no way to put another engine in place."""


class NotNowError(HeadwayError):
    """A recycle is under way, or there is nothing to recycle."""


class EngineRecycle:
    """Recycles one engine. ``replace`` puts a new engine in place; ``deaths`` counts the engines that died."""

    def __init__(
        self,
        gateway: Gateway,
        tasks: BackgroundTasks,
        report: MemoryReport,
        record: Record,
        *,
        replace: Replace | None = None,
        deaths: Callable[[], int] = lambda: 0,
    ) -> None:
        self._gateway = gateway
        self._tasks = tasks
        self._report = report
        self._record = record
        self._replace = replace
        self._deaths = deaths

    @property
    def running(self) -> bool:
        """Whether a recycle is under way."""
        return TASK in self._tasks

    def begin(self, caller: Caller, reason: str = "", trigger: str = "command") -> None:
        """Start a recycle in the background. Raises CannotReplaceError or NotNowError; then nothing has changed.

        ``trigger`` is one of ``headway.supervision.TRIGGERS``.
        """
        try:
            replace = self._replacement()
        except HeadwayError as error:
            self._record(caller, reason, f"refused: {error}")
            raise
        self._record(caller, reason, "accepted")
        self._tasks.start(TASK, self._run(replace, caller, reason, trigger))

    # ------------------------------------------------------------------ inside

    def _replacement(self) -> Replace:
        if self._replace is None:
            raise CannotReplaceError("this server cannot replace its engine; restart it")
        desk = self._gateway.gate.desk
        if self.running:
            raise NotNowError("a recycle is under way")
        if desk.state is AdmissionState.DRAINING or not desk.engine_up:
            raise NotNowError("the server is draining, or its engine is not running")
        return self._replace

    async def _run(self, replace: Replace, caller: Caller, reason: str, trigger: str) -> None:
        gate = self._gateway.gate
        gate.pause(Hold.RECYCLE)
        try:
            result = await self._drain_and_replace(replace, trigger)
        except asyncio.CancelledError:
            self._record(caller, reason, "ended: the server closes")
            raise
        except Exception as error:
            log.exception("the engine could not be replaced")
            result = f"failed: {type(error).__name__}"
        finally:
            gate.resume(Hold.RECYCLE)
        self._record(caller, reason, result)

    async def _drain_and_replace(self, replace: Replace, trigger: str) -> str:
        """The result, for the audit. Raises what keeps the engine from being replaced."""
        gate = self._gateway.gate
        began_s, deaths = gate.now_s(), self._deaths()
        drained = await self._drained()
        if self._gateway.link.engine_gone or self._deaths() != deaths:
            return "overtaken: the engine died, and is replaced for that"
        if not drained:
            return f"given up: {gate.desk.seats_taken} seats still taken after {gate.now_s() - began_s:.0f} s"
        await replace()
        if not gate.desk.engine_up:
            raise HeadwayError("no other engine came")
        self._report.recycled[trigger] += 1
        return f"applied after {gate.now_s() - began_s:.1f} s"

    async def _drained(self) -> bool:
        """Wait until no request uses the engine. False when that takes too long."""
        gateway = self._gateway
        try:
            async with asyncio.timeout(gateway.gate.desk.preset.memory.recycle_drain_s):
                while gateway.gate.desk.seats_taken or gateway.open_calls:  # noqa: ASYNC110 - two counts change
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            return False
        return True
