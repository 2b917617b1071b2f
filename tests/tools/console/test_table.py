"""Rows as text."""

from __future__ import annotations

from headway_tools.console.table import table


def test_columns_are_as_wide_as_their_widest_cell_and_numbers_stand_right() -> None:
    """No trailing blanks, lists joined, None as a dash."""
    assert table(["name", "n"], [["a", 5], ["longer", 10]]) == "  name     n\n  a        5\n  longer  10"
    assert table(["x", "y"], [[None, ["p", "q"]], [1.25, []]]) == "  x     y\n  -     p, q\n  1.25  none"
    assert table(["x"], [["0.98"], ["-1e-07"]]) == "       x\n    0.98\n  -1e-07"
    assert table(["x"], []) == "  x"
