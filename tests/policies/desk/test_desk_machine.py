"""Random histories of the desk over its whole vocabulary of events, followed by an oracle that knows only effects.

Every order between the classes meets every line inside them and every strategy; each has a machine of its own presets,
among which it switches, so that a failing history is small.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import hypothesis.strategies as st
import pytest
from desk_oracle import Oracle
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from small_presets import small_preset, terms
from tiers import LONG

from headway_policies import CapReason, Desk, Ending, Load, Preset, PriorityClass, Ticket, Timeouts, Usage
from headway_policies.limits.limit import LimitSettings

BETWEEN = ("strict", "ageing", "weighted")
INSIDE = ("fifo", "edf", "hrrn", "fair", "prefix")
STRATEGIES: dict[str, dict[str, Any]] = {
    "continuous": {},
    "continuous with a token budget": {"max_total_tokens": 900},
    "static": {"strategy": "static"},
    "static, flushed": {"strategy": "static", "flush_after_s": 1.5},
    "dynamic": {"strategy": "dynamic", "window_ms": 400, "urgent_window_ms": 100},
    "dynamic, preferred sizes": {"strategy": "dynamic", "window_ms": 3000, "preferred_batch_sizes": (2,)},
    "dynamic, adaptive": {"strategy": "dynamic", "window_ms": 400, "window": "adaptive", "max_total_tokens": 900},
    "dynamic, bins": {"strategy": "dynamic", "window_ms": 400, "bins": 3},
}

FEW: dict[str, PriorityClass] = {
    "realtime": terms(3, places=2, queue_s=2, total_s=5, first_token_timeout_s=3, stall_timeout_s=1, reserved_seats=1),
    "normal": terms(2, places=3, queue_s=4, total_s=None, max_waiting_tokens=300, share=0.5, ttft_slo_s=0.4),
    "batch": terms(1, places=4, queue_s=None, total_s=30, max_waiting_bytes=3000),
}
MANY: dict[str, PriorityClass] = {
    "realtime": terms(
        7, places=9, queue_s=8, total_s=9, reserved_seats=2, first_token_timeout_s=4, ttft_slo_s=1, burst_s=0.5
    ),
    "normal": terms(2, places=9, queue_s=None, total_s=None, reserved_seats=1, stall_timeout_s=2),
    "extra": terms(1, places=9, queue_s=3, total_s=3),
    "batch": terms(-5, places=9, queue_s=30, total_s=60),
}
TURNED: dict[str, PriorityClass] = {"batch": terms(7, queue_s=8, total_s=8), "realtime": terms(1, queue_s=3, total_s=8)}
ROOM = {"make_room": True}
SHEDDING = {"evict": True, "refuse_infeasible": True, "shed_unreachable": True} | ROOM


def limited(policy: str, **more: Any) -> LimitSettings:
    """An adaptive limit with narrow rails."""
    return LimitSettings(policy=policy, min_seats=1, max_seats=6, stale_after_s=3.0, **more)


def presets(between: str, inside: str, batching: dict[str, Any]) -> list[Preset]:
    """Four presets of one kind: small and large, fixed and adaptive; with shedding or without; three make room."""
    same: dict[str, Any] = {"between": between, "inside": inside, "batching": batching}
    bounded = SHEDDING | {"max_waiting_tokens": 500, "max_waiting_bytes": 5000}
    return [
        small_preset(2, most_waiting=4, name="small", classes=FEW, queue=SHEDDING, **same),
        small_preset(5, most_waiting=9, name="wide", classes=MANY, limit=limited("aimd"), queue=bounded, **same),
        small_preset(4, name="model", classes=MANY, limit=limited("model", memory_aware=True), **same),
        small_preset(3, most_waiting=5, name="turned", classes=TURNED, limit=limited("sla"), queue=ROOM, **same),
    ]


class DeskMachine(RuleBasedStateMachine):
    """Every event in every order, time never standing still for long."""

    presets: list[Preset]

    @initialize(which=st.integers(0, 3), ceiling=st.sampled_from([None, 2, 64]))
    def open(self, which: int, ceiling: int | None) -> None:
        self.now_s = 0.0
        self.next_id = 0
        self.desk = Desk(self.presets[which], ceiling=ceiling)
        self.oracle = Oracle(self.desk)

    def _do(self, event: str, *arguments: Any) -> None:
        self.oracle.follow(getattr(self.desk, event)(*arguments, self.now_s), self.now_s)

    def _tick_if_due(self) -> None:
        while self.oracle.wake_s is not None and self.oracle.wake_s <= self.now_s:
            self.oracle.wake_s = None
            self._do("tick")

    @rule(
        number=st.sampled_from([1, 1, 5]),
        urgency=st.integers(0, 3),
        seats=st.sampled_from([1, 1, 1, 2, 9]),
        patience_s=st.sampled_from([None, None, 0.0, 0.5, 100.0]),
        prompt_tokens=st.sampled_from([0, 10, 200, 2000]),
        max_tokens=st.sampled_from([None, 1, 300]),
        tenant=st.sampled_from(["", "a", "b"]),
        prefix=st.sampled_from([(), (1,), (1, 2), (1, 3), (4,)]),
        may_wait=st.sampled_from([True, True, True, False]),
    )
    def arrive(self, number: int, urgency: int, patience_s: float | None, prompt_tokens: int, **rest: Any) -> None:
        names = self.desk.preset.by_urgency()
        arriving = [names[min(urgency, len(names) - 1)]] * number
        if number > 1:
            arriving.append(names[0])  # it may take the place of one of them
        asked = Timeouts(total_s=patience_s, stall_s=patience_s or None)
        sizes = {"prompt_tokens": prompt_tokens, "prompt_bytes": 4 * prompt_tokens}
        for name in arriving:
            self.next_id += 1
            ticket = Ticket(self.next_id, name, self.now_s, asked=asked, **sizes, **rest)
            self.oracle.arrived(ticket)
            self._do("arrive", ticket)

    @rule(step_s=st.sampled_from([0.001, 0.3, 0.3, 1.0, 5.0, 40.0]))
    def wait(self, step_s: float) -> None:
        self.now_s += step_s
        self._tick_if_due()

    @precondition(lambda self: self.oracle.tickets)
    @rule(
        data=st.data(),
        ending=st.sampled_from(list(Ending)),
        output_tokens=st.sampled_from([None, 1, 90, 5000]),
        sequences=st.sampled_from([0, 0, 1, 2, 9]),
    )
    def leave(self, data: st.DataObject, ending: Ending, output_tokens: int | None, sequences: int) -> None:
        ticket_id = data.draw(st.sampled_from(sorted(self.oracle.tickets)))
        prompt_tokens = self.oracle.tickets[ticket_id].prompt_tokens
        usage = None if output_tokens is None else Usage(prompt_tokens, output_tokens)
        self.oracle.left(ticket_id, ending, sequences)
        effects = self.desk.leave(ticket_id, ending, self.now_s, usage, sequences=sequences)
        self.oracle.follow(effects, self.now_s)

    @precondition(lambda self: self.oracle.running)
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        ticket_id = data.draw(st.sampled_from(sorted(self.oracle.running)))
        self.oracle.left(ticket_id, Ending.COMPLETED)
        self._do("leave", ticket_id, Ending.COMPLETED)

    @precondition(lambda self: self.oracle.rules.sitting)
    @rule(data=st.data(), seats=st.sampled_from([0, 0, 1, 2]))
    def engine_changes_seats(self, data: st.DataObject, seats: int) -> None:
        ticket_id = data.draw(st.sampled_from(sorted(self.oracle.rules.sitting)))
        self.oracle.reseated(ticket_id, seats, self.now_s)
        self._do("reseat", ticket_id, seats)

    @precondition(lambda self: self.oracle.running)
    @rule(data=st.data(), event=st.sampled_from(["first_token", "first_token", "token_batch"]))
    def progress(self, data: st.DataObject, event: str) -> None:
        ticket_id = data.draw(st.sampled_from(sorted(self.oracle.running)))
        if ticket_id not in self.oracle.token_s:
            event = "first_token"
        elif event == "first_token":
            event = "token_batch"
        self.oracle.token(ticket_id, self.now_s)
        self._do(event, ticket_id)

    @rule(which=st.integers(0, 3))
    def switch(self, which: int) -> None:
        before = set(self.oracle.waiting) | self.oracle.running
        self._do("switch", self.presets[which])
        shed = {one for one, how in self.oracle.ended.items() if how == "deadline_unreachable"}
        assert before == (set(self.oracle.waiting) | self.oracle.running | (shed & before)), "a switch ended a ticket"

    @rule(event=st.sampled_from(["pause", "resume", "resume", "drain", "engine_silent", *["engine_back"] * 3]))
    def command(self, event: str) -> None:
        self._do(event)

    @rule(back=st.sampled_from([True, True, False]))
    def engine_lost(self, back: bool) -> None:
        self.oracle.engine_lost()
        self._do("engine_lost")
        if back:
            self._do("engine_back")

    @rule(data=st.data(), back=st.sampled_from([True, True, False]))
    def engine_restarting(self, data: st.DataObject, back: bool) -> None:
        running = sorted(self.oracle.running)
        retryable = set(data.draw(st.lists(st.sampled_from(running)))) if running else set()
        self.oracle.engine_restarting(retryable)
        self._do("engine_restarting", retryable)
        if back:
            self._do("engine_back")

    @rule(ratio=st.sampled_from([0.1, 0.5, 1.0]))
    def cap_seats(self, ratio: float) -> None:
        self._do("cap_seats", CapReason.MEMORY, ratio)

    @rule(
        running=st.integers(0, 9),
        kv_usage_ratio=st.sampled_from([0.1, 0.5, 0.99]),
        inter_token_s=st.sampled_from([None, 0.01, 0.2]),
        preemptions=st.sampled_from([0, 0, 1]),
        first_tokens=st.sampled_from([None, 0, 1, 3]),
        step_s=st.sampled_from([0.05, 0.3]),
    )
    def observe(self, step_s: float, **load: Any) -> None:
        self.now_s += step_s
        self._tick_if_due()
        self.oracle.objectives.stepped_s = self.now_s
        self._do("observe", Load(waiting=0, prefill_tokens=100, kv_capacity_tokens=4000, **load))

    @invariant()
    def books_agree(self) -> None:
        if hasattr(self, "oracle"):
            self._tick_if_due()
            self.oracle.check(self.now_s)

    def teardown(self) -> None:
        if not hasattr(self, "oracle"):
            return
        for event in ("engine_back", "resume", "drain"):
            self._do(event)
        for ticket_id in sorted(self.oracle.tickets):
            self.oracle.left(ticket_id, Ending.COMPLETED)
            self._do("leave", ticket_id, Ending.COMPLETED)
        for ticket_id in sorted(self.oracle.rules.sitting):
            self.oracle.reseated(ticket_id, 0, self.now_s)
            self._do("reseat", ticket_id, 0)
        assert (self.desk.seats_taken, self.desk.sequences) == (0, 0)
        assert (self.desk.ledger.queued, self.desk.ledger.in_flight) == (0, 0)
        outcomes = [counts.outcomes.total() for counts in self.desk.ledger.classes.values()]
        assert sum(outcomes) == len(self.oracle.tickets)
        assert [*self.desk.waiting(), *self.desk.dispatched()] == []


EXAMPLES = 2000 if LONG else 12
#: Every order between classes, and every line inside them; in the short form not each with each.
PAIRS = [
    (between, inside)
    for (at, between), (place, inside) in product(enumerate(BETWEEN), enumerate(INSIDE))
    if (between, inside) != ("strict", "fifo") and (LONG or (at + place) % len(BETWEEN) == 1)
]


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_any_history_keeps_the_invariants_in_the_plainest_order(strategy: dict[str, Any]) -> None:
    """Strict and first come first served, where every dispatch can be predicted: I1 to I7 and I12 hold."""
    play("strict", "fifo", strategy, EXAMPLES)


@pytest.mark.parametrize(("between", "inside"), PAIRS)
def test_any_history_keeps_the_invariants_in_every_order(between: str, inside: str) -> None:
    """Each order between the classes with each line inside them, with batches and without."""
    for strategy in ("continuous", "dynamic"):
        play(between, inside, STRATEGIES[strategy], EXAMPLES // 4)


@pytest.mark.parametrize(
    ("between", "inside"), [("faulty_policy:FaultyOrder", "fifo"), ("weighted", "faulty_policy:FaultyLine")]
)
@pytest.mark.parametrize("strategy", ["continuous", "dynamic, bins"])
def test_an_order_that_goes_wrong(between: str, inside: str, strategy: str) -> None:
    """The same histories, with a custom policy that fails during them: the invariants hold."""
    play(between, inside, STRATEGIES[strategy], EXAMPLES // 2)


def play(between: str, inside: str, strategy: dict[str, Any], examples: int) -> None:
    machine = type("Machine", (DeskMachine,), {"presets": presets(between, inside, strategy)})
    limits = settings(max_examples=examples, stateful_step_count=50, deadline=None, print_blob=True)
    run_state_machine_as_test(machine, settings=limits)
