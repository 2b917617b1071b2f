"""The scale signal: 1 where the demand fills the seats, beyond it in an overload, 0 when idle."""

from __future__ import annotations

import pytest
from small_presets import small_preset, terms
from watched_desk import WatchedDesk, dispatched

from headway_policies.prediction import scale_ratio

SEATS = 4
TAKES_S = 2.0


@pytest.mark.parametrize(
    ("demand_seats", "taken", "waiting", "limit", "ratio"),
    [
        pytest.param(0.0, 0, 0, 8, 0.0, id="idle"),
        pytest.param(4.0, 3, 0, 8, 0.5, id="half of the seats"),
        pytest.param(24.0, 8, 2, 8, 3.0, id="three servers' worth, most of it refused"),
        pytest.param(1.0, 8, 24, 8, 4.0, id="a burst that has only just come"),
        pytest.param(1.0, 1, 0, 0, 1.0, id="no seat at all"),
    ],
)
def test_the_ratio(demand_seats: float, taken: int, waiting: int, limit: int, ratio: float) -> None:
    """The ratio is that of the seats wanted to those open."""
    assert scale_ratio(demand_seats, taken, waiting, limit) == ratio


def ratio_at(per_s: float, for_s: float = 120.0) -> float:
    """The mean ratio of the last half of a time, under a steady load on four seats and two places in the queue."""
    classes = {"normal": terms(1, places=2, queue_s=None, total_s=None)}
    it = WatchedDesk(small_preset(SEATS, classes=classes))
    ends: list[tuple[float, int]] = []
    found: list[float] = []
    for number in range(int(for_s * per_s)):
        at_s = number / per_s
        while ends and ends[0][0] <= at_s:
            end_s, ticket_id = ends.pop(0)
            it.now_s = end_s
            ends += [(end_s + TAKES_S, one) for one in dispatched(it.leaves(ticket_id))]
        it.now_s = at_s
        ends += [(at_s + TAKES_S, one) for one in dispatched(it.comes())]
        if at_s > for_s / 2:
            found.append(it.desk.read(at_s).scale_ratio)
    return sum(found) / len(found)


@pytest.mark.parametrize("load", [0.25, 0.5, 3.0, 8.0])
def test_it_is_the_load_over_the_capacity(load: float) -> None:
    """At a load of three times the capacity, most of it refused, the signal asks for three servers."""
    assert ratio_at(load * SEATS / TAKES_S) == pytest.approx(load, rel=0.25)
