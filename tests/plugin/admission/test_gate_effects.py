"""The gate's effects, each by itself: whatever a listener raises and whenever the clock is read, each permit ends once,
exactly as the ledger says."""

from __future__ import annotations

from collections import Counter
from typing import Any

import hypothesis.strategies as st
import pytest
from hand_gate import HandGate
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

from headway.admission.gate import Gate, Permit
from headway.admission.listeners import EndedRequest
from headway.errors import Refused
from headway_policies import Ending, Load, Outcome, PriorityClass, Ticket, Timeouts, Usage
from headway_policies.desk import Phase
from headway_policies.request import REFUSED

CLASSES: dict[str, PriorityClass] = {
    "realtime": terms(3, places=2, queue_s=2, total_s=5, first_token_timeout_s=3, stall_timeout_s=1),
    "normal": terms(2, places=3, queue_s=4, total_s=None, ttft_slo_s=0.4),
    "batch": terms(1, places=4, queue_s=None, total_s=30),
}
PRESETS = [
    small_preset(2, most_waiting=4, classes=CLASSES, queue={"evict": True, "make_room": True}),
    small_preset(4, classes=CLASSES, between="weighted", queue={"make_room": True}),
]


class Trip(Exception):
    """What a listener raises."""


class Listener:
    """A meter, a traffic log and the call-backs of permits; takes note, and then raises while it ``trips``."""

    def __init__(self) -> None:
        self.trips = False
        self.ends: list[tuple[int, str, Outcome]] = []
        self.metered: Counter[tuple[str, Outcome]] = Counter()
        self.aborted: list[int] = []

    def trip(self) -> None:
        if self.trips:
            raise Trip

    def arrived(self, ticket: Ticket) -> None:
        self.trip()

    def completed(self, ticket: Ticket, usage: Usage) -> None:
        self.trip()

    def first_token(self, *_: Any) -> None:
        self.trip()

    def waited(self, *_: Any) -> None:
        self.trip()

    def stepped(self, *_: Any) -> None:
        self.trip()

    def abort(self, permit: Permit) -> None:
        self.aborted.append(permit.ticket.id)
        self.trip()


class Traffic(Listener):
    def ended(self, ticket: Ticket, outcome: Outcome, *_: Any) -> None:
        self.ends.append((ticket.id, ticket.class_name, outcome))
        self.trip()


class Metered(Listener):
    def ended(self, ended: EndedRequest) -> None:
        self.metered[ended.class_name, ended.outcome] += 1
        self.trip()


def served(gate: Gate, listener: Listener, **options: Any) -> Permit:
    """A permit whose call-backs are the listener's."""
    permit = gate.enter(**options)
    permit.on_stop = lambda: listener.abort(permit)
    return permit


def by_hand(seats: int, **more: Any) -> tuple[HandGate, Traffic]:
    """A gate, and what listens to it."""
    traffic = Traffic()
    return HandGate(small_preset(seats, classes=CLASSES), traffic=traffic, **more), traffic


def test_an_abort_that_fails_loses_none_of_the_others(failed_effects: list[str]) -> None:
    """Two requests run out of time in one event: both are aborted, and the one that waited is served."""
    gate, traffic = by_hand(2)
    first, second = (served(gate, traffic, class_name="realtime") for _ in range(2))
    waiting = served(gate, traffic, class_name="batch")
    traffic.trips = True
    gate.wait(6.0)
    assert traffic.aborted == [first.ticket.id, second.ticket.id]
    for one in (first, second):
        one.leave(Ending.FAILED)
    assert not waiting.waiting
    assert waiting.reason is None
    assert gate.effect_errors == len(failed_effects) >= 4
    failed_effects.clear()


@pytest.mark.parametrize("what", [Traffic, Metered])
def test_a_listener_that_fails_at_each_call_costs_no_request(what: type[Any], failed_effects: list[str]) -> None:
    """Not the one that arrives, nor one that waits for its seat, nor one that ends."""
    listener = what()
    listener.trips = True
    gate = HandGate(small_preset(1, classes=CLASSES), **{"traffic" if what is Traffic else "meter": listener})
    first, second = served(gate, listener), served(gate, listener)
    first.first_token()
    first.use(3, 4)
    first.leave(Ending.COMPLETED)
    assert not second.waiting
    second.leave(Ending.COMPLETED)
    assert gate._permits == {}
    assert gate.desk.ledger.classes["realtime"].outcomes == {Outcome.COMPLETED: 2}
    assert gate.effect_errors == len(failed_effects) > 0
    failed_effects.clear()


def test_a_request_whose_time_runs_out_as_it_ends_is_counted_once_as_the_ledger_counts_it() -> None:
    """The answer was whole, and it came after the time: nothing else says that it was completed."""
    metered = Metered()
    gate, traffic = by_hand(1, meter=metered)
    running = served(gate, traffic, class_name="realtime")
    waiting = served(gate, traffic, class_name="realtime")
    gate.at_s = 6.0
    waiting.leave(Ending.CANCELLED)
    running.leave(Ending.COMPLETED)
    found = Counter((name, outcome) for _, name, outcome in traffic.ends)
    assert found == metered.metered == Counter(
        {("realtime", Outcome.EXPIRED_QUEUED): 1, ("realtime", Outcome.EXPIRED_RUNNING): 1}
    )  # fmt: skip
    assert gate.desk.ledger.classes["realtime"].outcomes == Counter(outcome for _, _, outcome in traffic.ends)


