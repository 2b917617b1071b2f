"""The check of an input before any of its lines runs: each line, and that no custom_id comes twice.

The ids are kept in a temporary database of SQLite, which is on disk where it is large: a file of a million lines costs
no memory.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from typing import Final

from headway.batches.objects import LineProblem
from headway.openai.batch_file import MAX_LINE_BYTES, MAX_LINES, LineError, read_line

#: The most problems of a file that its batch lists.
MAX_PROBLEMS: Final = 20
_ADD: Final = "INSERT INTO ids VALUES (?, ?) ON CONFLICT DO NOTHING"


def problems(lines: Iterable[tuple[int, bytes]], endpoint: str) -> Iterator[LineProblem | None]:
    """The problem of each line in turn, None for a good one. Ends after the last that is listed."""
    number = found = 0
    with closing(sqlite3.connect("", isolation_level=None, check_same_thread=False)) as ids:
        ids.execute("CREATE TABLE ids (id TEXT PRIMARY KEY, line INTEGER) WITHOUT ROWID")
        ids.execute("BEGIN")
        for number, text in lines:
            problem = _problem(ids, number, text, endpoint)
            yield problem
            found += problem is not None
            if found >= MAX_PROBLEMS or number > MAX_LINES:
                return
    if not number:
        yield LineProblem("empty_file", "The input file has no lines.")


def _problem(ids: sqlite3.Connection, number: int, text: bytes, endpoint: str) -> LineProblem | None:
    if number > MAX_LINES:
        return LineProblem("too_many_lines", f"An input file has at most {MAX_LINES} lines, with empty ones.", number)
    if len(text) > MAX_LINE_BYTES:
        return LineProblem("line_too_long", f"A line has at most {MAX_LINE_BYTES} bytes.", number)
    try:
        custom_id = read_line(text, endpoint).custom_id
    except LineError as error:
        return LineProblem(error.code, error.message, number, error.param)
    if ids.execute(_ADD, (custom_id, number)).rowcount:
        return None
    first = ids.execute("SELECT line FROM ids WHERE id = ?", (custom_id,)).fetchone()[0]
    return LineProblem("duplicate_custom_id", f"The custom_id is that of line {first} already.", number, "custom_id")
