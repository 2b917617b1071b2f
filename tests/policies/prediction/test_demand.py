"""Tests of the demand of a class in seats."""

from __future__ import annotations

import pytest

from headway_policies.prediction import Demand


def test_what_another_limit_has_taught_counts_little() -> None:
    """Eight residences of a new limit are half of what is known."""
    demand = Demand()
    for number in range(64):
        demand.arrived("normal", 1, number)
        demand.ended("normal", 1, 8.0)
    before = demand.seats("normal", 64.0)
    demand.fade()
    assert demand.seats("normal", 64.0) == before
    for _ in range(8):
        demand.ended("normal", 1, 2.0)
    assert demand.seats("normal", 64.0) == pytest.approx(before * 5 / 8, rel=0.01)


def test_the_arrivals_of_the_last_seconds_count_as_far_as_they_are_surely_more() -> None:
    """A class that begins to send ten a second fills twenty seats: most of them are seen four seconds later, where half
    a minute of arrivals shows few; a steady stream is what that half minute says.
    """
    demand = Demand()
    for number in range(64):
        demand.arrived("realtime", 1, float(number))
        demand.ended("realtime", 1, 2.0)
    for number in range(40):
        demand.arrived("realtime", 1, 600.0 + number / 10)
    assert demand.seats("realtime", 604.0) < 4.0
    assert 8.0 < demand.surely_seats("realtime", 604.0) < 20.0
    for number in range(40, 2000):
        demand.arrived("realtime", 1, 600.0 + number / 10)
    assert demand.surely_seats("realtime", 800.0) == demand.seats("realtime", 800.0)
