"""The share of the limit while memory is short: it falls by steps, comes back by steps, and never to nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_presets import small_preset

from headway_policies import Desk
from headway_policies.desk.capacity import CapReason
from headway_policies.memory.seat_cap import SeatCap
from headway_policies.memory.settings import Memory

TERMS = Memory(lower_after_s=10.0, raise_after_s=30.0, decrease_ratio=0.8, min_ratio=0.5)
PRESSED, BETWEEN, QUIET = (True, False), (False, False), (False, True)


def walk(cap: SeatCap, *times: tuple[float, tuple[bool, bool]], terms: Memory = TERMS) -> list[float]:
    """The share at each of these times."""
    return [cap.update(terms, now_s, pressed=pressed, quiet=quiet) for now_s, (pressed, quiet) in times]


WALKS: dict[str, tuple[list[tuple[float, tuple[bool, bool]]], list[float]]] = {
    "pressure has to last": ([(0.0, PRESSED), (9.9, PRESSED), (10.0, PRESSED)], [1.0, 1.0, 0.8]),
    "a break starts the time anew": ([(0.0, PRESSED), (5.0, BETWEEN), (6.0, PRESSED), (15.0, PRESSED)], [1.0] * 4),
    "no deeper than the least": ([(10.0 * n, PRESSED) for n in range(6)], [1.0, 0.8, 0.64, 0.512, 0.5, 0.5]),
    "back by tenths": (
        [(0.0, PRESSED), (10.0, PRESSED), (11.0, QUIET), (41.0, QUIET), (71.0, QUIET), (999.0, QUIET)],
        [1.0, 0.8, 0.8, 0.9, 1.0, 1.0],
    ),
    "between the thresholds nothing moves": (
        [(0.0, PRESSED), (10.0, PRESSED), *((20.0 + n, BETWEEN) for n in range(99))],
        [1.0, *[0.8] * 100],
    ),
    "quiet has to last": ([(0.0, PRESSED), (10.0, PRESSED), (20.0, QUIET), (49.0, BETWEEN), (50.0, QUIET)],
                          [1.0, 0.8, 0.8, 0.8, 0.8]),
}  # fmt: skip


@pytest.mark.parametrize(("times", "expected"), WALKS.values(), ids=WALKS)
def test_the_share_moves_as_its_file_says(times: list[tuple[float, tuple[bool, bool]]], expected: list[float]) -> None:
    """Down after each ``lower_after_s`` of pressure, up after each ``raise_after_s`` of quiet, unmoved in between."""
    assert walk(SeatCap(), *times) == expected


@given(
    st.lists(st.tuples(st.floats(0.0, 60.0), st.sampled_from([PRESSED, BETWEEN, QUIET])), max_size=60),
    st.integers(1, 64),
    st.floats(0.01, 1.0),
)
def test_whatever_happens_a_seat_is_left_and_quiet_brings_all_back(
    gaps: list[tuple[float, tuple[bool, bool]]], seats: int, min_ratio: float
) -> None:
    """The share stays between the least and one, a desk under it keeps a seat, and ten rises of quiet undo it all."""
    terms = TERMS.model_copy(update={"min_ratio": min_ratio})
    cap, desk, now_s = SeatCap(), Desk(small_preset(seats)), 0.0
    for gap_s, signs in gaps:
        now_s += gap_s
        (ratio,) = walk(cap, (now_s, signs), terms=terms)
        assert min_ratio <= ratio <= 1.0
        desk.cap_seats(CapReason.MEMORY, ratio, now_s)
        assert 1 <= desk.limit <= seats
    walk(cap, *((now_s + terms.raise_after_s * step, QUIET) for step in range(12)), terms=terms)
    assert cap.ratio == 1.0
