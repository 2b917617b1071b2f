"""Batching strategies: each by its pattern of batches, on a clock that only the test moves."""

from __future__ import annotations

from typing import Any

import pytest
from small_presets import small_preset, terms
from watched_desk import WatchedDesk, dispatched

from headway_policies import Ending, PriorityClass, Usage

ONE_CLASS = {"normal": terms(1, queue_s=None, total_s=None)}


def gathering(
    strategy: str, seats: int = 4, *, classes: dict[str, PriorityClass] | None = None, **batching: Any
) -> WatchedDesk:
    """A desk whose batches end before the next one begins; its windows are a second by default."""
    more = {"strategy": strategy, "window_ms": 1000} | batching
    return WatchedDesk(small_preset(seats, classes=classes or ONE_CLASS, batching=more))


def come(it: WatchedDesk, count: int, name: str = "normal", **more: Any) -> list[int]:
    """So many arrive; returns the requests dispatched by those events."""
    return [one for _ in range(count) for one in dispatched(it.comes(name, **more))]


def end(it: WatchedDesk, *ticket_ids: int) -> list[int]:
    """These end, one after the other; returns the requests dispatched by those events."""
    return [one for ticket_id in ticket_ids for one in dispatched(it.leaves(ticket_id))]


# ---------------------------------------------------------------------- static


def test_static_waits_for_exactly_as_many_as_it_has_seats() -> None:
    """Three of four wait, however long; the fourth sends them all together."""
    it = gathering("static")
    assert come(it, 3) == []
    assert dispatched(it.passes(3600.0)) == []
    assert come(it, 1) == [1, 2, 3, 4]


def test_the_next_static_batch_begins_when_the_longest_of_the_last_has_ended() -> None:
    """Eight wait, four run: seats that free up one by one stay empty until the last of them is free."""
    it = gathering("static")
    come(it, 12)
    assert end(it, 4, 2, 1) == []
    assert it.desk.seats_taken == 1
    assert end(it, 3) == [5, 6, 7, 8]


def test_a_static_batch_ends_when_the_engine_is_done_with_it() -> None:
    """A client that is slow to read holds no batch up: the engine's word frees the seats."""
    it = gathering("static", 2)
    come(it, 4)
    it.holds(1, 0)
    assert dispatched(it.holds(2, 0)) == [3, 4]


def test_what_does_not_fill_a_static_batch_is_flushed_in_time() -> None:
    """With flush_after_s the last ones leave when the first of them has waited that long, neither sooner nor later."""
    it = gathering("static", flush_after_s=8.0)
    come(it, 1)
    it.passes(5.0)
    come(it, 1)
    assert dispatched(it.passes(2.75)) == []
    assert dispatched(it.passes(0.25)) == [1, 2]


def test_a_flush_waits_for_the_batch_before_it() -> None:
    """The time is over while the last batch still runs: they leave as it ends."""
    it = gathering("static", 2, flush_after_s=1.0)
    come(it, 3)
    assert dispatched(it.passes(10.0)) == []
    assert end(it, 1) == []
    assert end(it, 2) == [3]


def test_a_static_batch_counts_sequences() -> None:
    """A request of three sequences and one of one fill four seats."""
    it = gathering("static")
    assert come(it, 1, seats=3) == []
    assert come(it, 1) == [1, 2]


def test_a_request_that_leaves_a_gathering_batch_is_missed() -> None:
    """One of three gives up: four are needed all the same."""
    it = gathering("static")
    come(it, 3)
    it.leaves(2, Ending.CANCELLED)
    assert come(it, 1) == []
    assert come(it, 1) == [1, 3, 4, 5]


# ---------------------------------------------------------------------- dynamic


def test_a_full_dynamic_batch_leaves_at_once() -> None:
    """No window is waited out when there is no request to wait for."""
    it = gathering("dynamic")
    assert come(it, 3) == []
    assert come(it, 1) == [1, 2, 3, 4]
    assert it.now_s == 0.0


def test_the_window_opens_with_the_first_arrival_and_no_later_one_restarts_it() -> None:
    """One comes every 0.3 s: the batch leaves one second after the first of them, partly filled, on the dot."""
    it = gathering("dynamic")
    come(it, 1)
    for _ in range(2):
        it.passes(0.3)
        assert come(it, 1) == []
    assert dispatched(it.passes(0.3)) == []
    assert dispatched(it.passes(0.1 + 1e-9)) == [1, 2, 3]


def test_the_window_is_timed_by_the_desk_and_not_by_the_next_arrival() -> None:
    """The desk asks to be woken at the very end of the window; without any event in between the lone one leaves."""
    it = gathering("dynamic")
    come(it, 1)
    assert it.oracle.wake_s == 1.0
    assert dispatched(it.passes(1.0)) == [1]


