"""The supervisor of the engine: health checks, restarts, and suspension of dispatch to an unresponsive engine.

A few times a second it checks the engine. A dead engine is replaced inside the running server, under the terms of the
preset's ``[recovery]``; meanwhile the gate keeps waiting requests, and takes back those that had sent no output. An
unresponsive engine receives no requests until it responds. An engine whose grammars keep others waiting is replaced. An
engine that steps and serves nothing is named, and not replaced. After the last attempt all requests are answered, and
the server ends with an error.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Protocol

from headway.admission import Gateway
from headway.background_tasks import TURN_S, next_turn_s
from headway.engine import EngineLife
from headway.errors import NoEngineError
from headway.supervision.spare_engine import SpareStarter
from headway_policies import (
    Block,
    CapReason,
    Cause,
    Progress,
    Recovery,
    Restart,
    RestartPolicy,
    Watchdog,
    compilations_stuck,
    slow_compilation_s,
)
from headway_policies.engine import STUCK_WORDS, StuckCause, StuckWatch
from headway_policies.preset import Ability

log = logging.getLogger(__name__)

POLL_S = TURN_S
_PING_AFTER_RATIO = 0.2  # of hang_after_s, which the last answer began
_PING_EVERY_S = 5.0  # also during steps: a paused engine may still finish what it runs


class Replacer(Protocol):
    """A starter of another engine in the place of a dead one; a ``SpareStarter``, too, can start it beforehand."""

    def cause(self) -> Cause:
        """The known cause of the engine's death."""
        ...

    def kill(self) -> None:
        """End the engine at once, also while it starts."""
        ...

    async def start(self) -> None:
        """Start another engine behind the same client. Raises what keeps the engine from starting."""
        ...


