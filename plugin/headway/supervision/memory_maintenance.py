"""MemoryMaintenance: memory is looked at every few seconds, and what the policy says is done about it.

Reading takes system calls, some of them slow, so it happens on a thread; everything else on the loop. Whatever goes
wrong is said once and tried again next time: no request depends on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from headway import malloc_trim
from headway.audit import Who
from headway.supervision.gc_control import GcControl
from headway.supervision.memory_probe import MemoryProbe, MemoryUse
from headway_policies import CapReason
from headway_policies.memory import Cache, CapSeats, Clear, MemoryPolicy, Reading, Recycle, Remedy

if TYPE_CHECKING:
    from headway.operator.control import Control

log = logging.getLogger(__name__)

TASK = "upkeep"
_CLEAR_WITHIN_S = 60.0
_OURSELVES = Who(actor="headway", role="server", address="-")


class Seats(Protocol):
    """Whoever hands out seats."""

    def cap_seats(self, reason: CapReason, ratio: float) -> None:
        """Use only this share of the limit from now on, for this reason; one seat at the least."""
        ...


def start_memory_maintenance(control: Control) -> None:
    """Take the collector in hand and look from now on, for as long as the server lives. Call it when it is warm."""
    collector = GcControl(control.memory_report.pauses)
    collector.start()
    control.tasks.start(TASK, MemoryMaintenance(control, control.gateway.gate, collector).run())


class MemoryMaintenance:
    """The upkeep of one server."""

    def __init__(
        self,
        control: Control,
        seats: Seats,
        collector: GcControl,
        probe: Callable[[], MemoryUse] | None = None,
    ) -> None:
        self._control = control
        self._seats = seats
        self._collector = collector
        self._probe = probe or MemoryProbe()
        self._policy = MemoryPolicy(control.gateway.gate.now_s())
        self._engines = self._engines_so_far()
        self._said: set[str] = set()

    async def run(self) -> None:
        """Look again and again, until the server closes."""
        try:
            while not self._control.gateway.closing:
                await self._attempt("memory could not be looked at", self.look())
                await asyncio.sleep(self._control.preset.memory.check_interval_s)
        finally:
            self._collector.stop()

    async def look(self) -> None:
        """Once."""
        control, gate = self._control, self._control.gateway.gate
        self._collector.look(idle=not control.gateway.open_calls and not gate.desk.ledger.queued)
        use = await asyncio.to_thread(self._probe)
        control.gpu_busy_ratio = use.gpu_busy_ratio
        reading = self._reading(use)
        if self._engines_so_far() != self._engines:
            self._engines = self._engines_so_far()
            self._policy.replaced(gate.now_s())
        for remedy in self._policy.update(reading, control.preset.memory, gate.now_s()):
            await self._attempt(f"{type(remedy).__name__} failed", self._act(remedy))

    # ------------------------------------------------------------------ inside

    def _engines_so_far(self) -> int:
        """How many have been replaced: whatever is measured of the next one is its own."""
        supervisor = self._control.supervisor
        return self._control.memory_report.recycled.total() + (0 if supervisor is None else supervisor.deaths.total())

    def _reading(self, use: MemoryUse) -> Reading:
        """What the thread has read, with what the loop knows. An engine at rest reports nothing: its KV use is over."""
        control, desk = self._control, self._control.gateway.gate.desk
        running = max(desk.seats_taken, control.gateway.open_calls)
        return Reading(
            running=running,
            kv_usage_ratio=control.load.kv_usage_ratio if running else 0.0,
            gpu_usage_ratio=use.gpu_usage_ratio,
            server_bytes=use.server_bytes,
            engine_bytes=use.engine_bytes,
            queue_bytes=desk.waiting_bytes(),
            largest_job_tokens=control.memory_report.take_largest_job(),
        )

    async def _act(self, remedy: Remedy) -> None:
        match remedy:
            case CapSeats(ratio):
                self._cap(ratio)
            case Clear(caches, why):
                for cache in caches:
                    await self._attempt(f"the {cache} cache could not be cleared", self._clear(cache, why))
            case Recycle(why):
                self._control.recycle(_OURSELVES, f"memory: {why}", trigger=why)

    def _cap(self, ratio: float) -> None:
        self._seats.cap_seats(CapReason.MEMORY, ratio)
        self._control.memory_report.cap_ratio = ratio
        log.warning("memory: %d %% of the seats may be used", round(100 * ratio))

    async def _clear(self, cache: Cache, why: str) -> None:
        gateway = self._control.gateway
        if cache is Cache.HEAP:
            self._collector.tidy()
            await asyncio.to_thread(malloc_trim.give_back)
            cleared = True
        else:
            cleared = await gateway.queries.ask(gateway.adapter.clear_cache(gateway.engine, cache), _CLEAR_WITHIN_S)
        if cleared:
            self._control.memory_report.cleared[cache] += 1
            log.info("memory: cleared the %s cache (%s)", cache, why)

    async def _attempt(self, failure: str, work: Awaitable[None]) -> None:
        """Do it; a failure is said the first time, and then no more."""
        try:
            await work
        except Exception as error:
            kind = f"{failure}: {type(error).__name__}"
            log.log(logging.DEBUG if kind in self._said else logging.WARNING, "%s: %s", kind, error)
            self._said.add(kind)
