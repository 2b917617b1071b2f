"""The health of an instance: silence, bad heartbeats and failures take it out; one request tries it again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.fallback import BreakerState, Verdict
from headway_policies.routing import InstanceHealth
from headway_policies.routing.health import LOST_S, SILENT_S


def well(now_s: float = 0.0) -> InstanceHealth:
    """An instance that has just answered for the first time."""
    health = InstanceHealth(silent_s=3.0, failures=3, cool_s=1.0, max_cool_s=8.0)
    health.heartbeat(now_s, good=True)
    return health


def probing(health: InstanceHealth) -> int:
    """It was not ready at 0.5 s, is back at 2 s, and has been given its probe."""
    health.heartbeat(0.5, good=False)
    health.heartbeat(2.0, good=True)
    probe = health.begin(2.0)
    assert probe is not None
    return probe


def send(health: InstanceHealth, now_s: float, verdict: Verdict) -> None:
    """A request that ends at once."""
    number = health.begin(now_s)
    assert number is not None
    health.ended(number, verdict, now_s)


def test_nothing_is_sent_before_the_first_good_heartbeat() -> None:
    """A bad one is none."""
    health = InstanceHealth()
    health.heartbeat(1.0, good=False)
    assert (health.state(1.0), health.takes(1.0), health.begin(1.0)) == (BreakerState.OPEN, False, None)
    health.heartbeat(2.0, good=True)
    assert (health.state(2.0), health.takes(2.0)) == (BreakerState.CLOSED, True)


def test_silence_takes_it_out_and_one_request_tries_it_again() -> None:
    """The probe alone until it is answered."""
    health = well()
    assert health.takes(2.9)
    assert not health.takes(3.0)
    assert health.state(3.0) is BreakerState.OPEN
    health.heartbeat(3.5, good=True)
    assert not health.takes(3.5)  # it has not cooled
    health.heartbeat(4.5, good=True)
    assert (health.state(4.5), health.takes(4.5)) == (BreakerState.HALF_OPEN, True)
    number = health.begin(4.5)
    assert number is not None
    assert (health.takes(4.6), health.begin(4.6)) == (False, None)
    health.ended(number, Verdict.SUCCESS, 5.0)
    assert (health.state(5.0), health.takes(5.0)) == (BreakerState.CLOSED, True)


def test_a_bad_heartbeat_takes_it_out_at_once() -> None:
    """Good ones before do not matter."""
    health = well()
    health.heartbeat(0.5, good=False)
    assert not health.takes(0.5)


def test_a_probe_that_was_not_used_before_a_silence_is_offered_again() -> None:
    """The silence counts as its failure."""
    health = well()
    health.broke(0.5)
    health.heartbeat(2.0, good=True)
    assert health.state(2.0) is BreakerState.HALF_OPEN
    health.heartbeat(10.0, good=True)
    assert health.state(10.0) is BreakerState.OPEN
    for now_s in (11.0, 12.0):
        health.heartbeat(now_s, good=True)
    assert (health.state(12.0), health.takes(12.0)) == (BreakerState.HALF_OPEN, True)


def test_a_broken_connection_takes_it_out_at_once() -> None:
    """A broken connection is no answer: its silence lasts on."""
    health = well()
    health.broke(0.5)
    assert not health.takes(0.5)
    assert (health.lost(9.9), health.lost(10.0)) == (False, True)


def test_it_is_lost_after_a_longer_silence_than_the_one_that_takes_it_out() -> None:
    """Any answer to a heartbeat ends the silence, a bad one too; one that never answered is lost."""
    health = InstanceHealth()
    assert health.lost(0.0)
    health.heartbeat(0.0, good=True)
    assert SILENT_S < LOST_S
    assert (health.takes(SILENT_S), health.lost(SILENT_S)) == (False, False)
    assert (health.lost(LOST_S - 0.1), health.lost(LOST_S)) == (False, True)
    health.heartbeat(LOST_S, good=False)
    assert not health.lost(2 * LOST_S - 0.1)


def test_failures_in_a_row_take_it_out_though_its_heart_beats() -> None:
    """A success between them does not; a failed probe makes it cool for longer."""
    health = well()
    for verdict in (Verdict.FAILURE, Verdict.FAILURE, Verdict.SUCCESS, Verdict.FAILURE, Verdict.FAILURE):
        send(health, 0.1, verdict)
    assert health.takes(0.1)
    send(health, 0.1, Verdict.FAILURE)
    assert not health.takes(1.0)
    send(health, 1.2, Verdict.FAILURE)
    health.heartbeat(2.5, good=True)
    assert not health.takes(3.1)
    assert health.takes(3.2)


def test_a_probe_has_succeeded_with_its_first_output() -> None:
    """However it ends; the output of a request from before says nothing of the instance as it is now."""
    health = well()
    old = health.begin(0.0)
    assert old is not None
    probe = probing(health)
    health.answering(old, 2.1)
    assert health.state(2.1) is BreakerState.HALF_OPEN
    health.answering(probe, 2.2)
    assert (health.state(2.2), health.takes(2.2)) == (BreakerState.CLOSED, True)
    for _ in range(3):
        health.ended(probe, Verdict.FAILURE, 2.3)
    assert health.takes(2.3)


def test_the_output_of_a_probe_does_not_break_a_silence() -> None:
    """Without good heartbeats nothing is sent."""
    health = well()
    health.answering(probing(health), 9.0)
    assert (health.state(9.0), health.takes(9.0)) == (BreakerState.OPEN, False)


@pytest.mark.parametrize("verdict", [Verdict.SUCCESS, Verdict.FAILURE, Verdict.UNDECIDED])
@given(st.lists(st.tuples(st.sampled_from(("good", "bad", "send", "end")), st.floats(0.0, 4.0)), max_size=60))
def test_outside_closed_no_two_requests_are_under_way(verdict: Verdict, events: list[tuple[str, float]]) -> None:
    """After any history: ``takes`` and ``begin`` agree, and a probe is alone."""
    health, now_s, open_since = InstanceHealth(), 0.0, list[tuple[int, bool]]()
    for event, gap_s in events:
        now_s += gap_s
        if event in ("good", "bad"):
            health.heartbeat(now_s, good=event == "good")
        elif event == "end" and open_since:
            health.ended(open_since.pop(0)[0], verdict, now_s)
        elif event == "send":
            takes, probing = health.takes(now_s), health.state(now_s) is not BreakerState.CLOSED
            number = health.begin(now_s)
            assert takes == (number is not None)
            if number is not None:
                if probing:
                    assert all(other != number for other, _ in open_since)
                open_since.append((number, probing))
    health.heartbeat(now_s, good=True)
    if health.state(now_s) is BreakerState.CLOSED:
        assert health.takes(now_s)


def test_an_instance_that_is_seen_to_compute_twice_works_on_its_probe() -> None:
    """Its answer may come as a whole, in the end. What was seen before the probe was sent does not count."""
    health = well()
    health.progressed(0.1)
    probe = probing(health)
    health.progressed(2.1)
    assert health.state(2.1) is BreakerState.HALF_OPEN
    health.progressed(2.2)
    assert health.state(2.2) is BreakerState.CLOSED
    health.ended(probe, Verdict.FAILURE, 2.3)
    assert health.state(2.3) is BreakerState.CLOSED
