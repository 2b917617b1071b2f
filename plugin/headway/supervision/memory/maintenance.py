"""The maintenance of memory: every few seconds memory is read, and the memory policy's remedies are carried out.

Reading takes system calls, some of them slow, so it happens on a thread; everything else on the loop. An error is
logged once and the work is tried again in the next round: no request depends on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from headway import malloc_trim
from headway.admission import Gateway
from headway.audit import Caller
from headway.background_tasks import BackgroundTasks
from headway.supervision.engine_activity import EngineActivity
from headway.supervision.engine_recycle import EngineRecycle
from headway.supervision.memory.gc_control import GcControl
from headway.supervision.memory.probe import MemoryProbe, MemoryUse
from headway.supervision.memory.report import MemoryReport
from headway_policies import CapReason, Outcome
from headway_policies.memory import Cache, CapSeats, Clear, MemoryPolicy, MemoryReading, Recycle, Remedy

log = logging.getLogger(__name__)

TASK = "memory maintenance"
_CLEAR_WITHIN_S = 60.0
_ANSWER_WITHIN_S = 5.0
_SERVER = Caller(actor="headway", role="server", address="-")


class Seats(Protocol):
    """The owner of the seats; for a server the gate."""

    def cap_seats(self, reason: CapReason, ratio: float) -> None:
        """Use only this share of the limit from now on, for this reason; at least one seat."""
        ...


class MemoryMaintenance:
    """The memory maintenance of one server.

    While ``recycle`` replaces the engine there may be two. ``seats`` is the gate unless given, ``probe`` reads memory.
    ``collects``: Python's collector is set as a server needs it; in a program it stays as it is.
    """

    def __init__(
        self,
        gateway: Gateway,
        activity: EngineActivity,
        report: MemoryReport,
        recycle: EngineRecycle,
        *,
        collects: bool = True,
        seats: Seats | None = None,
        probe: Callable[[], MemoryUse] | None = None,
    ) -> None:
        self.collector = GcControl(report.pauses) if collects else None
        self._gateway = gateway
        self._activity = activity
        self._report = report
        self._recycle = recycle
        self._seats = seats or gateway.gate
        self._probe = probe or MemoryProbe()
        self._policy = MemoryPolicy(gateway.gate.now_s())
        self._engines = self._engines_replaced()
        self._engine_bytes = 0
        self._asked: int | None = None
        self._logged: set[str] = set()

    def start(self, tasks: BackgroundTasks) -> None:
        """Set up Python's collector at once, if it is to be, and run in the background. Call it on a warm server."""
        if self.collector is not None:
            self.collector.start()
        tasks.start(TASK, self.run())

    async def run(self) -> None:
        """Run round after round, until the server closes."""
        try:
            while not self._gateway.link.closing:
                await self._attempt("memory could not be read", self.update())
                await asyncio.sleep(self._gateway.gate.desk.preset.memory.check_interval_s)
        finally:
            if self.collector is not None:
                self.collector.stop()

    async def update(self) -> None:
        """Run one round: read memory, and carry out the remedies of the policy."""
        gateway, gate = self._gateway, self._gateway.gate
        if self.collector is not None:
            self.collector.update(idle=not gateway.open_calls and not gate.desk.ledger.queued)
        recycling = self._recycle.running
        use = await asyncio.to_thread(self._probe)
        self._activity.gpu_busy_ratio, self._activity.machine = use.gpu_busy_ratio, use.machine
        self._report.host_usage_ratio = use.host_usage_ratio
        if not recycling:
            self._engine_bytes = use.engine_bytes
            if gate.desk.mode.engine_up:  # between two engines there is nothing to measure
                self._note_replacement()
            await self._attempt("the engine's memory could not be read", self._ask_engine())
        reading = self._reading(use)
        for remedy in self._policy.update(reading, gate.desk.preset.memory, gate.now_s()):
            await self._attempt(f"{type(remedy).__name__} failed", self._act(remedy))

    # ------------------------------------------------------------------ inside

    def _note_replacement(self) -> None:
        """Have the policy measure a new engine from its first reading."""
        if self._engines_replaced() != self._engines:
            self._engines = self._engines_replaced()
            self._policy.replaced(self._gateway.gate.now_s())

    async def _ask_engine(self) -> None:
        """Ask each engine once for its memory, which does not change while it runs."""
        link, engines = self._gateway.link, self._engines_replaced()
        if engines != self._asked and not link.engine_gone:
            self._report.engine_bytes = await link.queries.ask(link.adapter.memory(link.engine), _ANSWER_WITHIN_S)
            self._asked = engines

    def _engines_replaced(self) -> int:
        """The number of engines replaced so far: the policy measures each engine by itself."""
        return self._report.recycled.total() + self._recycle.deaths

    def _reading(self, use: MemoryUse) -> MemoryReading:
        """The probe's figures with those of the loop. An idle engine reports nothing: its last KV use is over.

        While a recycle runs, the engine's size is the last one before.
        """
        gateway, desk = self._gateway, self._gateway.gate.desk
        running = max(desk.seats_taken, gateway.open_calls)
        return MemoryReading(
            running=running,
            kv_usage_ratio=self._activity.load.kv_usage_ratio if running else 0.0,
            gpu_usage_ratio=use.gpu_usage_ratio,
            server_bytes=use.server_bytes,
            engine_bytes=self._engine_bytes,
            queue_bytes=desk.read(gateway.gate.now_s()).waiting_bytes,
            largest_job_tokens=self._activity.take_largest_job(),
            requests=sum(counts.outcomes[Outcome.COMPLETED] for counts in desk.ledger.classes.values()),
        )

    async def _act(self, remedy: Remedy) -> None:
        match remedy:
            case CapSeats(ratio):
                self._cap(ratio)
            case Clear(caches, why):
                for cache in caches:
                    await self._attempt(f"the {cache} cache could not be cleared", self._clear(cache, why))
            case Recycle(why):
                self._recycle.begin(_SERVER, f"memory: {why}", why)

    def _cap(self, ratio: float) -> None:
        self._seats.cap_seats(CapReason.MEMORY, ratio)
        self._report.cap_ratio = ratio
        log.warning("memory: the seats are capped at %d %% of the limit", round(100 * ratio))

    async def _clear(self, cache: Cache, why: str) -> None:
        gateway = self._gateway
        if cache is Cache.HEAP:
            if self.collector is not None:
                self.collector.tidy()
            await asyncio.to_thread(malloc_trim.give_back)
            cleared = True
        else:
            cleared = await gateway.link.queries.ask(
                gateway.link.adapter.clear_cache(gateway.link.engine, cache), _CLEAR_WITHIN_S
            )
        if cleared:
            self._report.cleared[cache] += 1
            log.info("memory: cleared the %s cache (%s)", cache, why)

    async def _attempt(self, failure: str, work: Awaitable[None]) -> None:
        """Wait for the work. A failure is a warning the first time, and a debug message from then on."""
        try:
            await work
        except Exception as error:
            kind = f"{failure}: {type(error).__name__}"
            log.log(logging.DEBUG if kind in self._logged else logging.WARNING, "%s: %s", kind, error)
            self._logged.add(kind)
