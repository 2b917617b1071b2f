"""The desk and its policies: what the limit and the order hear, and when they are made anew."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from recording_policy import RecordingLimit, RecordingOrder
from small_presets import small_preset, terms
from watched_desk import WatchedDesk

from headway_policies import Desk, Dispatch, Effect, Ending, Load, Preset, Reject, Ticket, Usage, WakeAt, parse_preset
from headway_policies.desk.capacity import CapReason
from headway_policies.fallback.rungs import Fallback, Rung
from headway_policies.limits.limit import Signals

ORDER = "recording_policy:RecordingOrder"


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> type[RecordingLimit]:
    """Every limit is one that records its signals."""
    monkeypatch.setattr("headway_policies.desk.capacity.make_limit", RecordingLimit)
    return RecordingLimit


def step(it: WatchedDesk) -> Signals:
    """The signals that the limit gets for a step now."""
    it.does("observe", Load(1, 0, 0.5))
    return RecordingLimit.observed[-1][0]


# ---------------------------------------------------------------------- the limit


def test_the_limit_hears_how_the_desk_stands(recorded: type[RecordingLimit]) -> None:
    """Seats taken, waiting requests, and the means and deviation of what has ended; with the time of the step."""
    it = WatchedDesk(small_preset(2))
    seen = step(it)
    assert (seen.load, seen.seats_taken, seen.queued) == (Load(1, 0, 0.5), 0, 0)
    assert (seen.prompt_tokens_mean, seen.output_tokens_mean, seen.sequence_tokens_std) == (0.0, 0.0, 0.0)
    for _ in range(4):
        it.comes()
    it.passes(3.0)
    seen = step(it)
    assert (seen.seats_taken, seen.queued, recorded.observed[-1][1]) == (2, 2, 3.0)
    for ticket_id, prompt_tokens in ((1, 10), (2, 30)):
        it.oracle.left(ticket_id, Ending.COMPLETED)
        effects = it.desk.leave(ticket_id, Ending.COMPLETED, it.now_s, Usage(prompt_tokens, 100))
        it.oracle.follow(effects, it.now_s)
    seen = step(it)
    means = (seen.prompt_tokens_mean, seen.output_tokens_mean, seen.sequence_tokens_std)
    assert means == pytest.approx((20.0, 100.0, 10.0))


SHORT: dict[str, tuple[Preset, list[dict[str, Any]], bool]] = {
    "nobody is here": (small_preset(2), [], False),
    "a seat is free": (small_preset(2), [{}], False),
    "all seats are taken, and nobody waits": (small_preset(2), [{}, {}], False),
    "one waits for a seat": (small_preset(2), [{}, {}, {}], True),
    "one would not wait for a seat": (small_preset(2), [{}, {}, {"may_wait": False}], True),
    "one was refused while the seats were taken": (small_preset(2, most_waiting=0), [{}, {}, {}], True),
    "a wide one waits for its seats": (small_preset(2), [{}, {"seats": 2}], True),
    "one waits for tokens alone": (
        small_preset(4, batching={"max_total_tokens": 200}),
        [{"prompt_tokens": 100, "max_tokens": 0}, {"prompt_tokens": 150, "max_tokens": 0}],
        False,
    ),
    "one waits for a seat that is kept for another class": (
        small_preset(2, classes={"realtime": terms(3, reserved_seats=1), "batch": terms(1)}),
        [{"name": "batch"}, {"name": "batch"}],
        True,
    ),
    "a batch is gathering": (small_preset(2, batching={"strategy": "dynamic", "window_ms": 500}), [{}], False),
    "a full batch has left": (small_preset(2, batching={"strategy": "dynamic", "window_ms": 500}), [{}, {}], True),
}


@pytest.mark.parametrize(("preset", "tickets", "limited"), SHORT.values(), ids=SHORT)
def test_the_limit_hears_whether_it_holds_anybody_up(
    recorded: type[RecordingLimit], preset: Preset, tickets: list[dict[str, Any]], limited: bool
) -> None:
    """Only requests that more seats would have admitted count, and what was reported once is not reported for the next
    step."""
    it = WatchedDesk(preset)
    for ticket in tickets:
        it.comes(**({"name": preset.by_urgency()[-1]} | ticket))
    assert step(it).limited is limited
    if not it.desk.ledger.queued:
        assert step(it).limited is False


@pytest.mark.parametrize("more", [{}, {"may_wait": False}, {"name": "batch"}, {"seats": 2}])
def test_being_held_up_is_not_forgotten_within_a_step(recorded: type[RecordingLimit], more: dict[str, Any]) -> None:
    """A request waited for a seat, and got it; whatever arrives afterwards, the step is reported."""
    it = WatchedDesk(small_preset(2))
    for _ in range(3):
        it.comes()
    for ticket_id in (1, 2, 3):
        it.leaves(ticket_id)
    it.comes(**more)
    it.leaves(4)
    assert step(it).limited is True
    assert step(it).limited is False


def test_the_limit_is_asked_at_the_time_of_the_event(recorded: type[RecordingLimit]) -> None:
    """A limit that grows with time is in force at the next event, whichever that is."""
    preset = small_preset(1)
    again: dict[str, Callable[[Desk, float], object]] = {
        "tick": lambda desk, now_s: desk.tick(now_s),
        "observe": lambda desk, now_s: desk.observe(Load(1, 0, 0.5), now_s),
        "pause": lambda desk, now_s: desk.pause(now_s),
        "switch": lambda desk, now_s: desk.switch(preset, now_s),
        "cap_seats": lambda desk, now_s: desk.cap_seats(CapReason.MEMORY, 1.0, now_s),
        "warmed_up": lambda desk, now_s: desk.warmed_up(now_s),
        "engine_silent": lambda desk, now_s: desk.engine_silent(now_s),
        "engine_restarting": lambda desk, now_s: desk.engine_restarting((), now_s),
        "engine_back": lambda desk, now_s: desk.engine_back(now_s),
        "first_token": lambda desk, now_s: desk.first_token(1, now_s),
        "reseat": lambda desk, now_s: desk.reseat(1, 1, now_s),
    }
    for name, event in again.items():
        desk = Desk(preset)
        assert desk.limit == 1
        event(desk, 25.0)
        assert (name, desk.limit, desk.read(35.0).proposed_limit) == (name, 3, 4)


def test_a_ramp_climbs_to_the_limit_of_the_moment(recorded: type[RecordingLimit]) -> None:
    """The next seat is due by what the limit says at that event, and the desk asks to be woken for it."""
    preset = small_preset(4)
    preset = preset.model_copy(update={"warmup": preset.warmup.model_copy(update={"ramp_s": 100.0})})
    due_s = []
    for now_s in (1.0, 1001.0):
        (wake,) = [one.at_s for one in Desk(preset).warmed_up(now_s) if isinstance(one, WakeAt)]
        due_s.append(wake - now_s)
    assert 0.0 < due_s[1] < due_s[0] < 100.0  # of more seats the second one opens sooner


@pytest.mark.parametrize("seats", [1, 5])
def test_another_limit_knows_the_ceiling(recorded: type[RecordingLimit], seats: int) -> None:
    """The engine's ceiling holds for the first limit and for each that a switch makes."""
    desk = Desk(small_preset(3), ceiling=2)
    made = [desk._capacity._limit]
    desk.switch(small_preset(seats), 1.0)
    made.append(desk._capacity._limit)
    assert [one.ceiling for one in made] == [2, 2]  # type: ignore[attr-defined]  # they are recorded
    assert (desk.limit, desk.read(0.0).proposed_limit) == (min(seats, 2), min(seats, 2))


