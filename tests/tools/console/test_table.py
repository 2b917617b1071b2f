"""Rows and durations as text."""

from __future__ import annotations

import pytest

from headway_tools.console.table import duration, table


def test_columns_are_as_wide_as_their_widest_cell_and_numbers_stand_right() -> None:
    """No trailing blanks, lists joined, None as a dash."""
    assert table(["name", "n"], [["a", 5], ["longer", 10]]) == "  name     n\n  a        5\n  longer  10"
    assert table(["x", "y"], [[None, ["p", "q"]], [1.25, []]]) == "  x     y\n  -     p, q\n  1.25  none"
    assert table(["x"], [["0.98"], ["-1e-07"]]) == "       x\n    0.98\n  -1e-07"
    assert table(["x"], []) == "  x"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0.0 s"), (9.94, "9.9 s"), (12.4, "12 s"), (59.6, "1 min 0 s"), (185, "3 min 5 s"), (7440, "2 h 4 min")],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    """One or two units."""
    assert duration(seconds) == text
