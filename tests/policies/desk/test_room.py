"""Making room: at full seats a more urgent ticket takes the place of one that has no token yet."""

from __future__ import annotations

import pytest
from small_presets import small_preset, terms
from watched_desk import WatchedDesk, deeds, dispatched

from headway_policies import Dispatch, Preset, Recall, Ticket, parse_preset
from headway_policies.desk.desk import Desk
from headway_policies.limits import Load


def full(seats: int = 2, **queue: object) -> WatchedDesk:
    """A desk whose seats are all taken by tickets of the least urgent class that have no token."""
    desk = WatchedDesk(small_preset(seats, queue={"make_room": True} | queue))
    for _ in range(seats):
        desk.comes("batch", prompt_tokens=100)
    return desk


def test_the_last_of_the_least_urgent_class_makes_room() -> None:
    """An urgent ticket is dispatched in the event of its arrival; the one that gave its seat waits."""
    desk = full()
    assert deeds(desk.comes("realtime", prompt_tokens=100)) == [Recall(2), Dispatch(3, 1)]
    assert desk.counts("batch")[:3] == (2, 1, 1)
    assert desk.desk.ledger.classes["batch"].recalls == 1


def test_it_goes_back_to_its_own_place() -> None:
    """The recalled ticket is the next of its class, before those that came after it."""
    desk = full()
    desk.comes("batch", prompt_tokens=100)
    desk.comes("realtime", prompt_tokens=100)
    assert dispatched(desk.leaves(4)) == [2]
    assert dispatched(desk.leaves(1)) == [3]


def test_a_ticket_makes_room_once() -> None:
    """Dispatched again, it keeps its seat."""
    desk = full(seats=1)
    desk.comes("realtime", prompt_tokens=100)
    assert dispatched(desk.leaves(2)) == [1]
    assert deeds(desk.comes("realtime", prompt_tokens=100)) == []


def test_what_has_sent_a_token_keeps_its_seat() -> None:
    """No stream is cut."""
    desk = full(seats=1)
    desk.token(1)
    assert deeds(desk.comes("realtime", prompt_tokens=100)) == []


def test_an_equal_makes_no_room() -> None:
    """Only a less urgent ticket does."""
    desk = WatchedDesk(small_preset(1, queue={"make_room": True}))
    desk.comes("realtime")
    assert deeds(desk.comes("realtime")) == []


def test_a_preset_may_forbid_it() -> None:
    """``queue.make_room = false``: the urgent ticket waits for a seat."""
    desk = full(make_room=False)
    assert deeds(desk.comes("realtime", prompt_tokens=100)) == []


@pytest.mark.parametrize(("step_s", "recalled"), [(0.01, True), (1.0, False)])
def test_no_room_is_made_where_a_seat_comes_free_within_a_step(step_s: float, recalled: bool) -> None:
    """The engine would begin with the urgent ticket no earlier: no prompt is computed in vain."""
    desk = WatchedDesk(small_preset(2, queue={"make_room": True}))
    for number in range(1, 17):  # with two such seats, one comes free every 50 ms
        desk.comes("batch", prompt_tokens=100)
        desk.passes(0.1)
        desk.does("observe", Load(1, 0, 0.0, inter_token_s=step_s))
        desk.leaves(number)
    desk.comes("batch", prompt_tokens=100)
    desk.comes("batch", prompt_tokens=100)
    effects = desk.comes("realtime", prompt_tokens=100)
    assert any(isinstance(effect, Recall) for effect in effects) is recalled


def test_one_that_has_waited_for_long_keeps_its_seat() -> None:
    """The ticket would run out of time if it waited again: more than half of its ten seconds are over."""
    desk = WatchedDesk(small_preset(1, queue={"make_room": True}))
    desk.comes("realtime")
    desk.comes("batch")
    desk.passes(6.0)
    assert dispatched(desk.leaves(1)) == [2]
    assert deeds(desk.comes("realtime")) == []