def test_the_window_goes_on_with_the_next_request_when_the_first_gives_up() -> None:
    """The first arrival leaves the queue: the window is the next one's."""
    it = gathering("dynamic")
    come(it, 1)
    it.passes(0.5)
    come(it, 1)
    it.leaves(1, Ending.CANCELLED)
    assert dispatched(it.passes(0.75)) == []
    assert dispatched(it.passes(0.25)) == [2]


def test_those_that_leave_together_are_numbered_as_one_batch() -> None:
    """Two that leave together share a number, the one that leaves later has another."""
    it = gathering("dynamic", 2)
    come(it, 3)
    sitting = it.oracle.rules.sitting
    first, second = sitting[1].batch, sitting[2].batch
    end(it, 1, 2)
    it.passes(2.0)
    assert first == second != sitting[3].batch


def test_requests_gathered_while_a_batch_ran_are_dispatched_as_it_ends() -> None:
    """Their window ended behind the barrier: not a moment is added to it."""
    it = gathering("dynamic")
    come(it, 4)
    come(it, 2)
    assert dispatched(it.passes(5.0)) == []
    assert end(it, 1, 2, 3) == []
    assert end(it, 4) == [5, 6]


def test_the_most_urgent_class_is_held_for_company_only_as_long_as_the_preset_says() -> None:
    """A realtime request has a window of its own, and takes along the requests that wait already."""
    classes = {"realtime": terms(2), "normal": terms(1)}
    for urgent_ms, waits_s in ((0, 0.0), (250, 0.25)):
        it = gathering("dynamic", classes=classes, urgent_window_ms=urgent_ms)
        come(it, 2)
        it.passes(0.125)
        gone = come(it, 1, "realtime")
        assert gone == ([] if waits_s else [3, 1, 2])
        assert dispatched(it.passes(waits_s)) == ([3, 1, 2] if waits_s else [])


def test_a_lone_class_has_no_urgent_window() -> None:
    """Where all are equal none is urgent: the window holds."""
    it = gathering("dynamic", urgent_window_ms=0)
    assert come(it, 2) == []


def test_a_batch_of_a_preferred_size_does_not_wait_for_more() -> None:
    """With preferred sizes 2 and 3 of 8 seats two leave at once; five that gathered leave as three, then two."""
    it = gathering("dynamic", 8, preferred_batch_sizes=[2, 3])
    assert come(it, 2) == [1, 2]
    come(it, 5)
    assert end(it, 1) == []
    assert end(it, 2) == [3, 4, 5]
    assert end(it, 3, 4, 5) == [6, 7]


def test_a_window_of_no_length_dispatches_what_is_there() -> None:
    """window_ms = 0: the first goes alone, those that gathered meanwhile together."""
    it = gathering("dynamic", window_ms=0)
    assert come(it, 3) == [1]
    assert end(it, 1) == [2, 3]


def test_a_paused_desk_lets_no_window_end() -> None:
    """No dispatch and no wake-up while paused; resumed, an overdue batch is dispatched."""
    it = gathering("dynamic")
    it.does("pause")
    come(it, 2)
    assert it.oracle.wake_s is None
    it.passes(3.0)
    assert dispatched(it.does("resume")) == [1, 2]


# ---------------------------------------------------------------------- continuous


def test_a_free_seat_is_refilled_in_the_event_that_frees_it() -> None:
    """Continuous: no request waits for the rest of a batch; the first to end is the first to be replaced."""
    it = gathering("continuous")
    assert come(it, 6) == [1, 2, 3, 4]
    assert end(it, 3) == [5]
    assert end(it, 1) == [6]
    assert dispatched(it.passes(0.0)) == []


# ---------------------------------------------------------------------- tokens


@pytest.mark.parametrize("strategy", ["static", "dynamic", "continuous"])
def test_what_runs_together_never_exceeds_the_token_budget(strategy: str) -> None:
    """Prompt and possible output of 400 each, a budget of 1000: two at a time, whatever seats are free."""
    it = gathering(strategy, 8, max_total_tokens=1000, flush_after_s=1.0)
    come(it, 6, prompt_tokens=300, max_tokens=100)
    it.passes(1.0)
    seen = []
    while it.oracle.running:
        seen.append(len(it.oracle.running))
        end(it, *it.oracle.running)
        it.passes(1.0)
    assert seen == [2, 2, 2]


@pytest.mark.parametrize("strategy", ["static", "dynamic", "continuous"])
def test_what_is_larger_than_the_budget_runs_alone(strategy: str) -> None:
    """The request waits until none runs, none joins it, and none behind it is blocked for ever."""
    it = gathering(strategy, 8, max_total_tokens=1000, flush_after_s=2.0)
    come(it, 1, prompt_tokens=300, max_tokens=100)
    come(it, 1, prompt_tokens=5000, max_tokens=100)
    come(it, 1, prompt_tokens=300, max_tokens=100)
    order = []
    for _ in range(3):
        it.passes(3.0)
        order.append(sorted(it.oracle.running))
        end(it, *it.oracle.running)
    assert order == [[1], [2], [3]]


