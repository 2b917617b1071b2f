"""Random histories of a gate, its gateway, its link, its supervisor and an engine that fails, in virtual time.

What a client saw, what the traffic log was told and what the ledger counts must be the same end of each request; at
the end of a history nothing hangs and nothing is left. ``test_gate_effects`` has the gate alone, on a clock that moves
within every call.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import hypothesis.strategies as st
from engines import assert_no_residue, outcomes
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from small_presets import small_preset, terms
from supervised_engine import START_S, Harness
from tiers import LONG
from virtual_time import new_loop

from headway.admission import REQUEST_CONTEXT, RequestContext
from headway.admission.listeners import EndedRequest
from headway.engine.fake import EngineDied, FakeParams
from headway.errors import Refused
from headway_policies import CapReason, Ending, Load, Outcome, PriorityClass, Reason, Ticket, Timeouts, Usage
from headway_policies.request import REFUSED

CLASSES: dict[str, PriorityClass] = {
    "realtime": terms(3, places=3, queue_s=3, total_s=9, first_token_timeout_s=4, stall_timeout_s=2),
    "normal": terms(2, places=4, queue_s=20, total_s=40),
    "batch": terms(1, places=9, queue_s=None, total_s=60),
}
PRESETS = [
    small_preset(1, classes=CLASSES, queue={"make_room": True}),
    small_preset(3, name="wide", classes=CLASSES, most_waiting=5, queue={"evict": True, "make_room": True}),
    small_preset(2, name="dynamic", classes=CLASSES, batching={"strategy": "dynamic", "window_ms": 400}),
]
HELD_UP = ("stalled", "slow", "paused", "asleep")
#: What happens, each as often as it stands here. One rule has all of it: of several, a history would have but some.
WHAT = (
    *["calls"] * 6, *["requests"] * 4, *["cancels"] * 3, *["dies"] * 2, "is_held_up", *["goes_on"] * 2, "fails_a_call",
    "switches", "pauses", *["resumes"] * 3, "caps_seats", "trips",
)  # fmt: skip
TIMES_S = (0.0, 0.05, 0.3, 0.3, 1.5, 6.0, 15.0)
#: After this time each request has met its total time-out, and each engine that can come has come.
OVER_S = 60.0 + 4 * (START_S + 20.0)


class Trip(Exception):
    """What a call-back raises."""


@dataclass(eq=False)
class Client:
    """One client: its task, its tickets with the end that the traffic log was told of each, and how it ended itself."""

    task: asyncio.Task[None] = field(init=False)
    tickets: dict[int, list[Outcome]] = field(default_factory=dict)
    saw: str | Reason = "nothing"

    def agrees(self) -> bool:
        """Whether each ticket ended once, as the client saw it: it may have left after the time of its request."""
        if not all(len(ends) == 1 for ends in self.tickets.values()):
            return False
        ends = {outcome for (outcome,) in self.tickets.values()}
        if isinstance(self.saw, Reason):
            return ends == {REFUSED[self.saw]}
        late = {Outcome.EXPIRED_RUNNING} if self.saw == "completed" else set(REFUSED.values())
        return ends <= EXPECTED[self.saw] | late


EXPECTED = {
    "a fault": set[Outcome](),
    "nothing": set[Outcome](),  # it was cancelled before it began
    "completed": {Outcome.COMPLETED},
    "failed": {Outcome.FAILED},
    "cancelled": {Outcome.CANCELLED_QUEUED, Outcome.CANCELLED_RUNNING},
}
CLIENT: ContextVar[Client] = ContextVar("client")


class Listener:
    """The gate's meter or its traffic log, or a call-back of a permit: takes note, then raises while it ``trips``."""

    def __init__(self) -> None:
        self.trips = False
        self.tripped = 0
        self.clients: dict[int, Client] = {}
        self.metered: Counter[Outcome] = Counter()

    def trip(self, *_: Any) -> None:
        if self.trips:
            self.tripped += 1
            raise Trip

    def arrived(self, ticket: Ticket) -> None:
        client = self.clients[ticket.id] = CLIENT.get()
        client.tickets[ticket.id] = []
        self.trip()

    def completed(self, ticket: Ticket, usage: Usage) -> None:
        self.trip()

    def stepped(self, load: Load, now_s: float) -> None:
        self.trip()

    def waited(self, class_name: str, wait_s: float, batches: int) -> None:
        self.trip()

    first_token = trip


class Traffic(Listener):
    def ended(self, ticket: Ticket, outcome: Outcome, *_: Any) -> None:
        self.clients[ticket.id].tickets[ticket.id].append(outcome)
        self.trip()


