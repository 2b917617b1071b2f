"""How is the warm-up carried out?

The policies' plan says what runs. The first attempt is made while the socket is not yet listening. One that fails does
not end the server: it listens, is not ready and says why, and tries again in the background until it succeeds. The
requests bypass the gate, appear in no metric of Headway's, and are cleared from the prefix cache.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Protocol

from headway.errors import HeadwayError
from headway.operator import Control
from headway.supervision import WarmupReport
from headway.vllm_adapter.internal_requests import run_internal
from headway.vllm_adapter.warmup_requests import WarmupRequests
from headway_policies import Reason
from headway_policies.engine import Stage, Warmup, WarmupPlan, retry_after_s

log = logging.getLogger(__name__)

TASK = "warm-up"
_AGAIN = "again, after "
_MOST_CAUSE_CHARS = 200
_RESETS = 3
_RESET_AGAIN_S = 0.05


class Source(Protocol):
    """Where the requests of a warm-up come from; for vLLM it is ``WarmupRequests``."""

    def ask(self, stage: Stage, config: Warmup, index: int, request_id: str) -> AsyncGenerator[Any, None]:
        """Start one request of this stage; ``index`` is its place among those that run at once."""
        ...

    def short_request(self, request_id: str) -> AsyncGenerator[Any, None]:
        """Start one short request under this id."""
        ...

    def refused(self, error: Exception) -> bool:
        """Whether a healthy engine said that it cannot do this."""
        ...


async def warm_up(engine: Any, control: Control, source: Source | None = None) -> None:
    """Run the preset's plan once. Where that fails, say so, and try again in the background until it succeeds."""
    warmer = _Warmer(engine, control, source or WarmupRequests(engine))
    control.tasks.stop(TASK)
    control.warmup = WarmupReport()
    if await warmer.attempt():
        control.gateway.gate.warmed_up()
    else:
        control.gateway.gate.engine_lost(Reason.NOT_READY)
        control.tasks.start(TASK, warmer.again())


async def rewarm(engine: Any, control: Control, source: Source | None = None) -> None:
    """The same for an engine that was replaced, once; one short request where the first one was not warmed up either.

    Raises HeadwayError, or what the engine raises, where that fails.
    """
    warmer = _Warmer(engine, control, source or WarmupRequests(engine))
    control.tasks.stop(TASK)
    if control.warmup.state == "skipped":
        await warmer.probe()
        return
    control.warmup = WarmupReport()
    if not await warmer.attempt():
        raise HeadwayError(f"its warm-up failed: {control.warmup.reason}")


@dataclass(frozen=True, slots=True)
class _Warmer:
    """Warms one engine up."""

    engine: Any
    control: Control
    source: Source

    async def probe(self) -> None:
        """One short request. An engine that says it cannot do this answers all the same."""
        try:
            async with asyncio.timeout(self.control.preset.warmup.timeout_s):
                await run_internal(self.control, "probe", self.source.short_request)
        except Exception as error:
            if not self.source.refused(error):
                raise

    async def again(self) -> None:
        """Try until it succeeds, with pauses that grow."""
        warm = False
        while not (warm or self.control.gateway.closing):
            await asyncio.sleep(retry_after_s(self.control.warmup.attempt))
            warm = await self.attempt()
        if warm:
            self.control.gateway.engine_back()

    async def attempt(self) -> bool:
        """Run the plan once, under its cap, and write down how it went; whether it succeeded."""
        report, plan = self._begin(), WarmupPlan(self.control.preset.warmup)
        try:
            async with asyncio.timeout(plan.config.timeout_s) as cap:
                while plan.stage is not None:
                    await self._run(plan, plan.stage, report)
                await self._forget()
        except Exception as error:
            cause = f"no end within {plan.config.timeout_s:g} s" if cap.expired() else _cause(error)
            report.state, report.reason = "failed", f"{plan.stage or 'prefix cache'}: {cause}"
            pause_s = retry_after_s(report.attempt)
            log.error("warm-up failed: %s; not ready, to be tried again in %.0f s", report.reason, pause_s)
            return False
        except BaseException:
            report.state, report.reason = "failed", "interrupted"
            raise
        _conclude(report, plan)
        return True

    def _begin(self) -> WarmupReport:
        """A new report, which still says why the last attempt failed."""
        before, seats = self.control.warmup, self.control.gateway.gate.desk.limit
        why = before.reason.removeprefix(_AGAIN)
        self.control.warmup = WarmupReport("running", why and _AGAIN + why, seats, before.attempt + 1)
        return self.control.warmup

    async def _run(self, plan: WarmupPlan, stage: Stage, report: WarmupReport) -> None:
        """One round of a stage, and what came of it."""
        began_s = self.control.gateway.gate.now_s()
        try:
            await self._together(stage, report.batch_size or 1 if stage is Stage.BATCH else 1, plan.config)
        except Exception as error:
            if not self.source.refused(error):
                raise
            plan.refuse()
            report.refused.append(stage)
            log.warning("warm-up: left out %s, which the engine refuses: %s", stage, _cause(error))
        else:
            plan.ran(self.control.gateway.gate.now_s() - began_s)
            report.stages = {str(one): list(rounds_s) for one, rounds_s in plan.took_s.items()}

    async def _together(self, stage: Stage, size: int, config: Warmup) -> None:
        """So many requests at once. The first that fails takes the others with it."""
        try:
            async with asyncio.TaskGroup() as group:
                for index in range(size):
                    start = functools.partial(self.source.ask, stage, config, index)
                    group.create_task(run_internal(self.control, f"warm-up-{stage}", start))
        except ExceptionGroup as several:
            first = several.exceptions[0]
            raise first from first.__cause__

    async def _forget(self) -> None:
        """Clear the prefix cache, where the engine can. It may hold a last block for a moment longer."""
        reset = getattr(self.engine, "reset_prefix_cache", None)
        if reset is None:
            return
        for _ in range(_RESETS):
            if await reset():
                return
            await asyncio.sleep(_RESET_AGAIN_S)
        log.debug("warm-up: the prefix cache is in use and keeps the made-up prompts until they are pushed out")


def _conclude(report: WarmupReport, plan: WarmupPlan) -> None:
    """What came of a plan that was carried out."""
    report.settled, report.reason = plan.settled, ""
    if not report.stages:
        report.state, report.reason = "skipped", "the engine refuses every stage"
        return
    report.state = "done"
    stages = ", ".join(f"{stage} {' '.join(f'{one_s:.2f}' for one_s in took)}" for stage, took in report.stages.items())
    log.info("warm-up done, batches of %s; seconds: %s", report.batch_size, stages)
    if not plan.settled and plan.config.max_rounds > 1 and Stage.BATCH not in plan.refused:
        log.warning(
            "the last two batches of the warm-up differ by more than %.0f %%", 100 * plan.config.tolerance_ratio
        )


def _cause(error: Exception) -> str:
    """One short line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:_MOST_CAUSE_CHARS] if text else type(error).__name__
