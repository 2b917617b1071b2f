"""The warm-up of an engine: requests that run before any other, and their retries.

The policies' plan says what runs. The first attempt is made while the socket is not yet listening. A failed attempt
does not end the server: it listens, is not ready and reports why, and retries in the background until it succeeds. The
requests bypass the gate, appear in no metric of Headway's, and are cleared from the prefix cache.
"""

from __future__ import annotations

import asyncio
import functools
import logging

from headway.errors import HeadwayError
from headway.operator import EngineParts
from headway.supervision import WarmupReport
from headway.warmup.internal_requests import run_internal
from headway.warmup.sources import Source, StageNotSupportedError
from headway_policies.engine import Stage, Warmup, WarmupPlan, retry_after_s

log = logging.getLogger(__name__)

TASK = "warm-up"
_MAX_CAUSE_CHARS = 200
_RESETS = 3
_RESET_RETRY_S = 0.05


class Warmer:
    """The warmer of one engine, by the plan of the preset in force; ``warmup`` has the report."""

    def __init__(self, parts: EngineParts, source: Source) -> None:
        self._gateway, self._tasks = parts.gateway, parts.tasks
        self._warmup, self._activity = parts.warmup, parts.activity
        self._source = source

    async def warm_up(self) -> None:
        """Run the plan once. A failure is logged, and the plan retried in the background until it succeeds."""
        self._tasks.stop(TASK)
        self._warmup.reset()
        if await self._attempt():
            self._gateway.gate.warmed_up()
        else:
            self._gateway.link.engine_not_ready()
            self._tasks.start(TASK, self._retry())

    async def rewarm(self) -> None:
        """Warm up an engine that has replaced another, once; with a short request where this server runs no warm-up.

        Raises HeadwayError, or what the engine raises, where that fails.
        """
        self._tasks.stop(TASK)
        if self._warmup.skip or self._warmup.report.state == "skipped":
            await self._probe()
            return
        self._warmup.reset()
        if not await self._attempt():
            raise HeadwayError(f"its warm-up failed: {self._warmup.report.reason}")

    async def warm_beside_traffic(self, batch_size: int) -> str:
        """Run the plan once on an engine that serves; returns why it failed, empty where it did not.

        The server stays ready meanwhile, and after a failure; only a success is reported. The prefix cache is not
        cleared: it holds the prompts of the requests.
        """
        before, report = self._warmup.report, WarmupReport("running", batch_size=batch_size)
        plan = WarmupPlan(self._gateway.gate.desk.preset.warmup)
        if failed := await self._failure(plan, report):
            log.warning("the warm-up by command failed: %s; the server goes on", failed)
            return failed
        _conclude(report, plan)
        self._warmup.replace(before, report)
        return ""

    # ------------------------------------------------------------------ inside

    async def _probe(self) -> None:
        """Run one short request. An engine that refuses the request answers all the same."""
        try:
            async with asyncio.timeout(self._gateway.gate.desk.preset.warmup.timeout_s):
                await run_internal(self._gateway, self._tasks, "probe", self._source.short_request)
        except Exception as error:
            if not self._source.refused(error):
                raise

    async def _retry(self) -> None:
        """Try until the warm-up succeeds, with pauses that grow."""
        warm = False
        while not (warm or self._gateway.link.closing):
            await asyncio.sleep(retry_after_s(self._warmup.report.attempt))
            warm = await self._attempt()
        if warm:
            self._gateway.link.engine_back()

    async def _attempt(self) -> bool:
        """Run the plan once, under its cap, and report the result; returns whether it succeeded."""
        desk = self._gateway.gate.desk
        report, plan = self._warmup.begin(desk.limit), WarmupPlan(desk.preset.warmup)
        try:
            failed = await self._failure(plan, report, forget=True)
        except BaseException:
            report.state, report.reason = "failed", "interrupted"
            raise
        if failed:
            report.state, report.reason = "failed", failed
            pause_s = retry_after_s(report.attempt)
            log.error("warm-up failed: %s; not ready, retrying in %.0f s", failed, pause_s)
            return False
        _conclude(report, plan)
        return True

    async def _failure(self, plan: WarmupPlan, report: WarmupReport, *, forget: bool = False) -> str:
        """Run all stages of a plan under its cap; returns the failed stage and the reason, empty after success."""
        try:
            async with asyncio.timeout(plan.config.timeout_s) as cap:
                while plan.stage is not None:
                    with self._activity.internal_requests(measured=plan.stage is Stage.ALONE):
                        await self._run(plan, plan.stage, report)
                if forget:
                    await self._forget()
        except Exception as error:
            cause = f"no end within {plan.config.timeout_s:g} s" if cap.expired() else _cause(error)
            return f"{plan.stage or 'prefix cache'}: {cause}"
        return ""

    async def _run(self, plan: WarmupPlan, stage: Stage, report: WarmupReport) -> None:
        """Run one round of a stage, and report its result."""
        began_s = self._gateway.gate.now_s()
        try:
            first_s = await self._together(stage, report.batch_size or 1 if stage is Stage.BATCH else 1, plan.config)
        except Exception as error:
            if not self._source.refused(error):
                raise
            plan.refuse()
            report.refused.append(stage)
            if isinstance(error, StageNotSupportedError):
                log.info("warm-up: left out %s", error)
            else:
                log.warning("warm-up: skipped %s, which the engine refuses: %s", stage, _cause(error))
        else:
            plan.ran(self._gateway.gate.now_s() - began_s)
            if first_s is not None:
                report.first_token_s[stage] = first_s
            report.stages = {str(stage): list(rounds_s) for stage, rounds_s in plan.took_s.items()}

    async def _together(self, stage: Stage, size: int, config: Warmup) -> float | None:
        """Run so many requests at once; returns the seconds to the first output of any request.

        The first that fails cancels the others.
        """
        running = list[asyncio.Task[float | None]]()
        try:
            async with asyncio.TaskGroup() as group:
                for index in range(size):
                    start = functools.partial(self._source.ask, stage, config, index)
                    ask = run_internal(self._gateway, self._tasks, f"warm-up-{stage}", start)
                    running.append(group.create_task(ask))
        except ExceptionGroup as several:
            first = several.exceptions[0]
            raise first from first.__cause__
        return running[0].result()

    async def _forget(self) -> None:
        """Clear the prefix cache, where the engine can. The cache may hold a last block for a moment longer."""
        reset = getattr(self._gateway.link.engine, "reset_prefix_cache", None)
        if reset is None:
            return
        for _ in range(_RESETS):
            if await reset():
                return
            await asyncio.sleep(_RESET_RETRY_S)
        log.debug("warm-up: the prefix cache is in use and keeps the made-up prompts until they are evicted")


def _conclude(report: WarmupReport, plan: WarmupPlan) -> None:
    """Report the result of a plan that was carried out."""
    report.settled, report.reason = plan.settled, ""
    if not report.stages:
        report.state, report.reason = "skipped", "the engine refuses every stage"
        return
    report.state = "done"
    stages = ", ".join(f"{stage} {' '.join(f'{one_s:.2f}' for one_s in took)}" for stage, took in report.stages.items())
    log.info("warm-up done, batch size %s; seconds by stage and round: %s", report.batch_size, stages)
    if (ratio := report.first_token_ratio) is not None:
        log.info("warm-up: the first token of a request alone took %.1f times as long before it as after", ratio)
    if not plan.settled and plan.config.max_rounds > 1 and Stage.BATCH not in plan.refused:
        log.warning(
            "warm-up: the last two batches differ by more than %.0f %%, so the first requests may still be slower",
            100 * plan.config.tolerance_ratio,
        )


def _cause(error: Exception) -> str:
    """The kind of an error and its text, in one short line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:_MAX_CAUSE_CHARS] if text else type(error).__name__