# ---------------------------------------------------------------------- the order


ORDERED: dict[str, dict[str, Any]] = {
    "continuous": {},
    "dynamic": {"strategy": "dynamic", "window_ms": 1000},
    "in bins": {"strategy": "dynamic", "window_ms": 1000, "bins": 2},
    "static": {"strategy": "static", "flush_after_s": 2.0},
}


def ordered(batching: dict[str, Any], seats: int = 2) -> Preset:
    """A preset with an order that raises where something is missing."""
    classes = {
        "realtime": terms(3, may_bypass=True, reserved_seats=1),
        "normal": terms(2, stall_timeout_s=5.0),
        "batch": terms(1, sheddable=True),
    }
    preset = small_preset(
        seats, classes=classes, between=ORDER, batching=batching, most_waiting=6, queue={"evict": True}
    )
    return preset.model_copy(update={"fallback": Fallback(bypass_seats=2)})


@pytest.mark.parametrize("batching", ORDERED.values(), ids=ORDERED)
def test_an_order_hears_times_lengths_and_tickets_whatever_happens(batching: dict[str, Any]) -> None:
    """Through waiting, going, going beside, being evicted, a switch and the death of an engine: nothing is left out."""
    desk, running = Desk(ordered(batching), ceiling=8), list[int]()

    def does(event: str, *arguments: object, now_s: float) -> None:
        effects = getattr(desk, event)(*arguments, now_s)
        running.extend(one.ticket_id for one in effects if isinstance(one, Dispatch))

    for number, name in enumerate(["normal", "normal", *["batch"] * 4, *["realtime"] * 3]):
        does("arrive", Ticket(number, name, 0.0, prompt_tokens=10, max_tokens=10), now_s=0.0)
    does("fall_back", frozenset({Rung.BYPASS}), now_s=0.0)
    does("tick", now_s=2.5)
    assert running
    does("fall_back", frozenset[Rung](), now_s=2.5)
    does("switch", ordered(batching, seats=3), now_s=2.5)
    does("first_token", running[0], now_s=2.5)
    does("engine_restarting", set(running[1:]), now_s=3.0)
    does("leave", running[0], Ending.FAILED, now_s=3.0)
    running.clear()
    does("engine_back", now_s=4.0)
    for second in range(20):
        for ticket_id in [running.pop() for _ in list(running)]:
            does("leave", ticket_id, Ending.COMPLETED, now_s=5.0 + second)
        does("tick", now_s=5.0 + second)
    assert desk.read(0.0).order_failed is None
    assert (desk.ledger.queued, desk.ledger.in_flight, desk.seats_taken) == (0, 0, 0)


