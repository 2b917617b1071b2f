"""The roster: the order of all instances after any history, and a cost that hardly grows with their number."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headway_policies.routing import Instance, Roster

CHANGES = st.lists(
    st.tuples(st.integers(0, 5), st.one_of(st.none(), st.tuples(st.integers(0, 4), st.integers(0, 5)))), max_size=200
)


@given(CHANGES, st.integers(1, 7))
def test_the_freest_are_those_that_a_sort_would_find(
    changes: list[tuple[int, tuple[int, int] | None]], count: int
) -> None:
    """After any changes and removals, asked after each of them; asking changes nothing."""
    roster, plain = Roster(), dict[str, Instance]()
    for place, state in changes:
        name = f"i{place}"
        if state is None:
            roster.remove(name)
            plain.pop(name, None)
        else:
            plain[name] = Instance(name, *state)
            roster.put(plain[name])
        expected = sorted((one for one in plain.values() if one.free), key=lambda one: -one.free_share)[:count]
        assert roster.freest(count) == expected
        assert len(roster) == len(plain)


def test_the_same_state_twice_stands_there_once() -> None:
    """Also when it was away in between."""
    roster, one = Roster(), Instance("a", 4, 1)
    roster.put(one)
    roster.put(one)
    roster.remove("a")
    roster.put(one)
    assert roster.freest(5) == [one]


def test_old_states_are_forgotten() -> None:
    """However many there were: the memory is bounded by the number of instances."""
    roster = Roster()
    for turn in range(10_000):
        roster.put(Instance(f"i{turn % 3}", 8, turn % 8))
    assert len(roster._entries) <= 2 * len(roster) + 64
