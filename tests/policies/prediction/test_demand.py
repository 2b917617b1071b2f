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
