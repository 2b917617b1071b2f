"""The recycle of an engine: a living engine is replaced by a new one, and no request is lost.

1. Where memory allows, the new engine is started beside the old one, which goes on serving. Where the new one does not
   start, the recycle has failed, and nothing has changed.
2. Dispatch is suspended; requests that arrive wait, bounded and timed as always.
3. Running requests finish, within ``recycle_drain_s``; otherwise the recycle is given up and service goes on.
4. The engine is replaced, by the new one or by one that starts now, and dispatch resumes. Where that fails, or the
   engine dies at any time, the supervisor takes over, and the recycle ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from headway.admission import Gateway
from headway.audit import Audit, Caller
from headway.background_tasks import BackgroundTasks
from headway.errors import HeadwayError, NoEngineError
from headway.supervision.memory.report import MemoryReport
from headway.supervision.spare_engine import AFTER, BESIDE, NO_SPARE
from headway.supervision.supervisor import Supervisor
from headway_policies import AdmissionState, Block

log = logging.getLogger(__name__)

TASK = "recycle"
_POLL_S = 0.05
_OVERTAKEN = "overtaken: the engine died, and is replaced for that"

Replace = Callable[[], Awaitable[None]]


class CannotReplaceError(HeadwayError):
    """This server cannot replace its engine."""


class NotNowError(HeadwayError):
    """A recycle is under way, or there is nothing to recycle."""


class SpareFailedError(HeadwayError):
    """The engine that was started beside the old one cannot be used."""


class EngineRecycle:
    """The recycle of one engine. ``replace`` puts a new engine in place: the supervisor's spare, where started."""

    def __init__(
        self,
        gateway: Gateway,
        tasks: BackgroundTasks,
        report: MemoryReport,
        audit: Audit,
        replace: Replace | None = None,
        supervisor: Supervisor | None = None,
    ) -> None:
        self._gateway = gateway
        self._tasks = tasks
        self._report = report
        self._audit = audit
        self._replace = replace
        self._spare = None if supervisor is None else supervisor.spare
        self._supervisor = supervisor

    @property
    def deaths(self) -> int:
        """The number of engines that have died."""
        return 0 if self._supervisor is None else self._supervisor.deaths.total()

    @property
    def running(self) -> bool:
        """Whether a recycle is under way."""
        return TASK in self._tasks

    @property
    def possible(self) -> bool:
        """Whether this server can replace its engine."""
        return self._replace is not None

    def begin(self, caller: Caller, reason: str = "", trigger: str = "command") -> None:
        """Start a recycle in the background. Raises CannotReplaceError or NotNowError; then nothing has changed.

        ``trigger`` is one of ``headway.supervision.TRIGGERS``.
        """
        self._gateway.link.begin()  # a program may ask for it before its first request
        try:
            replace = self._replacement()
        except HeadwayError as error:
            self._record(caller, reason, f"refused: {error}")
            raise
        self._record(caller, reason, "accepted")
        self._tasks.start(TASK, self._run(replace, caller, reason, trigger))

    # ------------------------------------------------------------------ inside

    def _record(self, caller: Caller, reason: str, result: str) -> None:
        self._audit.command(caller, "recycle_engine", self._gateway.gate.desk, reason, result)

    def _replacement(self) -> Replace:
        if self._replace is None:
            raise CannotReplaceError("this server cannot replace its engine; restart it")
        desk = self._gateway.gate.desk
        if self.running:
            raise NotNowError("a recycle is under way")
        if desk.mode.state is AdmissionState.DRAINING or not desk.mode.engine_up:
            raise NotNowError("the server is draining, or its engine is not running")
        return self._replace

    async def _run(self, replace: Replace, caller: Caller, reason: str, trigger: str) -> None:
        try:
            result = await self._recycled(replace, trigger)
        except asyncio.CancelledError:
            self._record(caller, reason, "ended: the server closes")
            raise
        except SpareFailedError as failed:
            log.error("recycle: %s", failed)
            result = f"failed: {failed}"
        except Exception as error:
            log.exception("the engine could not be replaced")
            result = f"failed: {type(error).__name__}"
        finally:
            self._end_spare()
        self._record(caller, reason, result)

    async def _recycled(self, replace: Replace, trigger: str) -> str:
        """Recycle the engine; returns the result for the audit. Raises what keeps the engine from being replaced."""
        gate = self._gateway.gate
        began_s, deaths = gate.now_s(), self.deaths
        why_not = NO_SPARE if self._spare is None else await self._spare.why_no_spare()
        how = self._report.recycle_form = f"{AFTER}: {why_not}" if why_not else BESIDE
        log.info("recycle: the new engine is started %s", how)
        if not why_not and (ended := await self._start_spare(deaths)):
            return ended
        gate.pause(Block.RECYCLE)
        try:
            return await self._drain_and_replace(replace, trigger, how, began_s, deaths)
        finally:
            gate.resume(Block.RECYCLE)

    async def _start_spare(self, deaths: int) -> str:
        """Wait until the spare is up, while the old engine serves; returns a result that ends the recycle, or ""."""
        assert self._spare is not None
        if self._died_since(deaths):
            return _OVERTAKEN
        start = asyncio.ensure_future(self._spare.start_spare())
        try:
            while not start.done():
                await asyncio.wait({start}, timeout=_POLL_S)
                if self._died_since(deaths):
                    return _OVERTAKEN
                if self._gateway.link.closing or self._gateway.gate.desk.mode.state is AdmissionState.DRAINING:
                    return "given up: the server is draining"
            await start
        except NoEngineError as error:
            raise SpareFailedError(f"the new engine did not start, and the old one goes on: {error}") from error
        finally:
            start.add_done_callback(lambda done: done.cancelled() or done.exception())  # it is not needed any more
            start.cancel()
        return ""

    async def _drain_and_replace(self, replace: Replace, trigger: str, how: str, began_s: float, deaths: int) -> str:
        gate, paused_s = self._gateway.gate, self._gateway.gate.now_s()
        drained = await self._drained()
        if self._died_since(deaths):
            return _OVERTAKEN
        if not drained:
            return f"given up: {gate.desk.seats_taken} seats still taken after {gate.now_s() - paused_s:.0f} s"
        if how == BESIDE and self._spare is not None and not self._spare.spare_up():
            raise SpareFailedError("the new engine has died, and the old one goes on")
        await replace()
        if not gate.desk.mode.engine_up:
            raise HeadwayError("the supervisor could not start another engine")
        self._report.recycled[trigger] += 1
        return f"applied after {gate.now_s() - began_s:.1f} s: started {how}"

    def _died_since(self, deaths: int) -> bool:
        return self._gateway.link.engine_gone or self.deaths != deaths

    def _end_spare(self) -> None:
        """End an unused spare. Where the engine died, the supervisor takes the spare, or ends it."""
        link = self._gateway.link
        if self._spare is not None and (link.closing or link.engine_lost or not link.engine_gone):
            self._spare.end_spare()

    async def _drained(self) -> bool:
        """Wait until no request uses the engine; False when the wait takes too long."""
        gateway = self._gateway
        try:
            async with asyncio.timeout(gateway.gate.desk.preset.memory.recycle_drain_s):
                while gateway.gate.desk.seats_taken or gateway.open_calls:  # noqa: ASYNC110 - two counts change
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            return False
        return True
