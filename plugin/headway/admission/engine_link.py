"""The link to one engine: its death and return, its own limit, its pause, and the closing of the server.

Ownership: the link alone says whether there is an engine (``life``), and tells the desk. Reading a property never acts;
a death is reported by ``check_engine`` (the supervisor's round, a call that failed, each new request where nothing
replaces the engine) or ``engine_died``, from any thread. A death is handled once, on the gate's loop: one that was
reported before there was a loop, by the next report or by the first request.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from headway.admission.engine_calls import Call, Calls
from headway.admission.engine_pause import EnginePause
from headway.admission.gate import Gate
from headway.admission.gate_loop import GateLoop
from headway.engine import FOLLOWS, GONE, Confirmation, Engine, EngineAdapter, EngineLife, PendingQueries
from headway_policies import Block, Reason, Watchdog
from headway_policies.engine import StuckWatch
from headway_policies.step import StepTerms

log = logging.getLogger(__name__)

_POLL_S = 0.1
_MAX_LOGGED = 20
_ANSWER_WITHIN_S = 5.0  # an engine that is unresponsive gets it when it goes on

T = TypeVar("T")


class DeathHandler(Protocol):
    """A part that can replace a dead engine."""

    def handle_death(self) -> None:
        """Report to the link whether another engine follows the dead one. Called on the gate's loop, once a death."""
        ...


