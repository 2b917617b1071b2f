"""Crash suspects: which ticket runs alone, in which order, and when all are cleared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.engine.crash_suspects import CrashSuspects

ALONE_S = 10.0


def crashed(*suspects: int) -> CrashSuspects:
    """One crash, and the tickets that were running at it."""
    one = CrashSuspects()
    one.crash()
    for ticket_id in suspects:
        one.suspect(ticket_id)
    return one


def test_before_any_crash_there_is_no_suspect() -> None:
    """None runs alone, none is to be cleared."""
    one = CrashSuspects()
    assert (one.crashes, len(one), one.next(), one.cleared_s, one.update(1e9)) == (0, 0, None, None, False)


def test_they_go_one_after_another_in_the_order_in_which_they_were_named() -> None:
    """Never two at a time: the next one only when the one before has ended."""
    one, went = crashed(7, 3, 5), []
    while (ticket_id := one.next()) is not None:
        one.sent(ticket_id, ALONE_S)
        assert one.next() is None
        went.append(ticket_id)
        one.drop(ticket_id)
    assert (went, len(one)) == ([7, 3, 5], 0)


@pytest.mark.parametrize(
    ("now_s", "cleared"),
    [(0.0, False), (9.999, False), (10.0, True), (11.0, True)],
    ids=["at once", "just before", "at the instant", "later"],
)
def test_a_suspect_that_has_run_long_enough_is_cleared(now_s: float, cleared: bool) -> None:
    """From that instant on, and not before, it counts no longer and the next one may go."""
    one = crashed(1, 2)
    one.sent(1, ALONE_S)
    assert one.cleared_s == ALONE_S
    assert one.update(now_s) is cleared
    after = (1, 2, None) if cleared else (2, None, ALONE_S)
    assert (len(one), one.next(), one.cleared_s) == after
    assert one.update(now_s) is False


def test_a_suspect_that_was_not_dispatched_is_not_cleared_by_time() -> None:
    """Time counts from the moment at which it was sent."""
    one = crashed(1)
    assert one.update(1e9) is False
    assert one.next() == 1


def test_the_suspect_that_ran_alone_at_the_next_crash_is_retried_in_its_place() -> None:
    """A crash ends the run alone without clearing it; a ticket that is given up is dropped by the caller."""
    one = crashed(1, 2)
    one.sent(1, ALONE_S)
    one.crash()
    one.suspect(1)
    assert (one.crashes, len(one), one.cleared_s) == (2, 2, None)
    assert one.update(1e9) is False
    assert one.next() == 1
    one.drop(1)
    assert one.next() == 2


@pytest.mark.parametrize(("dropped", "left"), [(2, 2), (3, 2), (9, 3)], ids=["the next", "the last", "an unknown one"])
def test_the_end_of_another_one_dispatches_none_beside_the_one_alone(dropped: int, left: int) -> None:
    """A suspect that ends while it waits is not retried, and changes nothing for the one that runs."""
    one = crashed(1, 2, 3)
    one.sent(1, ALONE_S)
    one.drop(dropped)
    assert (len(one), one.next(), one.cleared_s) == (left, None, ALONE_S)


@given(st.lists(st.sampled_from(["suspect", "send", "drop", "crash", "look"]), max_size=60), st.data())
def test_whatever_happens_one_runs_alone_and_all_are_cleared_in_time(events: list[str], data: st.DataObject) -> None:
    """After any history the suspects are through after ``probation_s`` for each of them."""
    one, now_s, known = CrashSuspects(), 0.0, 0
    for event in events:
        now_s += 1.0
        alone = one.cleared_s is not None
        match event:
            case "suspect":
                known += 1
                one.suspect(known)
            case "send" if (ticket_id := one.next()) is not None:
                assert not alone, "two at a time"
                one.sent(ticket_id, now_s + ALONE_S)
            case "drop" if known:
                one.drop(data.draw(st.integers(1, known)))
            case "crash":
                one.crash()
            case "look":
                one.update(now_s)
    for _ in range(len(one)):
        if (ticket_id := one.next()) is not None:
            one.sent(ticket_id, now_s + ALONE_S)
        now_s += ALONE_S
        assert one.update(now_s)
    assert (len(one), one.next(), one.cleared_s) == (0, None, None)