def test_few_prompt_tokens_are_computed_in_vain() -> None:
    """At most 3 per cent of all that are dispatched, and those of four prompts."""
    desk = Desk(_large())
    sent = recalled = 0
    for number in range(1, 2001):
        name = "realtime" if number % 2 else "batch"
        for effect in desk.arrive(Ticket(number, name, float(number), prompt_tokens=100), float(number)):
            sent += isinstance(effect, Dispatch)
            recalled += isinstance(effect, Recall)
        for record in list(desk.dispatched())[: 1 if number % 3 else 0]:
            desk.leave(record.ticket.id, "completed", float(number))  # type: ignore[arg-type]  # an Ending by its text
    assert 0 < recalled <= 0.03 * sent + 4


def _large() -> Preset:
    return small_preset(4, most_waiting=100_000, queue={"make_room": True})


def test_one_that_was_dispatched_before_a_switch_waits_in_the_order_of_now() -> None:
    """The ticket is pulled out of no order that is gone: it is dispatched again, also after one more switch."""
    plain, fair = (small_preset(2, queue={"make_room": True}, inside=inside) for inside in ("fifo", "fair"))
    desk = full()
    desk.does("switch", fair)
    assert deeds(desk.comes("realtime", prompt_tokens=100)) == [Recall(2), Dispatch(3, 2)]
    desk.does("switch", plain)
    assert dispatched(desk.leaves(1)) == [2]
    desk.leaves(2)
    assert desk.counts("batch")[:2] == (2, 0)


def test_a_late_ticket_that_makes_room_has_its_own_place_again() -> None:
    """Those behind which it waited have gone: it is one of those in time, also in the books."""
    classes = {"normal": terms(2, ttft_slo_s=1), "realtime": terms(3)}
    desk = WatchedDesk(small_preset(1, classes=classes, queue={"make_room": True}))
    for _ in range(3):
        desk.comes("normal", prompt_tokens=100)
    desk.passes(0.9)
    assert dispatched(desk.leaves(1)) == [3]
    assert dispatched(desk.leaves(3)) == [2]
    (record,) = desk.desk.dispatched()
    assert record.late
    assert deeds(desk.comes("realtime", prompt_tokens=100)) == [Recall(2), Dispatch(4, 1)]
    assert not record.late
    desk.comes("normal", prompt_tokens=100)
    assert dispatched(desk.leaves(4)) == [2]
    assert dispatched(desk.leaves(2)) == [5]


def test_no_room_is_made_for_a_late_ticket_while_another_can_be_in_time() -> None:
    """After a switch that makes a class the urgent one, its late ticket leaves the seat to the one behind it."""
    turned = small_preset(1, classes={"batch": terms(3), "realtime": terms(1)})
    urgent = small_preset(1, classes={"realtime": terms(3, ttft_slo_s=1), "batch": terms(1)}, queue={"make_room": True})
    desk = WatchedDesk(turned)
    desk.comes("batch", prompt_tokens=100)
    desk.comes("realtime", prompt_tokens=100)
    desk.passes(0.9)
    desk.comes("realtime", prompt_tokens=100)
    assert deeds(desk.does("switch", urgent)) == [Recall(1), Dispatch(3, 2)]


def test_room_is_made_within_the_budget_of_tokens() -> None:
    """Free seats are not what the urgent ticket lacks: stopping a small one would not make room for it."""
    text = (
        'name = "a"\ndefault_class = "low"\n[batching]\nseats = 8\nwindow_ms = 0\nmax_total_tokens = 1000\n'
        "[queue]\nmax_waiting = 100\n[classes.high]\npriority = 3\nmax_waiting = 100\n"
        "[classes.low]\npriority = 1\nmax_waiting = 100\n"
    )
    for large, told in ((900, []), (300, [Recall(1), 3])):
        desk = Desk(parse_preset(text, "p"))
        desk.arrive(Ticket(1, "low", 0.0, prompt_tokens=large - 100, max_tokens=100), 0.0)
        if large == 900:
            desk.first_token(1, 0.0)
        desk.arrive(Ticket(2, "low", 0.1, prompt_tokens=10, max_tokens=40), 0.1)
        made = desk.arrive(Ticket(3, "high", 0.2, prompt_tokens=800, max_tokens=130), 0.2)
        found = [effect.ticket_id if isinstance(effect, Dispatch) else effect for effect in made]
        assert [one for one in found if isinstance(one, Recall | int)] == told
        assert desk._scheduler.seats.tokens <= 1000
