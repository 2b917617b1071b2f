"""The desk against a second desk, written without its data structures: every effect must be the same.

The model keeps one list of tickets, scans it for everything and knows nothing of heaps, lines or counters. Random
histories come to both; time may also pass without a tick, as it does on a busy loop, and tickets may have been on the
way for a while before they are shown to the desk.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from small_presets import small_preset, terms
from tiers import LONG

from headway_policies import Desk, Ending, Load, Preset, Ticket, Timeouts, WakeAt

Deed = tuple[str, int, str]
ORDERED = ("Dispatch", "Reject")  # those that expire together may be reported in any order


@dataclass
class Person:
    """A ticket as the model knows it."""

    ticket: Ticket
    queue_due_s: float
    total_due_s: float
    place: int
    phase: str = "waiting"
    seats: int = 0
    granted: int = 0
    left: bool = False


@dataclass
class Model:
    """What the desk should do, by the plainest means."""

    preset: Preset
    people: dict[int, Person] = field(default_factory=dict)
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    arrived: Counter[str] = field(default_factory=Counter)
    state: str = "open"
    engine_up: bool = True

    def in_line(self) -> list[Person]:
        """The waiting tickets, in the order of dispatch: by urgency, then by arrival."""

        def place(person: Person) -> tuple[int, int]:
            return (-self.preset.classes[self.lane(person)].priority, person.place)

        return sorted((one for one in self.people.values() if one.phase == "waiting"), key=place)

    def lane(self, person: Person) -> str:
        name = person.ticket.class_name
        return name if name in self.preset.classes else self.preset.default_class

    def taken(self) -> int:
        return sum(one.seats for one in self.people.values())

    def fits(self, ticket: Ticket) -> bool:
        limit = self.preset.batching.seats
        return self.state == "open" and self.engine_up and self.taken() + min(ticket.seats, limit) <= limit

    def fill(self) -> list[Deed]:
        deeds: list[Deed] = []
        while (line := self.in_line()) and self.fits(line[0].ticket):
            line[0].phase = "running"
            line[0].seats = line[0].granted = min(line[0].ticket.seats, self.preset.batching.seats)
            deeds.append(("Dispatch", line[0].ticket.id, ""))
        return deeds

    def ends(self, person: Person, outcome: str) -> None:
        self.outcomes[person.ticket.class_name, outcome] += 1

    def time(self, now_s: float) -> list[Deed]:
        """The expired tickets, earliest first, then those that can be dispatched."""
        due = [
            (person.queue_due_s if person.phase == "waiting" else person.total_due_s, ticket_id)
            for ticket_id, person in self.people.items()
            if person.phase != "settled"
        ]
        deeds: list[Deed] = []
        for due_s, ticket_id in sorted(due):
            person = self.people[ticket_id]
            if due_s > now_s:
                break
            if person.phase == "waiting":
                del self.people[ticket_id]
                self.ends(person, "expired_queued")
                deeds.append(("Expire", ticket_id, "queue_timeout"))
            else:
                person.phase = "settled"
                self.ends(person, "expired_running")
                deeds.append(("Abort", ticket_id, "total_timeout"))
        return deeds + (self.fill() if deeds else [])

    def arrive(self, ticket: Ticket, now_s: float) -> list[Deed]:
        deeds = self.time(now_s)
        mine = self.preset.classes[ticket.class_name]
        asked_s = float("inf") if ticket.asked.total_s is None else ticket.asked.total_s
        total_s = ticket.arrived_s + min(mine.total_timeout_s, asked_s)
        person = Person(ticket, min(ticket.arrived_s + mine.queue_timeout_s, total_s), total_s, ticket.id)
        self.arrived[ticket.class_name] += 1
        line = self.in_line()
        same_lane = sum(self.lane(one) == ticket.class_name for one in line)
        refusal = None
        if not self.engine_up:
            refusal = ("engine_lost", "engine_lost")
        elif self.state == "draining":
            refusal = ("draining", "drained")
        elif person.queue_due_s <= now_s:
            refusal = ("queue_timeout", "expired_queued")
        elif line or not self.fits(ticket):
            if same_lane >= mine.max_waiting:
                refusal = ("class_queue_full", "rejected_full")
            elif len(line) >= self.preset.queue.max_waiting:
                refusal = ("queue_full", "rejected_full")
        if refusal is not None:
            self.ends(person, refusal[1])
            return [*deeds, ("Reject", ticket.id, refusal[0])]
        self.people[ticket.id] = person
        return deeds + self.fill()

    def leave(self, ticket_id: int, ending: Ending, now_s: float, *, sequences: int = 0) -> list[Deed]:
        deeds = self.time(now_s)
        person = self.people.get(ticket_id)
        if person is None or person.left:
            return deeds
        waiting = person.phase == "waiting"
        if person.phase != "settled":
            table = {
                Ending.COMPLETED: "failed" if waiting else "completed",
                Ending.FAILED: "failed",
                Ending.CANCELLED: "cancelled_queued" if waiting else "cancelled_running",
                Ending.INVALID: "rejected_invalid",
            }
            self.ends(person, table[ending])
        person.phase, person.left, person.seats = "settled", True, min(sequences, person.seats)
        self.forget()
        return deeds + self.fill()

    def forget(self) -> None:
        self.people = {id_: one for id_, one in self.people.items() if one.seats or not one.left}

    def reseat(self, ticket_id: int, seats: int, now_s: float) -> list[Deed]:
        deeds = self.time(now_s)
        person = self.people.get(ticket_id)
        if person is None or person.phase == "waiting":
            return deeds
        if person.phase == "settled":
            person.seats = min(seats, person.seats)
            self.forget()
        else:
            person.seats = min(seats, person.granted) if person.ticket.seats > person.granted else seats
        return deeds + self.fill()

    def tick(self, now_s: float) -> list[Deed]:
        return self.time(now_s) + self.fill()

    def observe(self, load: Load, now_s: float) -> list[Deed]:
        return self.tick(now_s)

    def first_token(self, ticket_id: int, now_s: float) -> list[Deed]:
        return self.time(now_s)

    def switch(self, preset: Preset, now_s: float) -> list[Deed]:
        deeds = self.time(now_s)
        before, self.preset = self.preset, preset
        if lines_of(before) == lines_of(preset):
            return deeds + self.fill()
        waiting = [one for one in self.people.values() if one.phase == "waiting"]
        for place, person in enumerate(sorted(waiting, key=lambda one: (one.ticket.arrived_s, one.ticket.id))):
            person.place = place
        return deeds + self.fill()

    def pause(self, now_s: float) -> list[Deed]:
        self.state = "paused" if self.state == "open" else self.state
        return self.time(now_s)

    def resume(self, now_s: float) -> list[Deed]:
        deeds = self.time(now_s)
        self.state = "open"
        return deeds + self.fill()

    def turn_away(self, reason: str, outcome: str) -> list[Deed]:
        line = self.in_line()
        for person in line:
            del self.people[person.ticket.id]
            self.ends(person, outcome)
        return [("Reject", person.ticket.id, reason) for person in line]

    def drain(self, now_s: float) -> list[Deed]:
        self.state = "draining"
        return self.time(now_s) + self.turn_away("draining", "drained")

    def engine_lost(self, now_s: float) -> list[Deed]:
        self.engine_up = False
        deeds = self.time(now_s) + self.turn_away("engine_lost", "engine_lost")
        for ticket_id, person in self.people.items():
            if person.phase == "running" and person.seats:
                person.phase = "settled"
                self.ends(person, "engine_lost")
                deeds.append(("Abort", ticket_id, "engine_lost"))
            person.seats = 0
        self.forget()
        return deeds

    def engine_back(self, now_s: float) -> list[Deed]:
        deeds = self.time(now_s)
        self.engine_up = True
        return deeds + self.fill()


def lines_of(preset: Preset) -> object:
    """What the queues of a preset are made of; where that stays the same every ticket keeps its place."""
    return {name: (one.priority, one.timeouts()) for name, one in preset.classes.items()}, preset.default_class


PRESETS = [
    small_preset(1, most_waiting=3),
    small_preset(
        4,
        most_waiting=6,
        classes={"realtime": terms(3, places=2, queue_s=1), "batch": terms(1, queue_s=30, total_s=31)},
    ),
    small_preset(2, most_waiting=0),
    small_preset(3, classes={"realtime": terms(1, queue_s=3, total_s=8), "normal": terms(9, places=0), "x": terms(4)}),
]


class DeskAndModel(RuleBasedStateMachine):
    """The same events to both; the effects and the books are compared after each."""

    @initialize(preset=st.sampled_from(PRESETS))
    def open(self, preset: Preset) -> None:
        self.desk, self.model = Desk(preset), Model(preset)
        self.now_s, self.next_id = 100.0, 0

    def both(self, event: str, *arguments: Any, **more: Any) -> None:
        effects = getattr(self.desk, event)(*arguments, self.now_s, **more)
        expected = getattr(self.model, event)(*arguments, self.now_s, **more)
        done = [
            (type(one).__name__, one.ticket_id, str(getattr(one, "reason", "")))
            for one in effects
            if not isinstance(one, WakeAt)
        ]
        assert Counter(done) == Counter(expected)
        assert [one for one in done if one[0] in ORDERED] == [one for one in expected if one[0] in ORDERED]

    def any_ticket(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from([*self.model.people, -1]))

    @rule(
        data=st.data(),
        seats=st.sampled_from([1, 1, 2, 9]),
        patience_s=st.sampled_from([None, None, 0.0, 0.5, 100.0]),
        on_the_way_s=st.sampled_from([0.0, 0.0, 0.0, 2.0]),
    )
    def arrive(self, data: st.DataObject, seats: int, patience_s: float | None, on_the_way_s: float) -> None:
        name = data.draw(st.sampled_from(self.desk.preset.by_urgency()))
        self.next_id += 1
        self.now_s += 1e-6  # no two arrive at the same instant from the same place
        asked = Timeouts(total_s=patience_s)
        self.both("arrive", Ticket(self.next_id, name, self.now_s - on_the_way_s, seats=seats, asked=asked))

    @rule(step_s=st.sampled_from([0.001, 0.3, 1.0, 5.0, 40.0]), ticks=st.booleans())
    def time_passes(self, step_s: float, ticks: bool) -> None:
        self.now_s += step_s
        if ticks:
            self.both("tick")

    @rule(data=st.data(), ending=st.sampled_from(list(Ending)), sequences=st.sampled_from([0, 0, 1, 2]))
    def leave(self, data: st.DataObject, ending: Ending, sequences: int) -> None:
        self.both("leave", self.any_ticket(data), ending, sequences=sequences)

    @rule(data=st.data(), seats=st.integers(0, 4))
    def reseat(self, data: st.DataObject, seats: int) -> None:
        self.both("reseat", self.any_ticket(data), seats)

    @rule(data=st.data())
    def first_token(self, data: st.DataObject) -> None:
        self.both("first_token", self.any_ticket(data))

    @rule(preset=st.sampled_from(PRESETS))
    def switch(self, preset: Preset) -> None:
        self.both("switch", preset)

    @rule(event=st.sampled_from(["pause", "resume", "resume", "drain", "engine_lost", "engine_back", "engine_back"]))
    def command(self, event: str) -> None:
        self.both(event)

    @rule()
    def observe(self) -> None:
        self.both("observe", Load(1, 0, 0.5))

    @precondition(lambda self: hasattr(self, "desk"))
    @invariant()
    def the_books_agree(self) -> None:
        for name, counts in self.desk.ledger.classes.items():
            here = [one for one in self.model.people.values() if one.ticket.class_name == name]
            assert counts.balanced
            assert counts.arrived == self.model.arrived[name] == sum(counts.decisions.values())
            assert counts.queued == sum(one.phase == "waiting" for one in here)
            assert counts.in_flight == sum(one.phase == "running" for one in here)
            assert {str(outcome): number for outcome, number in counts.outcomes.items()} == {
                outcome: number for (of, outcome), number in self.model.outcomes.items() if of == name
            }
        assert self.desk.seats_taken == self.model.taken()

    def teardown(self) -> None:
        if hasattr(self, "desk"):
            for ticket_id in list(self.model.people):
                self.both("leave", ticket_id, Ending.COMPLETED)
                self.both("reseat", ticket_id, 0)
            self.the_books_agree()
            assert self.desk._lifecycle.records == {}
            assert len(self.desk._scheduler.queue) == 0
            assert self.desk.seats_taken == 0


TestDeskAndModel = DeskAndModel.TestCase
TestDeskAndModel.settings = settings(
    max_examples=2000 if LONG else 40, stateful_step_count=50, deadline=None, print_blob=True
)
