"""Numbers as text: one format for each unit."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_dashboard.analysis.units import Unit, duration, scale, written


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (None, "seconds", "—"),
        (0.0, "seconds", "0 ms"),
        (0.0854, "seconds", "85 ms"),
        (0.9999, "seconds", "1 s"),
        (2.44, "seconds", "2.4 s"),
        (59.97, "seconds", "1 min"),
        (185, "seconds", "3 min 5 s"),
        (7800, "seconds", "2 h 10 min"),
        (0.0213, "ratio", "2.13 %"),
        (1.0, "ratio", "100 %"),
        (15 * 1024, "bytes", "15 KiB"),
        (700 * 1024**2, "bytes", "700 MiB"),
        (71.3 * 1024**3, "bytes", "71.3 GiB"),
        (12.345, "per_s", "12.3 /s"),
        (12345.6, "count", "12,346"),
        (7.0, "count", "7"),
    ],
)
def test_written(value: float | None, unit: Unit, expected: str) -> None:
    """Milliseconds below a second, KiB below a MiB, a dash for what is missing; number and unit stay together."""
    assert written(value, unit).replace("\u00a0", " ") == expected


@given(st.floats(0, 1e6))
def test_durations_never_show_sixty(value_s: float) -> None:
    """Rounding carries over: no 60 s, no 60 min, no 1000 ms."""
    parts = duration(value_s).replace("\u00a0", " ").split()
    assert not {("60", "s"), ("60", "min"), ("1000", "ms")} & set(pairwise(parts))


@pytest.mark.parametrize(
    ("value_s", "text"),
    [(0.0854, "85\u00a0ms"), (185, "3\u00a0min 5\u00a0s"), (7800, "2\u00a0h 10\u00a0min"), (180, "3\u00a0min")],
)
def test_a_line_breaks_between_two_numbers_only(value_s: float, text: str) -> None:
    """Each number stays with its unit."""
    assert duration(value_s) == text


def test_axis_scale_follows_the_largest_value() -> None:
    """One axis has one unit."""
    assert scale("seconds", [0.1, None, 0.4]).factor == 1000
    assert scale("seconds", [0.1, 4.0]).factor == 1
    assert scale("bytes", [None]).suffix.strip() == "KiB"
