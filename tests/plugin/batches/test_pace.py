"""The pace of a batch on a clock of numbers: late where the rest does not fit, in time again where it does easily."""

from __future__ import annotations

import pytest

from headway.batches.pace import Pace, window_s


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("24h", 86_400), ("30m", 1800), ("14d", 1_209_600), ("15d", None), ("0h", None), ("24", None),
     ("1e9h", None), ("", None)],
)  # fmt: skip
def test_windows(text: str, seconds: int | None) -> None:
    assert window_s(text) == seconds


def paced(per_s: float, seconds: int, left: int, left_s: float) -> bool:
    """Whether a batch is late that ran at this pace."""
    pace = Pace(86_400, 0.0)
    for now_s in range(1, seconds + 1):
        pace.done(int(per_s * now_s) - int(per_s * (now_s - 1)), now_s)
    return pace.judge(left, left_s)


@pytest.mark.parametrize(
    ("per_s", "seconds", "left", "late"),
    [(1, 3600, 50_000, False), (1, 3600, 80_000, True), (0, 3600, 1, True), (0, 60, 1_000_000, False),
     (2, 3600, 80_000, False)],
    ids=["in time", "late", "nothing runs", "not known yet", "twice as fast"],
)  # fmt: skip
def test_a_batch_is_late_where_the_rest_does_not_fit(per_s: float, seconds: int, left: int, late: bool) -> None:
    assert paced(per_s, seconds, left, 86_400 - seconds) is late


def test_the_lines_left_need_their_time_at_the_pace() -> None:
    """Which is known once it was measured for half of its mean."""
    pace, found = Pace(86_400, 0.0), list[float | None]()
    for now_s in range(1, 3601):
        pace.done(2, now_s)
        found.append(pace.needed_s(1000))
    assert (found[800], found[-1]) == (None, pytest.approx(500, rel=0.01))


def test_a_late_batch_is_in_time_again_once_it_is_easily() -> None:
    """Not at the first line that is faster: a class is not changed at each."""
    pace = Pace(86_400, 0.0)
    for now_s in range(1, 4001):
        pace.done(1, now_s)
    assert pace.judge(70_000, 80_000.0)
    assert pace.judge(50_000, 80_000.0)
    assert not pace.judge(30_000, 80_000.0)


def test_a_late_batch_stays_late_at_the_end() -> None:
    """Its pace is that of the class in which it is late: in the other it would fall, and be seen too late."""
    pace = Pace(86_400, 0.0)
    for now_s in range(1, 4001):
        pace.done(1, now_s)
    assert pace.judge(5000, 5000.0)
    assert pace.judge(100, 4000.0)
    assert not pace.judge(100, 5000.0)
