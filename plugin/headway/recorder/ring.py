"""A bounded ring of rows in time order, one array for each column. The first column is the time of a row."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Any

_FIRST_ROWS = 256


class Ring:
    """At most ``most`` rows; ``codes`` are the type codes of the columns (see ``array``). The ring begins small.

    ``columns`` are in the order of the places, of which ``add`` names the next.
    """

    def __init__(self, codes: str, most: int) -> None:
        self.columns: tuple[array[Any], ...] = tuple(array(code) for code in codes)
        self.most = most
        self.count = 0  # of the rows in use
        self._next = 0  # the row of the next one: the oldest, once all are in use

    @property
    def oldest(self) -> int:
        """The place of the oldest row."""
        return self._next if self.count == self.most else 0

    @property
    def full(self) -> bool:
        """Whether the next row takes the place of the oldest."""
        return self.count == self.most

    def add(self, *row: float) -> None:
        """Add a row, whose time is not before that of the last one."""
        if not self.full:
            if self.count == len(self.columns[0]):
                self._grow()
            self.count += 1
        place = self._next
        for column, value in zip(self.columns, row, strict=True):
            column[place] = value
        self._next = (place + 1) % self.most

    def before(self, at_s: float) -> int:
        """The number of rows, from the oldest on, before this time."""
        times_s, oldest = self.columns[0], self.oldest
        if oldest and at_s > times_s[self.most - 1]:
            return self.most - oldest + bisect_left(times_s, at_s, 0, oldest)
        return bisect_left(times_s, at_s, oldest, self.count) - oldest

    def copy(self, skip: int) -> list[array[Any]]:
        """The columns in order of time, without the first ``skip`` rows."""
        oldest = self.oldest
        begin = oldest + skip
        if begin >= self.most:
            return [column[begin - self.most : oldest] for column in self.columns]
        return [column[begin : self.count] + column[:oldest] for column in self.columns]

    def _grow(self) -> None:
        rows = min(max(_FIRST_ROWS, self.count), self.most - self.count)
        for column in self.columns:
            column.frombytes(bytes(rows * column.itemsize))