class GateMachine(RuleBasedStateMachine):
    """Permits in every order; time passes inside every call, and listeners raise."""

    @initialize(which=st.sampled_from(PRESETS))
    def open(self, which: Any) -> None:
        self.traffic, self.meter = Traffic(), Metered()
        self.gate = HandGate(which, meter=self.meter, traffic=self.traffic)
        self.open_permits: list[Permit] = []
        self.left: list[Permit] = []

    @rule(
        name=st.sampled_from(["realtime", "normal", "batch"]),
        total_s=st.sampled_from([None, 0.0, 0.5, 4.0]),
        seats=st.sampled_from([1, 1, 2]),
    )
    def enter(self, name: str, total_s: float | None, seats: int) -> None:
        try:
            timeouts = Timeouts(total_s=total_s)
            permit = served(self.gate, self.traffic, class_name=name, timeouts=timeouts, seats=seats)
        except Refused:
            return
        self.open_permits.append(permit)

    @precondition(lambda self: self.open_permits)
    @rule(data=st.data(), ending=st.sampled_from(list(Ending)), used=st.booleans(), kept=st.sampled_from([0, 0, 1]))
    def leave(self, data: st.DataObject, ending: Ending, used: bool, kept: int) -> None:
        """Some sequences may be in the engine for a while after."""
        permit = self.open_permits.pop(data.draw(st.integers(0, len(self.open_permits) - 1)))
        if permit.dispatched_s is not None:
            permit.occupy(kept)
        if used:
            permit.use(3, 4)
        permit.leave(ending)
        permit.leave(Ending.FAILED)  # a second end counts nothing
        self.left.append(permit)

    @precondition(lambda self: self.left)
    @rule()
    def gone(self) -> None:
        """The engine confirms that its sequences are gone."""
        self.left.pop().occupy(0)

    @precondition(lambda self: self.open_permits)
    @rule(data=st.data(), first=st.booleans())
    def token(self, data: st.DataObject, first: bool) -> None:
        permit = data.draw(st.sampled_from(self.open_permits))
        if permit.phase in (Phase.RUNNING, Phase.SETTLED):
            (permit.first_token if first else permit.progress)()

    @rule(
        step_s=st.sampled_from([0.001, 0.3, 1.0, 5.0]),
        drift_s=st.sampled_from([0.0, 0.0, 0.2, 1.5]),
        stands=st.booleans(),
    )
    def wait(self, step_s: float, drift_s: float, stands: bool) -> None:
        """Time passes, and from now on so much of it in every reading of the clock."""
        self.gate.drift_s = drift_s
        (self.gate.stand_still if stands else self.gate.wait)(step_s)

    @rule(trips=st.booleans())
    def trip(self, trips: bool) -> None:
        self.traffic.trips = self.meter.trips = trips

    @rule(event=st.sampled_from(["pause", "resume", "drain", "engine_silent", "engine_lost", "engine_back"]))
    def whole(self, event: str) -> None:
        getattr(self.gate, event)()

    @rule(retried=st.booleans())
    def die(self, retried: bool) -> None:
        self.gate.engine_restarting(lambda _: retried)

    @rule(running=st.integers(0, 4))
    def step(self, running: int) -> None:
        self.gate.observe(Load(running=running, waiting=0, kv_usage_ratio=0.0))

    @rule(which=st.sampled_from(PRESETS))
    def switch(self, which: Any) -> None:
        self.gate.switch(which)

    @invariant()
    def each_end_is_told_once_and_as_it_is_counted(self) -> None:
        told = [ticket_id for ticket_id, _, _ in self.traffic.ends]
        assert len(told) == len(set(told))
        found = Counter((name, outcome) for _, name, outcome in self.traffic.ends)
        assert found == self.meter.metered
        aborted = [open_permit for open_permit in self.open_permits if open_permit.phase is Phase.SETTLED]
        found.update((one.ticket.class_name, _outcome(one)) for one in aborted)  # told when their caller leaves
        counted = Counter[tuple[str, Outcome]]()
        for name, counts in self.gate.desk.ledger.classes.items():
            assert counts.balanced
            counted.update({(name, outcome): number for outcome, number in counts.outcomes.items()})
        assert found == counted

    @invariant()
    def no_permit_outlives_its_ticket(self) -> None:
        known = {open_permit.ticket.id for open_permit in self.open_permits if open_permit.phase is not Phase.ENDED}
        assert self.gate._permits.keys() == known

    def teardown(self) -> None:
        """When all have left nothing is held."""
        if not hasattr(self, "gate"):
            return
        for permit in self.open_permits:
            permit.leave(Ending.CANCELLED)
        for permit in (*self.left, *self.open_permits):
            permit.occupy(0)
        assert (self.gate.desk.seats_taken, self.gate.desk.ledger.queued, self.gate.desk.ledger.in_flight) == (0, 0, 0)
        assert self.gate._permits == {}


def _outcome(permit: Permit) -> Outcome:
    assert permit.reason is not None
    return REFUSED[permit.reason]


def test_every_permit_ends_exactly_as_the_ledger_says(failed_effects: list[str]) -> None:
    """Random histories, with listeners that raise and time that passes inside every call."""
    run_state_machine_as_test(
        GateMachine,
        settings=settings(max_examples=300 if LONG else 20, stateful_step_count=60 if LONG else 40, deadline=None),
    )
    assert all("Trip" in failed_effect for failed_effect in failed_effects)
    failed_effects.clear()
