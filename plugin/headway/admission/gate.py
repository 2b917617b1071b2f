"""The gate: the asyncio shell around the desk.

The gate owns the only clock (``loop.time``), the only timer and the futures on which requests wait. The gate carries
out the desk's effects and decides nothing. All methods must be called on the event loop's thread; none of them awaits.

Each effect is carried out by itself: an error in one of them, or in a meter, a traffic log or a call-back that receives
it, is logged and counted, and the others are carried out.
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, TypedDict, Unpack, assert_never

from headway.admission.account import Account
from headway.admission.listeners import Listeners, Meter, TrafficLog
from headway.admission.permit import Permit
from headway.distribution import Distribution
from headway.errors import UnknownClassError
from headway_policies import (
    Abort,
    Block,
    CapReason,
    Degrade,
    Desk,
    Dispatch,
    Effect,
    Ending,
    EngineState,
    Expire,
    Load,
    Preset,
    Reason,
    Recall,
    Reject,
    Requeue,
    Ticket,
    Timeouts,
    WakeAt,
)
from headway_policies.close_name import no_such
from headway_policies.desk import dump
from headway_policies.fallback import Degradation, Rung
from headway_policies.limits import Learnt
from headway_policies.request import LEFT, NO_TIMEOUTS, REFUSED

_LOGGER = logging.getLogger(__name__)

#: With a timer so late the whole process has stood still: it was stopped, paged out, or its loop was blocked.
_STOOD_STILL_S = 0.25
#: Upper bounds of the histogram of the loop's lag, in seconds.
LAG_BUCKETS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

#: A tick belongs to no request: in another context its log lines would name the request whose event set the timer.
_OF_NO_REQUEST = contextvars.Context()


class TicketOptions(TypedDict, total=False):
    """The options of a request besides its class and its time-outs; ``Ticket`` has the meaning of each."""

    tenant: str
    share: float
    seats: int
    prompt_tokens: int
    prompt_bytes: int
    max_tokens: int | None
    may_wait: bool
    prefix: tuple[int, ...]
    adapter: str | None


def loop_time_s() -> float:
    """The event loop's clock, in seconds."""
    return asyncio.get_running_loop().time()