class Metered(Listener):
    def ended(self, ended: EndedRequest) -> None:
        self.metered[ended.outcome] += 1
        self.trip()


class GatewayMachine(RuleBasedStateMachine):
    """Clients of all kinds, and everything that can happen to them, to their engine and to their server."""

    @initialize(
        which=st.integers(0, len(PRESETS) - 1),
        fails=st.sampled_from([0, 0, 1, 9]),
        restart_hung=st.booleans(),
        closes=st.sampled_from([False, False, True]),
    )
    def open(self, which: int, fails: int, restart_hung: bool, closes: bool) -> None:
        self.runner = asyncio.Runner(loop_factory=new_loop)
        self.clients: list[Client] = []
        self.traffic, self.meter = Traffic(), Metered()
        self.closes, self.may_be_lost = closes, fails > 1
        self.do(lambda: self._open(which, fails, restart_hung=restart_hung))

    def _open(self, which: int, fails: int, *, restart_hung: bool) -> None:
        self.harness = Harness(
            preset=PRESETS[which],
            restart_hung=restart_hung,
            hang_after_s=5.0,
            backoff_s=1.0,
            max_restarts=2 if self.may_be_lost else 100,
        )
        self.harness.replacement.fails = fails
        self.engine, self.gateway = self.harness.engine, self.harness.control.gateway
        self.gate, self.link = self.gateway.gate, self.gateway.link
        self.gate.listeners.traffic, self.gate.listeners.meter = self.traffic, self.meter

    def do(self, act: Callable[[], object], for_s: float = 0.0) -> None:
        """Act on the loop, and let time pass."""

        async def acting() -> None:
            act()
            await asyncio.sleep(for_s)
            await asyncio.sleep(0)

        self.runner.run(acting())

    @rule(what=st.sampled_from(WHAT), data=st.data(), for_s=st.sampled_from(TIMES_S))
    def happens(self, what: str, data: st.DataObject, for_s: float) -> None:
        """One of these; and time passes."""

        def any_of(*several: Any) -> Any:
            return data.draw(st.sampled_from(several))

        self.do(lambda: getattr(self, what)(any_of), for_s)

    # ------------------------------------------------------------------ clients

    def calls(self, any_of: Any) -> None:
        """A program's own calls, whose readers may be slow."""
        for _ in range(any_of(1, 1, 4)):
            tokens, sequences, reads_s = any_of(1, 5, 30, 30), any_of(1, 1, 2), any_of(0.0, 0.0, 0.5, 3.0)
            timeouts, may_wait = Timeouts(total_s=any_of(None, None, None, 0.0, 1.0)), any_of(True, True, True, False)
            terms = {"priority": any_of(*CLASSES), "timeouts": timeouts, "may_wait": may_wait}
            self._begin(partial(self._read, tokens, sequences, reads_s, **terms))

    def requests(self, any_of: Any) -> None:
        """HTTP requests, whose call-backs may raise."""
        for _ in range(any_of(1, 1, 3)):
            context = RequestContext(class_name=any_of(*CLASSES), on_given_up=self.traffic.trip)
            self._begin(
                partial(self._request, context, any_of(1, 2, 3), any_of(0.0, 2.0), together=any_of(True, False))
            )

    def cancels(self, any_of: Any) -> None:
        if here := [client for client in self.clients if not client.task.done()]:
            here[any_of(*range(len(here)))].task.cancel()

    def _begin(self, *works: Callable[[], Awaitable[None]]) -> None:
        for work in works:
            client = Client()
            client.task = asyncio.get_running_loop().create_task(self._run(client, work))
            self.clients.append(client)

    async def _run(self, client: Client, work: Callable[[], Awaitable[None]]) -> None:
        CLIENT.set(client)
        client.saw = "a fault"
        try:
            await work()
            client.saw = "completed"
        except asyncio.CancelledError:
            client.saw = "cancelled"
            raise
        except Refused as refused:
            client.saw = refused.reason
        except RuntimeError as error:
            client.saw = "a fault" if isinstance(error, EngineDied) else "failed"

    async def _read(self, tokens: int = 4, sequences: int = 1, reads_s: float = 0.0, **terms: Any) -> None:
        """One call of the engine, and each of its outputs once."""
        seen = 0
        async for one in self.engine.generate("text", FakeParams(tokens, sequences), "call", **terms):
            seen += 1
            assert len(one.tokens) == seen
            await asyncio.sleep(0 if one.finished else reads_s)

    async def _request(self, context: RequestContext, calls: int, lingers_s: float, *, together: bool) -> None:
        """An HTTP request of one or more calls, whose response is still being sent after them."""
        REQUEST_CONTEXT.set(context)
        ending = Ending.FAILED
        try:
            if together:
                async with asyncio.TaskGroup() as group:
                    for _ in range(calls):
                        group.create_task(self._read())
            for _ in range(0 if together else calls):
                await self._read()
            await asyncio.sleep(lingers_s)
            ending = Ending.COMPLETED
        except asyncio.CancelledError:
            ending = Ending.CANCELLED
            raise
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        finally:
            if context.permit is not None:
                context.permit.leave(ending)
        if context.permit is not None:
            context.permit.check()

    # ------------------------------------------------------------------ the engine and the server

    def dies(self, any_of: Any) -> None:
        """The engine dies; a call that fails reports it, or the supervisor, or this."""
        self.engine.die()
        if any_of(True, False):
            self.link.check_engine()

    def is_held_up(self, any_of: Any) -> None:
        setattr(self.engine, any_of(*HELD_UP), True)

    def goes_on(self, any_of: Any) -> None:
        for how in HELD_UP:
            setattr(self.engine, how, False)

    def fails_a_call(self, any_of: Any) -> None:
        self.engine.trips_over = {*list(self.engine.running)[:1]}

    def switches(self, any_of: Any) -> None:
        preset = any_of(*PRESETS)
        self.gate.switch(preset.model_copy(update={"recovery": self.gate.desk.preset.recovery}))

    def pauses(self, any_of: Any) -> None:
        (self.gate.drain if any_of(True, False, False) else self.gate.pause)()

    def resumes(self, any_of: Any) -> None:
        self.gate.resume()

    def caps_seats(self, any_of: Any) -> None:
        self.gate.cap_seats(CapReason.MEMORY, any_of(0.5, 1.0))

    def trips(self, any_of: Any) -> None:
        self.traffic.trips = self.meter.trips = any_of(True, True, False)

    # ------------------------------------------------------------------ what always holds

    @invariant()
    def each_end_is_told_once(self) -> None:
        if not hasattr(self, "harness"):
            return
        told = Counter(ends[0] for client in self.clients for ends in client.tickets.values() if ends)
        assert all(len(ends) <= 1 for client in self.clients for ends in client.tickets.values())
        assert told == self.meter.metered
        assert Counter({str(one): number for one, number in told.items()}) <= Counter(outcomes(self.harness.control))
        assert self.gate.effect_errors == self.traffic.tripped + self.meter.tripped

    def teardown(self) -> None:
        if not hasattr(self, "harness"):
            return
        try:
            self.runner.run(self._end())
        finally:
            self.runner.close()

    async def _end(self) -> None:
        """Each request ends, whatever the engine does; then all is well again, and nothing is left of any of them."""
        self.traffic.trips = self.meter.trips = False
        if self.closes:
            self.link.close_from_any_thread(None)
        await self._all_done()
        if self.closes:
            self.link.closed_from_any_thread()
        self.goes_on(None)
        self.engine.trips_over.clear()
        self.gate.cap_seats(CapReason.MEMORY, 1.0)
        self.gate.resume()
        await self._engine_settled()
        assert self.may_be_lost or not self.link.engine_lost
        if not (self.closes or self.link.engine_lost):
            self._begin(self._read)
            await self._all_done()
            assert self.clients[-1].saw == "completed", self.clients[-1].saw
        self.harness.tasks.stop_all()
        await asyncio.sleep(0)
        await assert_no_residue(self.harness.control)
        for client in self.clients:
            assert client.agrees(), (client.saw, client.tickets)

    async def _engine_settled(self) -> None:
        """There is an engine that responds, or there will be none."""
        await asyncio.sleep(6.0)
        async with asyncio.timeout(OVER_S):
            while self.link.restarting:  # noqa: ASYNC110 - another engine is being started
                await asyncio.sleep(1.0)

    async def _all_done(self) -> None:
        if tasks := [client.task for client in self.clients]:
            _, hanging = await asyncio.wait(tasks, timeout=OVER_S)
            assert not hanging


def test_any_history_ends_each_request_once_and_leaves_nothing(failed_effects: list[str]) -> None:
    """Random histories of clients, cancellations, deaths, hangs, switches and call-backs that raise."""
    run_state_machine_as_test(
        GatewayMachine,
        settings=settings(
            max_examples=1000 if LONG else 20, stateful_step_count=40 if LONG else 25, deadline=None, print_blob=True
        ),
    )
    assert all("Trip" in failed_effect for failed_effect in failed_effects)
    failed_effects.clear()
