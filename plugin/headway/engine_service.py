"""The parts of Headway around one engine: its gate, its supervision, its warm-up and its background work.

A server and a program are served by the same parts. They differ in when these begin: a server warms its engine up and
starts the background work before it listens, a program has no event loop yet when it wraps its engine, so that both
begin with its first request, or earlier by ``warm_up``. A preset acts in both, but for Python's collector: that of a
program is its own.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry

from headway.admission import ModelNames
from headway.api.schema import BatchStatus
from headway.background_tasks import report_every
from headway.engine import EngineAdapter
from headway.errors import HeadwayError
from headway.fallback import OtherModel
from headway.operator import (
    Fleet,
    Meters,
    MetricsCollector,
    PresetCatalogue,
    ServerIdentity,
    Surroundings,
    UsageCollector,
    install,
    prepare,
)
from headway.supervision import (
    LOG_EVERY_S,
    LearntLimit,
    MemoryMaintenance,
    MemoryProbe,
    ObjectivesLog,
    OverloadLog,
    Replacer,
    Supervisor,
    WindowLog,
    learnt_limit_file,
    watch_loop,
)
from headway.tracing import GenAiMetrics, gen_ai_metrics
from headway.usage import UsageLog
from headway.warmup import KeepWarm, OneRequest, Source, Warmer
from headway_policies import Block, Preset
from headway_policies.preset import Ability

log = logging.getLogger(__name__)

_UNNAMED = ServerIdentity()


def _meters(catalogue: PresetCatalogue, registry: CollectorRegistry, ceiling: int | None) -> Meters:
    try:
        return Meters.for_presets(catalogue, registry, ceiling)
    except ValueError as error:
        text = "the registry has the metrics of another engine already: give each engine a registry of its own"
        raise ValueError(text) from error


class EngineService:
    """The parts around one engine, which becomes a policy client at once; ``control`` has its commands.

    ``source`` makes the requests of warm-ups, ``warm_up`` says that the engine is not ready before one, ``replacer``
    puts another engine in its place, ``other_model`` answers what the ladder diverts, ``fleet`` says that the engine is
    several instances. ``owns_process``: Python's collector is Headway's to set. ``usage`` is the accounting, where
    there is one, ``batches`` returns those that have not ended, ``exported`` has the metrics over OTLP of one that
    serves. Raises ValueError where the engine has a gate already, or the registry the metrics of another engine.
    """

    def __init__(
        self,
        engine: Any,
        adapter: EngineAdapter,
        preset: Preset,
        catalogue: PresetCatalogue,
        *,
        registry: CollectorRegistry | None = None,
        identity: ServerIdentity = _UNNAMED,
        max_request_seats: int | None = None,
        source: Source | None = None,
        warm_up: bool = False,
        replacer: Replacer | None = None,
        other_model: OtherModel | None = None,
        fleet: Fleet | None = None,
        owns_process: bool = True,
        usage: UsageLog | None = None,
        batches: Callable[[], list[BatchStatus]] = list,
    ) -> None:
        self.parts = prepare(
            engine,
            adapter,
            preset,
            meters=None if registry is None else partial(_meters, catalogue, registry),
            max_request_seats=max_request_seats,
            warm_up=warm_up,
            names=ModelNames(identity.names, identity.adapters),
        )
        self._registry = registry
        self._owns_process = owns_process
        self._warm_first = warm_up
        gateway = self.parts.gateway
        self._warmer = None if source is None else Warmer(self.parts, source)
        limit_file = learnt_limit_file(adapter.fingerprint(engine))
        self._learnt_limit = None if limit_file is None else LearntLimit(gateway.gate, limit_file)
        self._keep_warm = None if source is None else KeepWarm(self.parts, source)
        lacks = _lacks(source, replacer, other_model, owns_process=owns_process) | adapter.lacks(engine)
        self._reads_gpus = Ability.GPUS not in lacks
        rewarm = None if self._warmer is None else self._warmer.rewarm
        self.supervisor = Supervisor(gateway, replacer, rewarm)
        around = Surroundings(
            identity=identity,
            supervisor=self.supervisor,
            replace=None if replacer is None else self.supervisor.recycle,
            other_model=other_model,
            warm_up=self.warm_up,
            warm_beside_traffic=None if self._warmer is None else self._warmer.warm_beside_traffic,
            fleet=fleet,
            lacks=lacks,
            usage=usage,
            batches=batches,
        )
        self.control = install(self.parts, catalogue, around)
        self._usage = usage
        self.exported: GenAiMetrics | None = None

    async def serve(self) -> None:
        """Warm the engine up where that was asked for, then start the background work: for a server, before it listens.

        Where the warm-up fails this returns all the same: the server is not ready, and retries.
        """
        self._show_metrics()
        self.exported = gen_ai_metrics(self.parts.gateway.model)
        if self.exported is not None:
            self.parts.gateway.gate.listeners.exported = self.exported.ended
        if self._usage is not None and self._usage.budgets is not None:
            await self._usage.budgets.refresh()
        await self.parts.gateway.link.limit_engine()
        if self._warm_first and self._warmer is not None:
            await self._warmer.warm_up()
        self._start_background_work()

    def begin_with_first_request(self) -> None:
        """Begin as soon as there is an event loop: for a program. Ends when the engine is shut down."""
        link = self.parts.gateway.link
        link.on_begin, link.on_closed = self._begin, self.parts.tasks.stop_all

    async def warm_up(self) -> None:
        """Warm the engine up now. Raises HeadwayError where that fails: then it is not ready, and is retried.

        Requests that are dispatched meanwhile run beside it.
        """
        if self._warmer is None:
            raise HeadwayError("nothing says what a warm-up should run: wrap the engine with warmup=, a function")
        self._warm_first = False
        self.parts.gateway.link.begin()
        await self._warmer.warm_up()
        if not self.parts.warmup.report.warm:
            raise HeadwayError(f"the warm-up failed: {self.parts.warmup.report.reason}")

    def close_usage(self) -> None:
        """Write the records of all requests that are over, and close the accounting: the server ends."""
        atexit.unregister(self.close_usage)
        if self._usage is not None:
            self.parts.gateway.gate.listeners.close_accounts()
            self._usage.close()

    async def warm_beside_traffic(self, within_s: float) -> None:
        """Run the warm-up once, for so long at most; the engine stays ready, also after a failure."""
        if self._warmer is None:
            return
        try:
            async with asyncio.timeout(within_s):
                await self._warmer.warm_beside_traffic(self.parts.gateway.gate.desk.limit)
        except TimeoutError:
            log.warning("the warm-up did not end within %g s; the server goes on", within_s)

    # ------------------------------------------------------------------ inside

    def _begin(self) -> None:
        """Begin on the program's event loop: requests wait for a warm-up that was asked for."""
        self._show_metrics()
        self._start_background_work()
        if self._warm_first and self._warmer is not None:
            self.parts.gateway.gate.pause(Block.WARMUP)
            self.parts.tasks.start("first warm-up", self._warm_up_first(self._warmer))

    async def _warm_up_first(self, warmer: Warmer) -> None:
        try:
            await warmer.warm_up()
        finally:
            self.parts.gateway.gate.resume(Block.WARMUP)

    def _show_metrics(self) -> None:
        if self._registry is not None:
            loop = asyncio.get_running_loop()
            self._registry.register(MetricsCollector(self.control.snapshot, loop, gpus=self._reads_gpus))
            if self._usage is not None:
                self._registry.register(UsageCollector(self._usage))

    def _start_background_work(self) -> None:
        parts, control = self.parts, self.control
        gateway, tasks = parts.gateway, parts.tasks
        if self._learnt_limit is not None:
            self._learnt_limit.recall()
            tasks.start("learnt limit", self._learnt_limit.run())
        if self._keep_warm is not None:
            tasks.start("keep-warm", self._keep_warm.run())
        if self._usage is not None and self._usage.budgets is not None:
            tasks.start("budgets", self._usage.budgets.run())
        tasks.start("loop_lag", watch_loop(gateway.gate.report_lag))
        tasks.start("supervisor", self.supervisor.run())
        tasks.start("overload_log", report_every(LOG_EVERY_S, OverloadLog(gateway.gate).report))
        tasks.start("objectives_log", report_every(LOG_EVERY_S, ObjectivesLog(gateway.gate).report))
        tasks.start("window_log", report_every(LOG_EVERY_S, WindowLog(gateway.gate).report))
        tasks.start("fallback_controller", control.fallback_controller.run())
        tasks.start("diagnostics", control.diagnostics.run())
        tasks.start("scale_signal", control.scale_signal.run())
        MemoryMaintenance(
            gateway,
            parts.activity,
            parts.memory,
            control.engine_recycle,
            collects=self._owns_process,
            probe=MemoryProbe(gpus=self._reads_gpus),
        ).start(tasks)
        self._say_what_has_no_effect()

    def _say_what_has_no_effect(self) -> None:
        control, preset = self.control, self.control.preset
        for warning in control.warnings(preset):
            log.warning("preset %s: %s", preset.name, warning)
        warned = control.no_effect(preset, stated_only=True)
        for missing, line in control.no_effect(preset).items():
            if missing not in warned:
                log.info("preset %s: %s", preset.name, line)


def _lacks(
    source: Source | None, replacer: Replacer | None, other_model: OtherModel | None, *, owns_process: bool
) -> frozenset[Ability]:
    """The abilities that parts of a preset may need and that are missing, whatever the engine."""
    there = {
        Ability.HTTP: owns_process,
        Ability.PROCESS: owns_process,
        Ability.REPLACER: replacer is not None,
        Ability.OTHER_MODEL: other_model is not None,
        Ability.WARMUP: source is not None,
        Ability.STAGES: not isinstance(source, OneRequest),
    }
    return frozenset(ability for ability, found in there.items() if not found)
