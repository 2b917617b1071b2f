"""The ranking: every instance once, the router's choice first, and of full ones the least loaded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headway_policies.routing import Demand, Instance, LeastLoaded, ranked

DEMAND = Demand(tokens=128, prompt_tokens=64)
INSTANCES = st.lists(
    st.tuples(st.integers(0, 8), st.integers(0, 20)).map(lambda pair: Instance("", seats=pair[0], running=pair[1])),
    max_size=8,
).map(lambda found: [Instance(str(place), one.seats, one.running) for place, one in enumerate(found)])


@given(INSTANCES)
def test_every_instance_is_ranked_once_and_free_seats_go_before_full_ones(fleet: list[Instance]) -> None:
    """The first is the router's choice, and none that is full stands before one that has a free seat."""
    names = ranked(LeastLoaded(), DEMAND, fleet)
    assert sorted(names) == sorted(one.name for one in fleet)
    by_name = {one.name: one for one in fleet}
    free = [bool(by_name[name].free) for name in names]
    assert free == sorted(free, reverse=True)
    if any(free):
        assert names[0] == LeastLoaded().choose(DEMAND, fleet)


def test_of_full_instances_the_shortest_queue_for_each_seat_is_first() -> None:
    """Twelve requests on eight seats are less than seven on four; no seats at all come last."""
    fleet = [Instance("none", 0, 0), Instance("small", 4, 7), Instance("large", 8, 12)]
    assert ranked(LeastLoaded(), DEMAND, fleet) == ["large", "small", "none"]