class Supervisor:
    """The supervisor of one engine, while ``run`` runs. ``probe`` runs a request through a new engine before any other.

    ``trying`` says which step of a restart is under way; empty when none is. ``compiling_s`` is the age of the grammar
    that the engine has been compiling for longest, 0 where it compiles none. ``stuck`` is why it steps and serves
    nothing, for ``stuck_s``; None where it serves.
    """

    def __init__(
        self, gateway: Gateway, replacer: Replacer | None = None, probe: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self.restarts = RestartPolicy()
        self.deaths: Counter[Cause] = Counter()
        self.hangs = 0
        self.trying = ""
        self.compiling_s = self.stuck_s = 0.0
        self.stuck: StuckCause | None = None
        self._gateway = gateway
        self._replacer = replacer
        self._probe = probe
        self._next: Restart | None = None
        self._why: Cause | None = None
        self._ping: asyncio.Task[None] | None = None
        self._asked_s = 0.0
        self._slow = False
        self._woken = asyncio.Event()
        self._settled = asyncio.Event()

    @property
    def config(self) -> Recovery:
        """The preset's terms of recovery."""
        return self._gateway.gate.desk.preset.recovery

    @property
    def most_tries(self) -> int:
        """The most attempts in a row; 0 where this server cannot replace its engine."""
        return self.config.max_restarts if self._replacer is not None else 0

    @property
    def slow_compilation_s(self) -> float:
        """The age of a grammar whose compilation in the engine takes too long; 0 without one."""
        return slow_compilation_s(self.compiling_s, self.config)

    @property
    def spare(self) -> SpareStarter | None:
        """The starter of an engine beside the running one, where this server has it."""
        return self._replacer if isinstance(self._replacer, SpareStarter) else None

    def handle_death(self) -> None:
        """Decide what follows the engine's death, and what becomes of its running requests."""
        assert self._replacer is not None
        cause = self._why or self._replacer.cause()
        self._why = None
        self._next = self._died(cause)
        self._woken.set()
        self._settled.clear()
        if self._next is None:
            self._gateway.link.give_up()
        else:
            self._gateway.link.engine_restarting(admitting=self._next.admitting)

    async def run(self) -> None:
        """Check the engine, round by round, for as long as the server runs."""
        self._attach()
        try:
            while not (self._gateway.link.closing or self._gateway.link.engine_lost):
                try:
                    await self._round()
                except Exception:  # an error here must not leave the engine without supervision
                    log.exception("supervisor: iteration failed")
                await self._sleep()
        finally:
            if self._ping is not None:
                self._ping.cancel()
            self._end_spare()

    async def recycle(self) -> None:
        """Put another engine in the place of a living one, which the caller has drained.

        Raises NoEngineError when the engine has died meanwhile: then it is being replaced for that.
        """
        if self._replacer is None:
            raise RuntimeError("this server cannot replace its engine")
        if self._gateway.link.engine_gone:
            raise NoEngineError("the engine died before it could be replaced")
        self._kill(Cause.RECYCLE)
        await self._settled.wait()

    # ------------------------------------------------------------------ inside

    def _attach(self) -> None:
        """Handle the engine's death from now on. Before, during the first warm-up, a death ends the server."""
        self._asked_s = self._gateway.gate.now_s()
        self._watch_anew(self._asked_s)
        if self._replacer is not None:
            self._gateway.link.death_handler = self

    def _watch_anew(self, now_s: float) -> None:
        """An engine of which nothing is known. Instances of others judge themselves."""
        link = self._gateway.link
        link.watchdog = Watchdog(now_s)
        link.stuck_watch = None if Ability.WATCH in link.adapter.lacks(link.engine) else StuckWatch()

    async def _sleep(self) -> None:
        turn = asyncio.get_running_loop().call_at(next_turn_s(POLL_S), self._woken.set)
        try:
            await self._woken.wait()
        finally:
            turn.cancel()
        self._woken.clear()

    async def _round(self) -> None:
        self._gateway.link.check_engine()
        if self._gateway.link.engine_gone:
            self.stuck, self.stuck_s = None, 0.0
            await self._replace()
        else:
            self._watch()
            self._watch_service()
        if self.restarts.update(self._gateway.gate.now_s(), self.config):
            log.info(
                "the engine has been healthy for %g s: restart count reset, all seats open", self.config.healthy_after_s
            )
            self._gateway.gate.cap_seats(CapReason.RECOVERY, 1.0)

    # ------------------------------------------------------------------ a dead engine

    def _died(self, cause: Cause) -> Restart | None:
        self.deaths[cause] += 1
        verdict = self.restarts.died(cause, self._gateway.gate.now_s(), self.config)
        if verdict is None:
            log.error(
                "the engine died (%s) and is not replaced after %d restart attempts: all requests are refused from "
                "now on",
                cause, self.restarts.deaths_in_a_row - 1,
            )  # fmt: skip
        elif cause is not Cause.RECYCLE:
            log.error(
                "the engine died (%s): restart attempt %d of %d in %g s, with %d %% of the seats", cause,
                self.restarts.deaths_in_a_row, self.config.max_restarts, verdict.after_s, 100 * verdict.seats_ratio,
            )  # fmt: skip
        return verdict

    async def _replace(self) -> None:
        """Try until another engine is up, or no attempt is left."""
        try:
            await self._restart_until_up()
        finally:
            self._end_spare()
            self._settled.set()

    async def _restart_until_up(self) -> None:
        gateway = self._gateway
        while self._next is not None and self._replacer is not None and not gateway.link.closing:
            verdict, self._next = self._next, None
            try:
                await self._try(verdict, self._replacer)
            except Exception as error:
                if gateway.link.closing:
                    return
                log.error("the new engine did not start: %s", f"{type(error).__name__}: {error}".splitlines()[0][:200])
                self._next = self._died(self._replacer.cause())
                if self._next is not None and not self._next.admitting:
                    gateway.link.engine_restarting(admitting=False)
            else:
                return
            finally:
                self.trying = ""
        if not gateway.link.closing:
            gateway.link.give_up()

    async def _try(self, verdict: Restart, replacer: Replacer) -> None:
        gateway = self._gateway
        if verdict.after_s:
            self.trying = f"pausing for {verdict.after_s:g} s"
            await asyncio.sleep(verdict.after_s)
        gateway.gate.cap_seats(CapReason.RECOVERY, verdict.seats_ratio)
        self.trying = "starting another engine"
        began_s = gateway.gate.now_s()
        await self._unless_closing(self._start(replacer), replacer)
        now_s = gateway.gate.now_s()
        self.restarts.back(now_s)
        self._watch_anew(now_s)
        log.info("the new engine is ready after %.1f s: dispatch resumed", now_s - began_s)
        if suspects := gateway.gate.desk.read(gateway.gate.now_s()).suspects:
            log.info("requests that were running at the death are retried first, one at a time: %d", suspects)
        gateway.link.engine_back()

    async def _start(self, replacer: Replacer) -> None:
        await replacer.start()
        if self._probe is not None:
            self.trying = "warming it up"
            await self._probe()

    async def _unless_closing(self, work: Coroutine[Any, Any, None], replacer: Replacer) -> None:
        """Start an engine; end it when the server is closed meanwhile."""
        start = asyncio.ensure_future(work)
        start.add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )  # its error is not needed when the server closes
        try:
            while not start.done():
                await asyncio.wait({start}, timeout=POLL_S)
                if self._gateway.link.closing:
                    self._end_all(replacer)
            if self._gateway.link.closing:
                raise NoEngineError("the server is closing")
            await start
        except asyncio.CancelledError:
            self._end_all(replacer)
            start.cancel()
            raise

    def _end_all(self, replacer: Replacer) -> None:
        replacer.kill()
        self._end_spare()

    def _end_spare(self) -> None:
        """End an unused spare."""
        if (spare := self.spare) is not None:
            spare.end_spare()

    # ------------------------------------------------------------------ a silent engine

    def _watch(self) -> None:
        """Ping an engine that has reported nothing for a while; suspend dispatch when it does not answer."""
        gateway, watchdog = self._gateway, self._gateway.link.watchdog
        assert watchdog is not None
        now_s = gateway.gate.now_s()
        reports = gateway.link.adapter.progress(gateway.link.engine)
        watchdog.reported(reports, now_s)
        after_s = _PING_AFTER_RATIO * self.config.hang_after_s
        quiet = watchdog.silent_s(now_s) > after_s or now_s > self._asked_s + _PING_EVERY_S
        if quiet and (self._ping is None or self._ping.done()):
            self._asked_s = now_s
            self._ping = asyncio.create_task(self._ask(watchdog), name="headway ping")
        if gateway.link.limit_pending and watchdog.silent_s(now_s) <= POLL_S:
            gateway.link.resend_limit()
        self._log_slow_step(watchdog.slow(now_s, self.config))
        if not watchdog.hung(now_s, self.config):
            if gateway.link.life is EngineLife.SILENT:
                log.warning("the engine responds again: dispatch resumed")
                gateway.link.engine_responds()
        elif gateway.link.life is EngineLife.STARTING:
            silent_s, most_s = watchdog.silent_s(now_s), gateway.gate.desk.preset.warmup.timeout_s
            if self.config.restart_hung and self._replacer is not None and silent_s > most_s:
                self.hangs += 1
                log.error("engine unresponsive for %g s before it was ready", silent_s)
                self._kill(Cause.HANG)
                return
        elif gateway.link.life is EngineLife.UP:
            self.hangs += 1
            log.error("engine unresponsive for %g s: dispatch suspended", self.config.hang_after_s)
            gateway.link.engine_silent()
            if self.config.restart_hung and self._replacer is not None:
                self._kill(Cause.HANG)
                return
        self._watch_compilations(reports)

    def _watch_compilations(self, reports: Sequence[Progress]) -> None:
        """Name a grammar that compiles for too long; replace the engine where it keeps others waiting."""
        named = self.slow_compilation_s > 0
        self.compiling_s = max((report.compiling_s for report in reports), default=0.0)
        if self.slow_compilation_s and not named:
            log.warning(
                "the engine has been compiling a grammar for %.0f s: other structured outputs may wait for it",
                self.compiling_s,
            )
        if self._replacer is not None and self.most_tries and compilations_stuck(reports, self.config):
            self.hangs += 1
            log.error("grammars wait in the engine for a grammar that has been compiling for %.0f s", self.compiling_s)
            self._kill(Cause.HANG)

    def _watch_service(self) -> None:
        """Name an engine that steps without output for any request, unless the engine is silent or paused."""
        link, now_s, before = self._gateway.link, self._gateway.gate.now_s(), self.stuck
        self.stuck, self.stuck_s = None, 0.0
        paused = {Block.ENGINE_PAUSED, Block.ENGINE_ASLEEP} & self._gateway.gate.desk.mode.blocks
        if link.stuck_watch is None or link.life is not EngineLife.UP or paused:
            return
        self.stuck_s = link.stuck_watch.stuck_s(now_s, self.config)
        if self.stuck_s:
            self.stuck = link.stuck_watch.cause(compiling=self.compiling_s > 0)
        if self.stuck is not None and self.stuck is not before:
            log.error("%s, for %.0f s", STUCK_WORDS[self.stuck], self.stuck_s)
        elif self.stuck is None and before is not None:
            log.warning("the engine serves again")

    def _log_slow_step(self, slow: bool) -> None:
        if slow and not self._slow:
            log.warning(
                "slow engine step: no output for %g s, but the engine reports progress, so this is no hang",
                self.config.hang_after_s,
            )
        self._slow = slow

    async def _ask(self, watchdog: Watchdog) -> None:
        """Ping the engine. An engine process that was stopped answers the pending ping when it goes on."""
        try:
            answered = await self._gateway.link.ask_engine()
        except Exception:  # it died: the next round will see it
            return
        if answered or not self._gateway.open_calls:  # an engine that cannot be pinged is watched while it works
            watchdog.heard(self._gateway.gate.now_s())

    def _kill(self, why: Cause) -> None:
        assert self._replacer is not None
        self._why = why
        self.compiling_s = 0.0
        try:
            self._replacer.kill()
        except Exception as error:  # a program's engine may fail to shut down: it is replaced all the same
            log.warning("the engine could not be shut down: %s", type(error).__name__)
        self._gateway.link.engine_died()