class Gate:
    """Admission for one engine, on one event loop.

    ``degraded`` counts the degraded requests, by class and kind; ``lowered`` those that asked for a class above their
    rights, by that class; ``effect_errors`` the errors raised by an effect or by a listener: each is a defect.
    ``loop_lag`` is the distribution of the event loop's delays.
    """

    def __init__(
        self,
        preset: Preset,
        *,
        ceiling: int | None = None,
        most_adapters: int | None = None,
        meter: Meter | None = None,
        traffic: TrafficLog | None = None,
    ) -> None:
        self.now_s: Callable[[], float] = loop_time_s
        self.desk = Desk(preset, ceiling, most_adapters)
        self.degraded: Counter[tuple[str, Degradation]] = Counter()
        self.lowered: Counter[str] = Counter()
        self.effect_errors = 0
        self.loop_lag = Distribution(LAG_BUCKETS_S)
        self.listeners = Listeners(self.desk, meter, traffic, self._failed)
        self._permits: dict[int, Permit] = {}
        self._ids = itertools.count(1)
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0
        self._batch = self._batches = 0  # the number of the last batch that left, and how many have left

    # ------------------------------------------------------------------ one request

    def enter(
        self,
        class_name: str | None = None,
        *,
        timeouts: Timeouts = NO_TIMEOUTS,
        key: str = "",
        model: str = "",
        **options: Unpack[TicketOptions],
    ) -> Permit:
        """Ask for a seat; dispatched or refused at once where possible. ``timeouts`` can only shorten those of the
        class; ``key`` and ``model`` are names for the account. Raises Refused, or UnknownClassError.
        """
        preset = self.desk.mode.preset
        name = preset.default_class if class_name is None else class_name
        terms = preset.classes.get(name)
        if terms is None:
            raise UnknownClassError(no_such("class", name, preset.by_urgency()))
        if self.now_s is loop_time_s:
            self.now_s = asyncio.get_running_loop().time  # one loop for good: no need to look it up each time
        now_s = self.now_s()
        ticket = Ticket(next(self._ids), name, now_s, asked=timeouts, **options)
        stalls = terms.stall_timeout_s is not None or timeouts.stall_s is not None
        account = None if self.listeners.usage is None else Account(key, model, ticket.adapter or "", now_s)
        permit = self._permits[ticket.id] = Permit(
            self, ticket, stalls=stalls, preset_name=preset.name, batches_before=self._batches, account=account
        )
        self.listeners.arrived(ticket)
        self._carry_out(self.desk.arrive(ticket, now_s))
        permit.check()
        return permit

    # ------------------------------------------------------------------ all requests

    def switch(self, preset: Preset, rungs: frozenset[Rung] | None = None) -> int:
        """Put another preset in force in one synchronous step; returns its revision.

        ``rungs`` are those of the fallback ladder that are in force under it; None leaves them as they are.
        """
        self._carry_out(self.desk.switch(preset, self.now_s(), rungs))
        return self.desk.mode.revision

    def observe(self, load: Load) -> None:
        """Pass an engine step's figures to the limit policy."""
        now_s = self.now_s()
        self.listeners.stepped(load, now_s)
        self._carry_out(self.desk.observe(load, now_s))

    def report_lag(self, late_s: float) -> None:
        """The event loop is late by this much now; called several times a second."""
        now_s = self.now_s()
        self.loop_lag.add(max(0.0, late_s), now_s)
        self._late(late_s, now_s)

    def pause(self, block: Block = Block.OPERATOR) -> None:
        """Suspend dispatch for this cause."""
        self._carry_out(self.desk.pause(self.now_s(), block))

    def resume(self, block: Block = Block.OPERATOR) -> None:
        """End this cause; dispatch resumes when no other is left."""
        self._carry_out(self.desk.resume(self.now_s(), block))

    def drain(self) -> None:
        """Refuse new and waiting requests; running ones continue."""
        self._carry_out(self.desk.drain(self.now_s()))

    def engine_silent(self) -> None:
        """The engine is unresponsive: suspend dispatch until it responds. Time-outs still apply."""
        self._carry_out(self.desk.engine_silent(self.now_s()))

    def engine_restarting(self, retryable: Callable[[Permit], bool]) -> None:
        """The engine died and another one is coming: retryable requests are queued again, the others settled."""
        ids = {ticket_id for ticket_id, permit in self._permits.items() if retryable(permit)}
        self._carry_out(self.desk.engine_restarting(ids, self.now_s()))

    def engine_lost(self, reason: Reason = Reason.ENGINE_LOST) -> None:
        """Settle all requests of the dead engine; refuse new ones until there is an engine."""
        if self.desk.mode.engine is not EngineState.LOST:
            self._carry_out(self.desk.engine_lost(self.now_s(), reason))

    def engine_back(self) -> None:
        """The engine serves again."""
        self._carry_out(self.desk.engine_back(self.now_s()))

    def warmed_up(self) -> None:
        """The engine is warm: open its seats as the preset says."""
        self._carry_out(self.desk.warmed_up(self.now_s()))

    def fall_back(self, in_force: frozenset[Rung]) -> None:
        """Put these rungs of the fallback ladder in force."""
        self._carry_out(self.desk.fall_back(in_force, self.now_s()))

    def recall_limit(self, learnt: Learnt) -> None:
        """Start the limit from the learnt figures of another process."""
        self._carry_out(self.desk.recall_limit(learnt, self.now_s()))

    def cap_seats(self, reason: CapReason, ratio: float) -> None:
        """Use only this share of the limit, for this reason."""
        self._carry_out(self.desk.cap_seats(reason, ratio, self.now_s()))

    def bound_seats(self, most: int | None, *, present: float = 1.0, elsewhere: int = 0, front: float = 1.0) -> None:
        """Use no more seats than ``most``; None: no bound. ``present`` is the share of the instances that are ready,
        ``elsewhere`` the seats taken at the others, ``front`` the share of this front.
        """
        effects = self.desk.bound_seats(most, self.now_s(), present=present, elsewhere=elsewhere, front=front)
        self._carry_out(effects)

    def count_degraded(self, class_name: str, how: Degradation) -> None:
        """Count a request of this class as degraded."""
        self.degraded[class_name, how] += 1

    def unanswered(self, most: int | None = None) -> list[tuple[str, float]]:
        """The class and the arrival of each request that waits for its first token, on the gate's clock.

        At most ``most`` of them, the oldest first; None: all. The first token of a request without streaming is not
        visible before its last one, so such a request is left out once the engine has begun with it.
        """
        waiting = (permit.ticket for permit in self._permits.values() if permit.token_s is None and not permit.begun)
        return [(ticket.class_name, ticket.arrived_s) for ticket in itertools.islice(waiting, most)]

    def dump(self) -> dict[str, Any]:
        """The desk's live state, for operators."""
        return dump(self.desk, self.now_s())

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    # ------------------------------------------------------------------ for the permits

    def report_first_token(self, permit: Permit, delay_s: float) -> None:
        """The first visible token of a permit came ``delay_s`` after its arrival."""
        self.listeners.first_token(permit, delay_s, self.now_s())

    def report_progress(self, permit: Permit, *, first: bool) -> None:
        """Tokens of a permit came; ``first`` for the first ones since its last dispatch."""
        if first:
            self._carry_out(self.desk.first_token(permit.ticket.id, self.now_s()))
        else:
            self.desk.token_batch(permit.ticket.id, self.now_s())  # only noted: there are no effects

    def occupy_seats(self, permit: Permit, seats: int) -> None:
        """A permit needs this many seats from now on."""
        self._carry_out(self.desk.reseat(permit.ticket.id, seats, self.now_s()))

    def settle(self, permit: Permit, ending: Ending) -> None:
        """A permit is over. Where it times out in the same event, the time-out is its outcome."""
        now_s, in_engine = self.now_s(), permit.in_engine
        self._carry_out(self.desk.leave(permit.ticket.id, ending, now_s, permit.usage, sequences=in_engine))
        if self._permits.pop(permit.ticket.id, None) is not None:
            reason = permit.reason
            outcome = LEFT[ending][permit.dispatched_s is not None] if reason is None else REFUSED[reason]
            self.listeners.ended(permit, outcome, now_s)

    def close_account(self, permit: Permit) -> None:
        """Nothing more can be added to the account of a permit that is over."""
        self.listeners.account_closed(permit)

    # ------------------------------------------------------------------ inside

    def _tick(self) -> None:
        self._timer, now_s = None, self.now_s()
        self._late(now_s - self._due_s, now_s)
        self._carry_out(self.desk.tick(now_s))

    def _late(self, late_s: float, now_s: float) -> None:
        """A timer came late: after a standstill the engine's messages are read before time-outs apply."""
        if late_s > _STOOD_STILL_S:
            self.desk.stood_still(late_s, now_s)

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            try:
                self._carry_out_one(effect)
            except Exception:
                self._failed(type(effect).__name__)

    def _carry_out_one(self, effect: Effect) -> None:
        match effect:
            case Dispatch():
                permit = self._permits[effect.ticket_id]
                if effect.batch not in (0, self._batch):
                    self._batch = effect.batch
                    self._batches += 1
                permit.dispatch(self.desk.preset.name, self._batches, beside=effect.beside)
                if permit.most_tokens is not None:
                    self.count_degraded(permit.ticket.class_name, Degradation.MAX_TOKENS)
                if permit.beside:
                    self.count_degraded(permit.ticket.class_name, Degradation.ORDER)
                self.listeners.dispatched(permit)
            case Reject() | Expire():
                permit = self._permits.pop(effect.ticket_id)
                permit.refuse(effect.reason, effect.retry_after_s)
                if effect.reason is Reason.SHED:
                    self.count_degraded(permit.ticket.class_name, Degradation.REFUSED)
                self.listeners.ended(permit, REFUSED[effect.reason], self.now_s())
            case Abort():
                permit = self._permits[effect.ticket_id]
                permit.abort(effect.reason, self.desk.retry_after_s(self.now_s()))
                self.listeners.tell(permit.on_stop)
                self.listeners.tell(permit.on_abort)
            case Degrade():
                self._permits[effect.ticket_id].most_tokens = effect.max_tokens
            case Requeue():
                self._permits[effect.ticket_id].requeue()
            case Recall():
                permit = self._permits[effect.ticket_id]
                permit.requeue()
                self.listeners.tell(permit.on_stop)
            case WakeAt():
                self._arm(effect.at_s)
            case _:
                assert_never(effect)

    def _failed(self, what: str) -> None:
        """Count and log the error that is being handled."""
        self.effect_errors += 1
        _LOGGER.exception("an effect of admission failed, the others were carried out: %s", what)

    def _arm(self, at_s: float) -> None:
        """Tick at that time; a past time: in the loop's next iteration, after all call-backs that are ready now."""
        if self._timer is not None:
            self._timer.cancel()
        self._due_s = at_s
        self._timer = asyncio.get_running_loop().call_at(at_s, self._tick, context=_OF_NO_REQUEST)


__all__ = ["Gate", "Meter", "Permit", "TrafficLog", "loop_time_s"]