USED: dict[str, tuple[Usage | None, bool, Ending, list[float]]] = {
    "what it really used": (Usage(30, 7), True, Ending.COMPLETED, [-8.0]),
    "of one that failed as well": (Usage(30, 7), True, Ending.FAILED, [-8.0]),
    "its prompts alone, where nothing was shown": (None, False, Ending.CANCELLED, [-15.0]),
    "nothing more, where nobody knows how far it came": (None, True, Ending.CANCELLED, [0.0]),
}


@pytest.mark.parametrize(("usage", "shown", "ending", "corrected"), USED.values(), ids=USED)
def test_an_order_books_what_is_expected_and_then_what_was_used(
    usage: Usage | None, shown: bool, ending: Ending, corrected: list[float]
) -> None:
    """Three sequences of 10 and 5 tokens are charged when they go; the difference follows when they have ended."""
    desk = Desk(ordered({}, seats=8))
    RecordingOrder.booked.clear()
    desk.arrive(Ticket(1, "normal", 0.0, seats=3, prompt_tokens=10, max_tokens=5), 0.0)
    ((_, expected),) = RecordingOrder.booked
    assert 30 < expected <= 45
    if shown:
        desk.first_token(1, 1.0)
    desk.leave(1, ending, 2.0, usage)
    used = {-8.0: 37.0, -15.0: 30.0, 0.0: expected}
    assert RecordingOrder.booked[1:] == [(1, pytest.approx(used[one] - expected)) for one in corrected]


def test_an_order_takes_back_what_a_recalled_ticket_was_charged() -> None:
    """The ticket is charged again when it goes again, and corrected once."""
    desk = Desk(ordered({}, seats=8))
    RecordingOrder.booked.clear()
    desk.arrive(Ticket(1, "normal", 0.0, prompt_tokens=10, max_tokens=5), 0.0)
    desk.engine_restarting({1}, 1.0)
    ((_, charged), taken_back) = RecordingOrder.booked
    assert taken_back == (1, -charged)
    desk.leave(1, Ending.CANCELLED, 1.5)
    assert len(RecordingOrder.booked) == 2


def test_an_order_is_made_anew_only_where_its_part_of_the_preset_changes() -> None:
    """A switch of seats or windows keeps the books; one of the order, a class or the barrier opens new ones, unpaid."""
    preset = ordered({})
    desk = Desk(preset)
    desk.arrive(Ticket(1, "normal", 0.0, prompt_tokens=10), 0.0)
    keeps = [ordered({"window_ms": 20}), ordered({}, seats=5)]
    renews = [
        preset.model_copy(update={"default_class": "batch"}),
        preset.model_copy(update={"classes": preset.classes | {"more": terms(9)}}),
        ordered({"strategy": "static"}),
        ordered({"strategy": "static", "bins": 2}),
    ]
    for other, new in [*((one, False) for one in keeps), *((one, True) for one in renews)]:
        made = RecordingOrder.made
        desk.switch(other, 1.0)
        assert (RecordingOrder.made > made) is new
    made = RecordingOrder.made
    desk.switch(ordered({"strategy": "dynamic", "bins": 2}), 1.0)
    assert RecordingOrder.made > made  # its classes are others again
    RecordingOrder.booked.clear()
    desk.leave(1, Ending.COMPLETED, 2.0, Usage(10, 10))
    assert RecordingOrder.booked == []