@dataclass(slots=True)
class EngineLink:
    """The state of an engine, apart from its calls. ``closing`` says that its server ends.

    ``limit_pending`` says that the engine did not answer when its limit was sent; ``limit_confirmed`` is false then and
    after an error, until the engine confirms a limit or has none of its own. ``reported`` is the number of sequences in
    the engine by its last report, None before the first. ``on_begin`` is called once, on the gate's loop, by the first
    request; ``on_closed`` when the engine has been shut down.
    """

    gate: Gate
    adapter: EngineAdapter
    engine: Engine
    core_limit: int | None = None
    life: EngineLife = EngineLife.UP
    closing: bool = False
    limit_pending: bool = False
    limit_confirmed: bool = True
    reported: int | None = None
    death_handler: DeathHandler | None = None
    watchdog: Watchdog | None = None
    stuck_watch: StuckWatch | None = None
    on_begin: Callable[[], None] | None = None
    on_closed: Callable[[], None] | None = None
    calls: Calls = field(default_factory=Calls)
    queries: PendingQueries = field(default_factory=PendingQueries)
    pause: EnginePause = field(init=False)
    loop: GateLoop = field(init=False)
    _engine_dead: Callable[[], bool] = field(init=False)
    _abort_failed: bool = False
    _shaped: bool = False
    _confirmation: Confirmation = field(init=False)

    def __post_init__(self) -> None:
        self.pause = EnginePause(self.gate)
        self.loop = GateLoop(self._task_failed)
        self._engine_dead = _own_errored(self.engine)
        self._confirmation = Confirmation(self._ask_in_turn)

    def begin(self) -> None:
        """Take the running event loop as the gate's, before the first request. Only the first call acts."""
        if self.loop.own is not None:
            return
        self.loop.own = asyncio.get_running_loop()
        if self.engine_gone:
            self._settle_death()
        elif self.core_limit is None:
            self.resend_limit()
        if self.on_begin is not None:
            self.on_begin()
        if self.closing:
            self.gate.drain()

    # ------------------------------------------------------------------ death and return

    @property
    def engine_gone(self) -> bool:
        """Whether an engine has died, or was stopped, and there is no other one yet."""
        return self.life in GONE

    @property
    def engine_lost(self) -> bool:
        """Whether the engine is gone, and no other one will come."""
        return self.life is EngineLife.LOST

    @property
    def errored(self) -> bool:
        """Whether the engine is dead and no other one will follow. Any thread may read it."""
        return self._engine_dead() and (self.death_handler is None or self.engine_lost or self.closing)

    @property
    def restarting(self) -> bool:
        """Whether the engine is dead and another one is coming."""
        return self.life in (EngineLife.DEAD, EngineLife.RESTARTING) and not self.closing

    def check_engine(self) -> None:
        """Report the engine's death, if it is dead. From any thread."""
        if self._engine_dead():
            self.engine_died()

    def engine_died(self) -> None:
        """The engine is dead: have its death handled, once. While the server closes, it is an ordinary stop.

        May be called from any thread.
        """
        if self._becomes(EngineLife.DEAD) or self.life is EngineLife.DEAD:
            self.loop.call(self._settle_death)

    def engine_not_ready(self) -> None:
        """The warm-up of the engine has failed: requests are refused until it has succeeded."""
        if self._becomes(EngineLife.STARTING):
            self.gate.engine_lost(Reason.NOT_READY)

    def engine_silent(self) -> None:
        """The engine does not answer: dispatch is suspended until it does. Time-outs still apply."""
        if self._becomes(EngineLife.SILENT):
            self.gate.engine_silent()

    def engine_responds(self) -> None:
        """A silent engine answers again."""
        if self.life is EngineLife.SILENT:
            self.life = EngineLife.UP
            self.gate.engine_back()

    def engine_back(self) -> None:
        """There is an engine again, and it may be lost again. Call it on the gate's loop."""
        if self._becomes(EngineLife.UP):
            self.gate.engine_back()
            self.resend_limit()

    def engine_restarting(self, *, admitting: bool = True) -> None:
        """Another engine is coming: requests without output are queued for it, or, where it is not ``admitting``, all
        are refused until it is there. Call it on the gate's loop.
        """
        self._becomes(EngineLife.RESTARTING)
        if admitting:
            self.gate.engine_restarting(lambda permit: not any(call.shown for call in self.calls.of(permit)))
        else:
            self.gate.engine_lost(Reason.OUT_OF_MEMORY)

    def give_up(self) -> None:
        """There will be no other engine: refuse all requests. Call it on the gate's loop."""
        if self._becomes(EngineLife.LOST):
            self.gate.engine_lost()

    # ------------------------------------------------------------------ queries

    async def ask_engine(self, within_s: float | None = None) -> bool:
        """Ping the engine, and ask whether it is paused; False where it cannot be asked.

        Raises NoEngineError when it dies first, TimeoutError, and what the engine raises.
        """
        changes = self.pause.changes
        answer = await self.queries.ask(self.adapter.ping(self.engine), within_s)
        self.pause.said(frozenset() if answer is None else answer.blocks, changes)
        return answer is not None

    async def change_pause(self, work: Awaitable[T], block: Block | None = None) -> T:
        """Have the engine paused (towards a ``hold``) or resumed, then ask it how that ended."""
        return await self.pause.change(work, block, self._update_pause)

    async def refused_by_pause(self, error: Exception, tries: int) -> bool:
        """Whether the engine raised this error because it is paused; where it runs again, once for ``tries`` of 0.

        A pause that was not known is known then: another program has paused the engine.
        """
        if self.closing or self.engine_gone or not self.adapter.takes_later(error):
            return False
        if not self.pause.known:
            await self._update_pause()
        return self.pause.known or not tries

    async def caught_up(self) -> None:
        """Wait until the engine has processed all that it was sent so far, or cannot any more."""
        await self._confirmation.wait()

    async def limit_engine(self) -> None:
        """Set the engine's own limit. Without it the gate alone keeps the limit.

        An adaptive limit moves too often for that: the engine gets the most the policy may allow, the gate keeps it.
        """
        seats = self._most_seats()
        self.limit_pending = self.limit_confirmed = False
        try:
            self.core_limit = await self.queries.ask(self.adapter.limit_engine(self.engine, seats), _ANSWER_WITHIN_S)
        except Exception as error:  # an engine without an answer must not undo a switch that is already in force
            self.core_limit = None
            self.limit_pending = isinstance(error, TimeoutError)
            log.warning(
                "the engine has not confirmed its own limit of %d seats (%s): the gate alone keeps it%s", seats, error,
                " until the engine responds" if self.limit_pending else "",
            )  # fmt: skip
        else:
            self.limit_confirmed = True
        await self._shape_steps()

    async def _shape_steps(self) -> None:
        """Put the preset's step policy in force in the engine, and an earlier one out of force."""
        preset = self.gate.desk.preset
        terms = StepTerms.of(
            preset.step, {place: preset.classes[name] for place, name in enumerate(preset.by_urgency())}
        )
        if terms is None and not self._shaped:
            return
        self._shaped = terms is not None
        try:
            await self.queries.ask(self.adapter.shape_steps(self.engine, terms), _ANSWER_WITHIN_S)
        except Exception as error:  # as above
            log.warning("the engine has not confirmed its step policy: %s", error)

    def resend_limit(self) -> None:
        """Set the engine's own limit, without waiting for it. Call it on the gate's loop."""
        self.loop.run_apart(self.limit_engine())

    # ------------------------------------------------------------------ closing

    def close_from_any_thread(self, timeout_s: float | None) -> float | None:
        """Refuse new and waiting requests; from now on an end of the engine is an ordinary stop.

        Off the loop's thread, wait until the running requests have ended; returns what is left of the time for it.
        """
        self.closing = True
        if not self.loop.call(self.gate.drain) or not timeout_s:
            return timeout_s
        until_s = time.monotonic() + timeout_s
        if running := self.gate.desk.ledger.in_flight:
            log.info(
                "shutting down: requests that may still finish, within %.0f s: %d; all others are refused",
                timeout_s,
                running,
            )
        while self.gate.desk.ledger.in_flight and time.monotonic() < until_s:
            time.sleep(_POLL_S)
        return max(0.0, until_s - time.monotonic())

    def closed_from_any_thread(self) -> None:
        """The engine was stopped: refuse the requests it was still running, which would never end."""
        self.loop.call(self._closed)

    # ------------------------------------------------------------------ inside

    def _task_failed(self, error: BaseException) -> None:
        """Log a failed abort, once. A dead engine cannot be asked to abort, and has nothing to stop."""
        if not (self.engine_gone or self.closing or self._abort_failed):
            self._abort_failed = True  # it would fail for every request alike
            log.warning("the engine could not abort a request: %s", type(error).__name__)

    def _settle_death(self) -> None:
        """Handle the death that was reported, unless that is done."""
        if self.life is EngineLife.DEAD:
            (self._closed if self.closing else self._handle_death)()

    def _becomes(self, life: EngineLife) -> bool:
        """Whether the engine is in this state now; where that cannot be, nothing has changed."""
        if self.life not in FOLLOWS[life]:
            return False
        self.life = life
        return True

    def _handle_death(self) -> None:
        self._becomes(EngineLife.RESTARTING)
        self.reported = None
        self.queries.end()
        self.pause.forget()
        running = [(call, call.shown) for call in self.calls]
        if self.death_handler is None:
            self.give_up()
        else:
            self.death_handler.handle_death()
        _log_running(running)

    def _closed(self) -> None:
        """The engine was stopped, or died, while the server closed."""
        self._becomes(EngineLife.CLOSED)
        self.queries.end()
        self.gate.engine_lost(Reason.DRAINING)
        if self.on_closed is not None:
            self.on_closed()

    def _most_seats(self) -> int:
        """The most seats that can be allowed under the preset in force."""
        desk, limiting = self.gate.desk, self.gate.desk.preset.limit
        bypass_seats = desk.preset.bypass_seats()
        if limiting.shadow or not limiting.moves:
            return desk.limit + bypass_seats
        return limiting.max_seats or desk.ceiling or max(desk.limit, desk.preset.batching.seats)

    async def _update_pause(self) -> None:
        """Ask at once whether the engine is paused, or let it answer later. An engine that does not say counts as
        running.
        """
        try:
            await self.ask_engine(_ANSWER_WITHIN_S)
        except TimeoutError:
            self.loop.run_apart(self._ask_for_pause())
        except Exception as error:
            log.debug("whether the engine is paused is not known: %s", error)

    async def _ask_for_pause(self) -> None:
        with suppress(Exception):  # it died: another one is not paused
            await self.ask_engine()

    async def _ask_in_turn(self) -> None:
        """Wait until the engine has processed what it was sent. A dead one has nothing left to process."""
        if self.engine_gone:
            return
        with suppress(Exception):  # it died, or cannot be asked: then nothing confirms the abort
            await self.queries.ask(self.adapter.catch_up(self.engine))


def _own_errored(engine: Engine) -> Callable[[], bool]:
    """The engine's own ``errored``, also after the engine has become a policy client, which overrides the property."""
    own = getattr(type(engine), "errored", None)
    read = own.fget if isinstance(own, property) else None
    return (lambda: bool(engine.errored)) if read is None else (lambda: bool(read(engine)))


def _log_running(running: list[tuple[Call, bool]]) -> None:
    """Log the calls that a dead engine was running, and whether each had sent output: one of them may be the cause."""
    for call, shown in running[:_MAX_LOGGED]:
        ticket = call.permit.ticket
        log.warning(
            "running when the engine died: request %.80s (class %s, prompt tokens: %d, sequences: %d, %s)",
            call.id, ticket.class_name, ticket.prompt_tokens, call.seats,
            "had sent output" if shown else "had sent no output",
        )  # fmt: skip
    if len(running) > _MAX_LOGGED:
        log.warning("running when the engine died: %d more requests", len(running) - _MAX_LOGGED)
