"""The garbage-collection policy: when Python's collector runs a full collection."""

from __future__ import annotations

import pytest

from headway_policies.memory.gc_policy import full_collection_due

CASES: dict[str, tuple[tuple[int, float, float, bool], bool]] = {
    "idle, with something to look at": ((1, 10.0, 0.0, True), True),
    "idle, with nothing new": ((0, 1000.0, 0.0, True), False),
    "idle, but it was done a moment ago": ((5, 9.9, 0.0, True), False),
    "busy, and little has piled up": ((29, 1000.0, 0.0, False), False),
    "busy, and much has piled up": ((30, 5.0, 0.04, False), True),
    "busy, and a full collection takes long": ((500, 5.0, 0.2, False), False),
    "busy, it takes long, and long has passed": ((500, 20.0, 0.2, False), True),
    "idle, and a full collection takes very long": ((500, 50.0, 1.0, True), False),
}


@pytest.mark.parametrize(("case", "due"), CASES.values(), ids=CASES)
def test_a_full_collection_is_due_when_it_delays_no_request_or_must_be(
    case: tuple[int, float, float, bool], due: bool
) -> None:
    """While nothing runs, or when much has piled up; a hundredth of the time at most."""
    young, since_s, took_s, idle = case
    assert full_collection_due(young, since_s, took_s, idle=idle) is due