def test_steps_that_are_alike_are_heard_together_while_nothing_waits(recorded: type[RecordingLimit]) -> None:
    """At the latest before the next event and the next question; each by itself while a ticket waits."""
    desk, times_s = Desk(small_preset(2)), count(0.0, 0.02)

    def heard(steps: int) -> list[tuple[int, int]]:
        for _ in range(steps):
            desk.observe(Load(2, 0, 0.5, 0.02), next(times_s))
        seen = [(signals.load.steps, signals.seats_taken) for signals, _ in recorded.observed]
        recorded.observed.clear()
        return seen

    desk.arrive(Ticket(1, "normal", 0.0), next(times_s))
    assert heard(9) == [(8, 1)]
    desk.arrive(Ticket(2, "normal", 0.0), next(times_s))
    assert heard(3) == [(1, 1)]
    desk.read(next(times_s))
    assert heard(0) == [(3, 2)]
    desk.arrive(Ticket(3, "normal", 0.0), next(times_s))
    assert heard(3) == [(1, 2), (1, 2), (1, 2)]


def test_the_bounds_of_a_preset_that_comes_hold_for_what_waits_already() -> None:
    """Of a full budget of prompt tokens the longest queue gives its place, as under a preset that was there before."""

    def preset(bounds: str) -> Preset:
        queue = f"[queue]\nmax_waiting = 1000\n{bounds}\n[classes.n]\npriority = 1\nmax_waiting = 1000\n"
        return parse_preset(f'name = "a"\ndefault_class = "n"\n[batching]\nseats = 1\nwindow_ms = 0\n{queue}', "p")

    def refused(*presets: Preset) -> list[int]:
        desk, arrivals = Desk(presets[0]), (("x", 10), ("heavy", 9995), ("light", 10), ("light", 10))
        for other in presets[1:]:
            desk.switch(other, 0.0)
        effects = [
            effect
            for number, (tenant, tokens) in enumerate(arrivals)
            for effect in desk.arrive(Ticket(number, "n", float(number), tenant=tenant, prompt_tokens=tokens), 1.0)
        ]
        return [effect.ticket_id for effect in effects if isinstance(effect, Reject)]

    bounded = preset("max_waiting_tokens = 10000")
    assert refused(bounded) == [1]
    assert refused(preset(""), bounded) == [1]


def test_a_limit_that_rises_while_nothing_is_reported_is_used() -> None:
    """The desk asks to be woken when the preset's number comes in force again: nothing else may happen then."""
    text = (
        'name = "a"\ndefault_class = "n"\n[batching]\nseats = 8\nwindow_ms = 0\n[limit]\npolicy = "aimd"\n'
        "inter_token_slo_ms = 10\nstale_after_s = 10\n[queue]\nmax_waiting = 100\n"
        "[classes.n]\npriority = 1\nmax_waiting = 100\n"
    )
    desk, now_s = Desk(parse_preset(text, "p")), 0.0
    for number in range(12):
        desk.arrive(Ticket(number, "n", now_s), now_s)
    wakes = list[float]()

    def told(effects: list[Effect]) -> None:
        wakes.extend(effect.at_s for effect in effects if isinstance(effect, WakeAt))

    for _ in range(400):
        now_s += 0.1
        told(desk.observe(Load(running=8, waiting=0, kv_usage_ratio=0.1, inter_token_s=0.1), now_s))
    for number in range(6):
        told(desk.leave(number, Ending.COMPLETED, now_s))
    assert (desk.limit, len(list(desk.waiting()))) == (4, 2)
    for _ in range(3):  # an earlier one may stand from before the last step
        told(desk.tick(wakes[-1]))
    assert wakes[-1] <= now_s + 10 + 1e-6
    assert (desk.limit, len(list(desk.waiting()))) == (8, 0)
