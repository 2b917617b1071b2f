"""The figures of what was served, against plain lists of it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.recorder import ServedLog
from headway.recorder.served import MAX_ROWS
from headway_policies import Outcome, Ticket
from headway_policies.trial import ALL, Served


def ticket(class_name: str, arrived_s: float) -> Ticket:
    """A request of a class."""
    return Ticket(1, class_name, arrived_s)


def nearest_rank(values: list[float], ratio: float) -> float | None:
    return sorted(values)[math.ceil(ratio * len(values)) - 1] if values else None


def test_every_outcome_has_its_place() -> None:
    """A request that its client cancelled, or that was invalid, says nothing of the server."""
    log = ServedLog()
    for outcome in Outcome:
        log.ended(ticket("normal", 0.0), outcome, 1.0)
    found = log.between(0.0, 10.0)[ALL]
    assert found.completed_ratio == 1 / 9
    assert found.error_ratio == found.timed_out_ratio == 2 / 9  # failed, engine lost; expired waiting, running
    assert found.refused_ratio == 4 / 9  # full, limit, shed, drained


def test_ends_are_counted_by_class() -> None:
    """Those of the stretch, without what clients cancelled."""
    log = ServedLog()
    log.ended(ticket("normal", 0.0), Outcome.COMPLETED, 1.0)
    for name, at_s in (("batch", 5.0), ("normal", 15.0)):
        for outcome in (Outcome.COMPLETED, Outcome.SHED, Outcome.CANCELLED_QUEUED):
            log.ended(ticket(name, 0.0), outcome, at_s)
    assert log.ended_by_class(2.0, 10.0) == {"batch": 2}


def test_nothing_served_is_nothing_known() -> None:
    """None, not zero."""
    assert ServedLog().between(0.0, 10.0) == {ALL: Served(tokens_per_s=0.0)}


def test_a_request_that_waits_counts_with_its_age() -> None:
    """A server that answers nothing any more is slow, not unknown."""
    log = ServedLog()
    log.first_token("normal", 0.5, 1.0)
    found = log.between(0.0, 10.0, [("normal", 2.0), ("batch", 1.0)])
    assert (found["normal"].ttft_p50_s, found["normal"].ttft_p95_s) == (0.5, 8.0)
    assert found["batch"].ttft_p95_s == 9.0
    assert found[ALL].ttft_p95_s == 9.0


def test_what_arrived_before_a_switch_says_nothing_of_it() -> None:
    """Neither its first token, nor its end, nor its wait; its tokens count, they were made now."""
    log = ServedLog()
    log.first_token("normal", 6.0, 11.0)
    log.ended(ticket("normal", 5.0), Outcome.EXPIRED_RUNNING, 12.0, 40)
    log.first_token("normal", 1.0, 12.0)
    log.ended(ticket("normal", 11.0), Outcome.COMPLETED, 13.0, 60, 0.1)
    found = log.between(10.0, 20.0, [("normal", 3.0)], arrived_s=10.0)["normal"]
    assert (found.ttft_p99_s, found.completed_ratio, found.inter_token_p50_s) == (1.0, 1.0, pytest.approx(0.1))
    assert found.tokens_per_s == 10.0


events = st.lists(
    st.tuples(
        st.floats(0, 3),
        st.sampled_from(["a", "b"]),
        st.sampled_from([Outcome.COMPLETED, Outcome.FAILED, Outcome.SHED, Outcome.CANCELLED_RUNNING]),
        st.integers(1, 50),
        st.integers(0, 5),
    ),
    max_size=60,
)


@given(events, st.floats(0, 40), st.integers(3, 80))
def test_the_figures_are_those_of_plain_lists(rows: list[tuple], since_s: float, most: int) -> None:
    """By class and together, of the newest rows where the ring is smaller."""
    log, now_s, seen = ServedLog(most), 0.0, []
    for gap_s, name, outcome, tokens, delay in rows:
        now_s += gap_s
        log.first_token(name, delay / 4, now_s)
        log.ended(ticket(name, 0.0), outcome, now_s, tokens, delay / 8)
        seen.append((now_s, name, outcome, tokens, delay))
    found = log.between(since_s, now_s + 1.0)
    kept = [one for one in seen[-most:] if one[0] >= since_s]
    for name, own in [("a", found.get("a")), ("b", found.get("b")), (ALL, found[ALL])]:
        mine = [one for one in kept if name in (ALL, one[1])]
        if own is None:
            assert not mine
            continue
        ended = [one for one in mine if one[2] is not Outcome.CANCELLED_RUNNING]
        completed = sum(one[2] is Outcome.COMPLETED for one in ended)
        assert own.completed_ratio == (completed / len(ended) if ended else None)
        assert own.ttft_p95_s == nearest_rank([one[4] / 4 for one in mine], 0.95)
        assert own.inter_token_p50_s == nearest_rank([one[4] / 8 for one in mine if one[4]], 0.5)
        assert own.tokens_per_s == pytest.approx(sum(one[3] for one in mine) / max(now_s + 1.0 - since_s, 1e-3))


def test_its_memory_has_a_bound() -> None:
    """41 bytes for each of the last first tokens and ends."""
    log = ServedLog()
    for number in range(MAX_ROWS + 100):
        log.first_token("normal", 1.0, float(number))
        log.ended(ticket("normal", 0.0), Outcome.COMPLETED, float(number), 2**40)
    size = sum(len(column) * column.itemsize for ring in (log._firsts, log._ends) for column in ring.columns)
    assert size == (14 + 27) * MAX_ROWS
