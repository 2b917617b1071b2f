"""Commands of a warm-up: the preset's plan, once, on the engine that serves, beside its requests.

Warm-ups run one at a time, and only on an engine that is up and warm: another engine is warmed up by its starter. A
failure changes nothing but the audit, which has the end of each.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from headway.admission import Gateway
from headway.api.schema import WarmupAccepted
from headway.audit import Audit, Caller
from headway.background_tasks import BackgroundTasks
from headway.errors import CommandConflictError, HeadwayError, NoWarmupError
from headway.supervision import EngineRecycle, WarmupState
from headway_policies import Block
from headway_policies.desk import ENGINE_BLOCKS

log = logging.getLogger(__name__)

TASK = "commanded warm-up"
_NO_REQUESTS = "this engine has no warm-up: nothing says which requests it takes"

#: Runs the plan once with batches of so many requests; the result is why it failed, empty where it did not.
WarmBesideTraffic = Callable[[int], Awaitable[str]]


class WarmupCommands:
    """The warm-ups on command of one server. Call it on the event loop's thread only."""

    def __init__(
        self,
        gateway: Gateway,
        tasks: BackgroundTasks,
        warmup: WarmupState,
        recycle: EngineRecycle,
        audit: Audit,
        warm: WarmBesideTraffic | None = None,
    ) -> None:
        self._gateway = gateway
        self._tasks = tasks
        self._warmup = warmup
        self._recycle = recycle
        self._audit = audit
        self._warm = warm

    @property
    def running(self) -> bool:
        """Whether a warm-up on command is under way."""
        return TASK in self._tasks

    def begin(self, caller: Caller, reason: str = "") -> WarmupAccepted:
        """Start a warm-up in the background. Raises NoWarmupError or CommandConflictError; then nothing has changed."""
        try:
            warm = self._possible()
        except HeadwayError as error:
            self._record(caller, reason, f"refused: {error}")
            raise
        desk = self._gateway.gate.desk
        batch_size = max(1, desk.limit - desk.seats_taken)
        self._record(caller, reason, f"accepted: batches of at most {batch_size}")
        self._gateway.link.begin()
        self._tasks.start(TASK, self._run(warm, batch_size, caller, reason))
        ledger = desk.ledger
        return WarmupAccepted(accepted=True, batch_size=batch_size, running=ledger.in_flight, waiting=ledger.queued)

    # ------------------------------------------------------------------ inside

    def _record(self, caller: Caller, reason: str, result: str) -> None:
        self._audit.command(caller, "warm_up_engine", self._gateway.gate.desk, reason, result)

    def _possible(self) -> WarmBesideTraffic:
        if self._warm is None:
            raise NoWarmupError(_NO_REQUESTS)
        if why := self._conflict():
            raise CommandConflictError(why)
        return self._warm

    def _conflict(self) -> str:
        """The reason why no warm-up can run now, and a remedy; empty where one can."""
        desk = self._gateway.gate.desk
        if self._gateway.link.closing:
            return "the server is closing: start it again once it has ended"
        if self.running or not self._warmup.report.warm or Block.WARMUP in desk.mode.blocks:
            return "a warm-up is under way: wait for its end (see the audit log or the status)"
        if self._recycle.running:
            return "a recycle is under way, and warms the new engine up: wait for its end"
        if not desk.mode.engine_up:
            return "the engine is not running: another one is warmed up when it starts"
        if desk.mode.blocks & ENGINE_BLOCKS:
            return "the engine is paused or asleep: wake it up first"
        return ""

    async def _run(self, warm: WarmBesideTraffic, batch_size: int, caller: Caller, reason: str) -> None:
        began_s = self._gateway.gate.now_s()
        try:
            failed = await warm(batch_size)
        except asyncio.CancelledError:
            self._record(caller, reason, "ended: the server closes")
            raise
        except Exception as error:
            log.exception("the warm-up on command ended with an error")
            failed = type(error).__name__
        took_s = self._gateway.gate.now_s() - began_s
        self._record(caller, reason, f"failed: {failed}" if failed else f"applied after {took_s:.1f} s")