def test_a_batch_is_full_when_its_tokens_are() -> None:
    """Two requests reach the budget of a dynamic batch of eight: it leaves without waiting for the window."""
    it = gathering("dynamic", 8, max_total_tokens=800)
    assert come(it, 2, prompt_tokens=300, max_tokens=100) == [1, 2]


def test_a_request_that_says_nothing_of_its_length_counts_with_the_usual_one() -> None:
    """Without max_tokens 512 are taken for granted: two of them do not fit into 1000."""
    it = gathering("continuous", 8, max_total_tokens=1000)
    assert come(it, 2) == [1]


# ---------------------------------------------------------------------- bins


def learnt(strategy: str, **more: Any) -> WatchedDesk:
    """A desk that has seen tenants of short and of long answers often enough to distinguish them."""
    it = gathering("continuous", 64)
    for number in range(200):
        tenant, output_tokens = ("short", 10) if number % 2 else ("long", 400)
        come(it, 1, tenant=tenant, max_tokens=500)
        it.oracle.left(it.arrived, Ending.COMPLETED)
        effects = it.desk.leave(it.arrived, Ending.COMPLETED, it.now_s, Usage(0, output_tokens))
        it.oracle.follow(effects, it.now_s)
    gathered = small_preset(4, classes=ONE_CLASS, batching={"strategy": strategy, "window_ms": 1000, "bins": 2} | more)
    it.does("switch", gathered)
    for number in range(32):  # the bins look at what arrives
        come(it, 1, tenant="short" if number % 2 else "long", max_tokens=500)
    while it.oracle.waiting or it.oracle.running:
        it.passes(1.0)
        end(it, *it.oracle.running)
    return it


def test_batches_are_formed_of_like_lengths() -> None:
    """Two bins: short and long ones that arrive in turn leave in batches of their own."""
    it = learnt("dynamic")
    first = it.arrived + 1
    for number in range(8):
        come(it, 1, tenant="short" if number % 2 else "long", max_tokens=500)
    batches: dict[int, set[str]] = {}
    for _ in range(9):
        for one in it.oracle.running:
            if one >= first:
                batch = it.oracle.rules.sitting[one].batch
                batches.setdefault(batch, set()).add(it.oracle.tickets[one].tenant)
        end(it, *it.oracle.running)
        it.passes(1.0)
    assert sorted(map(sorted, batches.values())) == [["long"], ["short"]]


def test_the_bin_that_has_waited_longest_goes_first() -> None:
    """Both bins have outwaited their window behind the barrier: the one with the oldest ticket leaves."""
    it = learnt("dynamic")
    come(it, 4, tenant="long", max_tokens=500)
    running = sorted(it.oracle.running)
    assert len(running) == 4
    come(it, 1, tenant="short", max_tokens=500)
    it.passes(0.25)
    come(it, 3, tenant="long", max_tokens=500)
    it.passes(5.0)
    assert [it.oracle.tickets[one].tenant for one in end(it, *running)] == ["short"]


# ---------------------------------------------------------------------- switches


@pytest.mark.parametrize("after", ["static", "dynamic", "continuous"])
@pytest.mark.parametrize("before", ["static", "dynamic", "continuous"])
def test_a_switch_of_strategy_drops_no_waiting_or_running_request(before: str, after: str) -> None:
    """Two run and three wait: after the switch all five are served, under the barrier of the new strategy."""
    it = gathering(before, 2, flush_after_s=3.0)
    come(it, 5)
    it.does("switch", gathering(after, 2, flush_after_s=3.0).desk.preset)
    it.oracle.check(it.now_s)
    assert it.desk.ledger.queued == 3
    assert end(it, 1) == ([3] if after == "continuous" else [])
    for _ in range(5):
        it.passes(4.0)
        end(it, *it.oracle.running)
    assert it.counts() == (5, 0, 0, {"completed": 5})


def test_a_switch_to_continuous_ends_every_window() -> None:
    """Two gather for company that is not needed any more: they leave in the event of the switch."""
    it = gathering("dynamic")
    come(it, 2)
    assert dispatched(it.does("switch", small_preset(4, classes=ONE_CLASS))) == [1, 2]


def test_a_smaller_window_counts_for_gathering_requests() -> None:
    """The window of the new preset counts from the first arrival: it may be over already."""
    it = gathering("dynamic", window_ms=10_000)
    come(it, 2)
    it.passes(2.0)
    assert dispatched(it.does("switch", gathering("dynamic").desk.preset)) == [1, 2]
