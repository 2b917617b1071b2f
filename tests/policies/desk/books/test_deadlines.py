"""Deadlines against a sorted list, and the memory they may hold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headway_policies.desk.books.deadlines import Deadlines

times = st.integers(0, 20).map(float)
ids = st.integers(0, 8)
steps = st.one_of(
    st.tuples(st.just("set"), ids, times),
    st.tuples(st.just("drop"), ids, times),
    st.tuples(st.just("due"), ids, times),
)


@given(st.lists(steps, max_size=100))
def test_deadlines_answer_as_a_sorted_list_would(history: list[tuple[str, int, float]]) -> None:
    """After any history the next deadline, each ticket's own and the due tickets are those of a plain sorted list."""
    deadlines, oracle = Deadlines(), dict[int, float]()
    for event, ticket_id, at_s in history:
        if event == "set":
            deadlines.set(ticket_id, at_s)
            oracle[ticket_id] = at_s
        elif event == "drop":
            deadlines.drop(ticket_id)
            oracle.pop(ticket_id, None)
        else:
            due = sorted((due_s, one) for one, due_s in oracle.items() if due_s <= at_s)
            taken = deadlines.pop_due(at_s)
            assert (taken is None) == (not due)
            if taken is not None:
                assert oracle.pop(taken) == due[0][0]
        assert deadlines.next_s() == min(oracle.values(), default=None)
        assert [deadlines.of(one) for one in range(9)] == [oracle.get(one) for one in range(9)]


def test_a_deadline_set_again_holds_from_then_on() -> None:
    """The last deadline given counts, be it earlier or later."""
    deadlines = Deadlines()
    deadlines.set(1, 5.0)
    deadlines.set(1, 9.0)
    assert deadlines.pop_due(8.0) is None
    deadlines.set(1, 2.0)
    assert deadlines.next_s() == 2.0
    assert deadlines.pop_due(2.0) == 1
    assert deadlines.next_s() is None


def test_a_deadline_is_hastened_and_never_put_off() -> None:
    """The earlier one counts; a ticket without one gets one."""
    deadlines = Deadlines()
    for at_s, holds_s in ((5.0, 5.0), (9.0, 5.0), (2.0, 2.0), (2.0, 2.0)):
        deadlines.hasten(1, at_s)
        assert (deadlines.of(1), deadlines.next_s()) == (holds_s, holds_s)


def test_memory_stays_bounded_when_tickets_come_and_go() -> None:
    """A hundred thousand tickets that leave before their time leave no heap behind them."""
    deadlines = Deadlines()
    for number in range(100_000):
        deadlines.set(number, 1e9 + number)
        if number >= 100:
            deadlines.drop(number - 100)
    assert len(deadlines._heap) <= 2 * 100 + 64 + 2
    assert len(deadlines._at_s) == 100
