"""The reasons of a missed goal that are measured in the run can be measured."""

from __future__ import annotations

import overhead


def test_the_bare_objects_of_a_refusal_can_be_timed() -> None:
    """Ticket, permit and exception, made as the gate makes them."""
    assert overhead._objects_us() > 0
