"""The part of a processor that a forecast may use: whole where there are many or the engine is idle, else a tenth."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.forecast.pace import BUSY_SHARE, MANY_PROCESSORS, Pace, share_of


@pytest.mark.parametrize(
    ("processors", "busy", "share"),
    [(2, True, BUSY_SHARE), (MANY_PROCESSORS - 1, True, BUSY_SHARE), (MANY_PROCESSORS, True, 1.0), (2, False, 1.0)],
)
def test_a_small_busy_machine_gives_a_part_of_one(processors: int, busy: bool, share: float) -> None:
    """Where the engine runs nothing, or there is a processor to spare, the forecast is as fast as it can be."""
    assert share_of(processors, busy=busy) == share


@given(st.lists(st.floats(0.001, 0.2), min_size=1, max_size=200), st.sampled_from([BUSY_SHARE, 0.5]))
def test_the_share_is_kept_over_any_course_of_work(work: list[float], share: float) -> None:
    """After each rest the process has used its share at most, but for the longest work in one go."""
    clock = {"now": 100.0, "used": 3.0}

    def rest(length_s: float) -> None:
        clock["now"] += length_s

    pace = Pace(share, lambda: clock["used"], lambda: clock["now"], rest)
    for one in work:
        clock["used"] += one
        clock["now"] += one
        for _ in range(10):  # it rests for half a second at most in one go
            pace.keep()
        assert clock["used"] - 3.0 <= share * (clock["now"] - 100.0) + 1e-9


def test_a_whole_processor_never_rests() -> None:
    """Nothing is slept away where the share is one."""
    pace = Pace(1.0, lambda: 9.0, lambda: 0.0, lambda length_s: pytest.fail("it rested"))
    pace.keep()
