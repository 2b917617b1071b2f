"""Controlled delay: a burst is absorbed, a standing queue is recognised, and how it ends."""

from __future__ import annotations

import pytest

from headway_policies.queueing import ControlledDelay


def standing() -> ControlledDelay:
    """Objective 1 s: target 0.5 s, interval 2 s. Every wait was 0.6 s from 0 to 3 s: it has stood since 2.5 s."""
    delay = ControlledDelay(1.0, 0.0)
    for tenth in range(31):
        delay.dispatched(0.6, tenth / 10)
    assert delay.stands(3.0)
    return delay


def test_a_queue_stands_once_no_wait_was_within_the_target_for_an_interval() -> None:
    """Waits of 0.6 s: not yet at target + interval, but just after it."""
    delay = ControlledDelay(1.0, 0.0)
    for tenth in range(26):
        delay.dispatched(0.6, tenth / 10)
        assert not delay.stands(tenth / 10)
    assert delay.stands(2.6)


@pytest.mark.parametrize("short_s", [0.0, 0.3, 0.5])
def test_one_short_wait_in_an_interval_is_enough(short_s: float) -> None:
    """A wait within the target every two seconds, all others far beyond: it never stands."""
    delay = ControlledDelay(1.0, 0.0)
    for tenth in range(300):
        delay.dispatched(short_s if tenth % 20 == 0 else 9.0, tenth / 10)
        assert not delay.stands(tenth / 10)


def test_a_burst_may_be_stated() -> None:
    """Objective 1 s, burst 9 s: it stands after 9.5 s, shortly after it has stood after half a second."""
    delay = ControlledDelay(1.0, 0.0, burst_s=9.0)
    for second in range(10):
        delay.dispatched(8.0, float(second))
        assert not delay.stands(second)
    assert not delay.stands(9.5)
    assert delay.stands(9.6)
    delay.dispatched(0.6, 9.6)
    delay.empty(10.0)
    assert not delay.stands(10.5)
    assert delay.stands(10.6)
    delay.empty(10.7)
    delay.empty(27.0)
    assert not delay.stands(36.5)
    assert delay.stands(36.6)


def test_a_queue_stands_although_nothing_leaves_it() -> None:
    """No ticket leaves for target + interval: what waits there waits too long all the same."""
    delay = ControlledDelay(1.0, 10.0)
    assert not delay.stands(12.5)
    assert delay.stands(12.6)


def test_it_goes_on_standing_while_waits_are_just_within_the_target() -> None:
    """Between half of the target and the target nothing changes: else each improvement would undo itself."""
    delay = standing()
    for tenth in range(31, 100):
        delay.dispatched(0.4, tenth / 10)
        assert delay.stands(tenth / 10)


def test_the_overload_is_remembered_for_a_while() -> None:
    """Eight intervals after the queue has stood it counts as an overload no longer, and a burst never does."""
    delay = standing()
    delay.empty(4.0)
    assert not delay.stands(4.1)
    assert delay.overloaded(4.1)
    delay.empty(19.0)
    assert not delay.overloaded(20.0)
    assert not ControlledDelay(1.0, 0.0).overloaded(0.4)


def test_a_refused_ticket_prolongs_an_overload_and_begins_none() -> None:
    """Sixteen objectives from the last one that was refused because of it."""
    delay, quiet = standing(), ControlledDelay(1.0, 0.0)
    delay.empty(4.0)
    assert not delay.contested(14.0)
    delay.cut(15.0)
    assert delay.overloaded(30.0)
    assert delay.contested(30.0)
    delay.empty(39.9)
    delay.cut(40.0)
    assert not delay.overloaded(40.0)
    assert not delay.contested(40.0)
    quiet.cut(0.2)
    assert not quiet.overloaded(0.4)


def test_what_was_refused_before_a_pause_says_nothing_after_it() -> None:
    """A late ticket that nothing competes with is served then."""
    delay = standing()
    delay.cut(4.0)
    assert delay.contested(5.0)
    delay.reopened(5.0)
    assert not delay.contested(5.0)
    assert not delay.stands(5.1)


@pytest.mark.parametrize("ends", ["a wait within half of the target", "an empty queue"])
def test_it_ends_with_a_short_wait_or_an_empty_queue_and_is_soon_recognised_again(ends: str) -> None:
    """Shortly after it has ended the queue stands again after one target; much later it takes target + interval."""
    delay = standing()
    if ends == "an empty queue":
        delay.empty(4.0)
    else:
        delay.dispatched(0.25, 4.0)
    assert not delay.stands(4.0)
    assert not delay.stands(4.5)
    assert delay.stands(4.6)
    delay.empty(4.7)
    delay.empty(100.0)
    assert not delay.stands(102.5)
    assert delay.stands(102.6)


def test_another_aim_counts_from_now_on() -> None:
    """Where the engine becomes slower its relative objective is longer: the same queue stands no more, and does again
    once the engine is back. What a preset states of bursts stays.
    """
    delay = ControlledDelay(1.0, 0.0)
    assert delay.stands(2.6)
    delay.aim(2.0)
    assert (delay.slo_s, delay.target_s, delay.interval_s) == (2.0, 1.0, 4.0)
    assert not delay.stands(2.6)
    delay.aim(1.0)
    assert delay.stands(2.6)
    stated = ControlledDelay(1.0, 0.0, burst_s=30.0)
    stated.aim(4.0)
    assert (stated.interval_s, stated.target_s) == (30.0, 2.0)


def test_without_an_objective_no_queue_stands() -> None:
    """A relative one is not known yet, or out of reach for one request alone."""
    delay = standing()
    delay.cut(4.0)
    delay.aim(float("inf"))
    assert not delay.stands(1e9)
    assert not delay.overloaded(4.1)
    assert not delay.contested(4.1)
