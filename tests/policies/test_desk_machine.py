"""Random histories of the desk over its whole vocabulary of events, followed by an oracle that knows only effects."""

from __future__ import annotations

import os
from typing import Any

import hypothesis.strategies as st
from desk_oracle import Oracle
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headway_policies import Desk, Ending, Load, Preset, Ticket, Timeouts

LONG = bool(os.environ.get("HEADWAY_LONG_TESTS"))


def preset(name: str, seats: int, most_waiting: int, classes: dict[str, tuple[int, int, float, float]]) -> Preset:
    """A small preset: class -> (priority, places, queue time-out, total time-out)."""
    terms = {
        key: {"priority": priority, "max_waiting": places, "queue_timeout_s": queue_s, "total_timeout_s": total_s}
        for key, (priority, places, queue_s, total_s) in classes.items()
    }
    table: dict[str, Any] = {
        "name": name,
        "default_class": min(terms, key=lambda key: terms[key]["priority"]),
        "batching": {"seats": seats, "window_ms": 10},
        "ordering": {"between": "strict", "inside": "fifo"},
        "queue": {"max_waiting": most_waiting, "evict": False},
        "classes": terms,
    }
    return Preset.model_validate(table)


PRESETS = [
    preset("small", 1, 3, {"realtime": (3, 2, 2, 5), "normal": (2, 2, 4, 6), "batch": (1, 3, 20, 30)}),
    preset("wide", 4, 5, {"realtime": (3, 4, 1, 3), "normal": (2, 4, 2, 9), "batch": (1, 4, 30, 31)}),
    preset("no-queue", 2, 0, {"realtime": (3, 0, 2, 5), "normal": (2, 0, 4, 6), "batch": (1, 0, 20, 30)}),
    preset("two-classes", 3, 4, {"realtime": (1, 3, 3, 8), "batch": (7, 3, 8, 8)}),
]


class DeskMachine(RuleBasedStateMachine):
    """Every event in every order, time never standing still for long."""

    @initialize(which=st.sampled_from(PRESETS), ceiling=st.sampled_from([None, 2, 64]))
    def open(self, which: Preset, ceiling: int | None) -> None:
        self.now_s = 0.0
        self.next_id = 0
        self.desk = Desk(which, ceiling=ceiling)
        self.oracle = Oracle(self.desk)

    def _do(self, event: str, *arguments: Any, step_s: float = 0.0) -> None:
        self.now_s += step_s
        self.oracle.follow(getattr(self.desk, event)(*arguments, self.now_s), self.now_s)

    def _tick_if_due(self) -> None:
        while self.oracle.wake_s is not None and self.oracle.wake_s <= self.now_s:
            self.oracle.wake_s = None
            self._do("tick")

    @rule(
        urgency=st.integers(0, 2),
        seats=st.sampled_from([1, 1, 1, 2, 9]),
        patience_s=st.sampled_from([None, None, 0.0, 0.5, 100.0]),
    )
    def arrive(self, urgency: int, seats: int, patience_s: float | None) -> None:
        names = self.desk.preset.by_urgency()
        self.next_id += 1
        name = names[min(urgency, len(names) - 1)]
        ticket = Ticket(self.next_id, name, self.now_s, seats=seats, asked=Timeouts(total_s=patience_s))
        self.oracle.arrived(ticket)
        self._do("arrive", ticket)

    @rule(step_s=st.sampled_from([0.001, 0.3, 1.0, 5.0, 40.0]))
    def wait(self, step_s: float) -> None:
        self.now_s += step_s
        self._tick_if_due()

    @precondition(lambda self: self.oracle.tickets)
    @rule(data=st.data(), ending=st.sampled_from(list(Ending)), step_s=st.sampled_from([0.0, 0.1]))
    def leave(self, data: st.DataObject, ending: Ending, step_s: float) -> None:
        ticket_id = data.draw(st.sampled_from(sorted(self.oracle.tickets)))
        self.now_s += step_s
        self._tick_if_due()
        self.oracle.left(ticket_id, ending)
        self._do("leave", ticket_id, ending)

    @precondition(lambda self: self.oracle.running)
    @rule(data=st.data(), fraction=st.sampled_from([0.0, 0.5, 1.0]))
    def engine_frees_seats(self, data: st.DataObject, fraction: float) -> None:
        ticket_id = data.draw(st.sampled_from(sorted(self.oracle.running)))
        seats = int(self.oracle.seats[ticket_id] * fraction)
        self.oracle.seats[ticket_id] = seats
        self._do("reseat", ticket_id, seats)

    @precondition(lambda self: self.oracle.running)
    @rule(data=st.data(), event=st.sampled_from(["first_token", "token_batch"]))
    def progress(self, data: st.DataObject, event: str) -> None:
        self._do(event, data.draw(st.sampled_from(sorted(self.oracle.running))))

    @precondition(lambda self: self.oracle.running)
    @rule(data=st.data())
    def start_failed(self, data: st.DataObject) -> None:
        ticket_id = data.draw(st.sampled_from(sorted(self.oracle.running)))
        self.oracle.left(ticket_id, Ending.FAILED)
        self._do("start_failed", ticket_id)

    @rule(which=st.sampled_from(PRESETS))
    def switch(self, which: Preset) -> None:
        before = set(self.oracle.waiting) | self.oracle.running
        self._do("switch", which)
        assert before == set(self.oracle.waiting) | self.oracle.running, "a switch ended somebody"

    @rule(event=st.sampled_from(["pause", "resume", "resume", "drain", "engine_back", "engine_back"]))
    def command(self, event: str) -> None:
        self._do(event)

    @rule()
    def engine_lost(self) -> None:
        self._do("engine_lost")
        self.oracle.seats.clear()

    @rule(running=st.integers(0, 64))
    def observe(self, running: int) -> None:
        self._do("observe", Load(running, 0, 0.5))

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
        assert self.desk.seats_taken == 0
        assert (self.desk.ledger.queued, self.desk.ledger.in_flight) == (0, 0)
        assert sum(self.oracle.outcomes().values()) == len(self.oracle.tickets)
        assert [*self.desk.waiting(), *self.desk.dispatched()] == []


TestDeskMachine = DeskMachine.TestCase
TestDeskMachine.settings = settings(
    max_examples=2000 if LONG else 300, stateful_step_count=50, deadline=None, print_blob=True
)
