"""Keep-warm requests, for an engine that is idle.

A request of a few tokens runs past the gate, counted nowhere, whenever ``keep_warm_after_s`` of the preset has passed
without an engine step. Off by default. The preset may be switched at any time, so it is read every second.
"""

from __future__ import annotations

import asyncio
import logging

from headway.background_tasks import sleep_until_turn
from headway.operator import EngineParts
from headway.supervision import not_ready
from headway.warmup.internal_requests import run_internal
from headway.warmup.sources import Source
from headway_policies import AdmissionState
from headway_policies.engine import keep_warm_due

log = logging.getLogger(__name__)

TASK = "keep-warm"
_POLL_S = 1.0


class KeepWarm:
    """The keep-warm requests of one engine, while ``run`` runs."""

    def __init__(self, parts: EngineParts, source: Source) -> None:
        self._gateway, self._tasks = parts.gateway, parts.tasks
        self._warmup, self._activity = parts.warmup, parts.activity
        self._source = source

    async def run(self) -> None:
        """Send a request whenever the engine has been idle for too long, until the server closes."""
        gateway, now_s = self._gateway, self._gateway.gate.now_s
        tried_s = now_s()
        while not gateway.link.closing:
            await sleep_until_turn(_POLL_S)
            idle_s = 0.0 if gateway.open_calls else now_s() - max(tried_s, self._activity.worked_s)
            if keep_warm_due(gateway.gate.desk.preset.warmup, idle_s) and self._serving():
                await self._once()
                tried_s = now_s()

    # ------------------------------------------------------------------ inside

    def _serving(self) -> bool:
        desk = self._gateway.gate.desk
        return desk.mode.state is AdmissionState.OPEN and not not_ready(desk, self._warmup.report)

    async def _once(self) -> None:
        """Run one request. Its failure is not reported: the supervisor checks the engine."""
        try:
            with self._activity.internal_requests():
                async with asyncio.timeout(self._gateway.gate.desk.preset.warmup.timeout_s):
                    await run_internal(self._gateway, self._tasks, "keep-warm", self._source.short_request)
        except Exception as error:
            log.debug("keep-warm: %s: %s", type(error).__name__, error)
