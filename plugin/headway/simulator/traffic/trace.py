"""Recorded traffic: files with the columns TIMESTAMP, ContextTokens, GeneratedTokens.

These are the columns of the public Azure LLM inference traces. A timestamp is a date with a time (UTC, where it names
no zone), or seconds, in all lines of a file alike. Lengths and times of a large service are scaled down before a small
engine serves them: publish the scaling with the result.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import NamedTuple

from headway.errors import HeadwayError
from headway.simulator.traffic.workload import CLASSES, Request, chooser

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
#: The most characters of a line, and the most requests of a file (about 300 MB in memory).
MAX_LINE_CHARS = 10_000
MAX_ROWS = 1_000_000

_MAX_S = 1e12
_MAX_DIGITS = 9


class TraceError(HeadwayError):
    """A trace that cannot be replayed. Its text is one line that names the file and the line."""


class Row(NamedTuple):
    """One recorded request; ``at_s`` counts from the first one."""

    at_s: float
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Trace:
    """Recorded requests in the order of their arrival."""

    name: str
    rows: Sequence[Row]

    @property
    def span_s(self) -> float:
        """From the first arrival to the last."""
        return self.rows[-1].at_s

    @property
    def prompt_tokens(self) -> float:
        """The mean length of a prompt."""
        return sum(row.prompt_tokens for row in self.rows) / len(self.rows)

    @property
    def output_tokens(self) -> float:
        """The mean length of an answer."""
        return sum(row.output_tokens for row in self.rows) / len(self.rows)

    @property
    def rate_per_s(self) -> float:
        """The mean number of arrivals a second; 0 when all came at once."""
        return (len(self.rows) - 1) / self.span_s if self.span_s else 0.0

    def scaled(self, lengths: float = 1.0, time: float = 1.0, most_tokens: int | None = None) -> Trace:
        """Every length and every time multiplied; a length is at least 1 token and at most ``most_tokens``."""
        most = float("inf") if most_tokens is None else most_tokens

        def length(tokens: int) -> int:
            return int(min(max(round(tokens * lengths), 1), most))

        rows = [Row(row.at_s * time, length(row.prompt_tokens), length(row.output_tokens)) for row in self.rows]
        return Trace(self.name, rows)

    def requests(
        self,
        seed: int,
        duration_s: float = float("inf"),
        classes: Mapping[str, float] = CLASSES,
        tenants: Mapping[str, float] | None = None,
    ) -> list[Request]:
        """The requests of the first ``duration_s`` seconds. Class and tenant are drawn: the files have none."""
        clients = Random(seed)  # noqa: S311 - to be repeatable
        draw_class, draw_tenant = chooser(clients, classes), chooser(clients, tenants or {"": 1.0})
        return [
            Request(at_s, draw_class(), prompt_tokens, output_tokens, output_tokens, draw_tenant())
            for at_s, prompt_tokens, output_tokens in self.rows
            if at_s < duration_s
        ]


def read_trace(path: str | Path) -> Trace:
    """Read a trace file. Raises TraceError."""
    file = Path(path)
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            rows = sorted(_rows(csv.reader(_bounded(lines, str(path))), str(path)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text with comma-separated values"
        raise TraceError(f"{path}: cannot be read: {why}") from None
    if not rows:
        raise TraceError(f"{path}: line 2: there is no request in this file")
    begin_s = rows[0].at_s
    return Trace(file.name, [row._replace(at_s=row.at_s - begin_s) for row in rows])


def _bounded(file: io.TextIOWrapper, source: str) -> Iterator[str]:
    """The lines, none of which is read further than its bound."""
    number = 0
    while line := file.readline(MAX_LINE_CHARS + 1):
        number += 1
        if len(line) > MAX_LINE_CHARS:
            raise TraceError(f"{source}: line {number}: longer than {MAX_LINE_CHARS} characters")
        yield line


def _rows(lines: Iterator[list[str]], source: str) -> Iterator[Row]:
    head = [name.strip() for name in next(lines, [])]
    missing = [name for name in COLUMNS if name not in head]
    if missing:
        raise TraceError(f"{source}: line 1: no column {', '.join(missing)}; needed are {', '.join(COLUMNS)}")
    places = [head.index(name) for name in COLUMNS]
    dated: bool | None = None
    requests = 0
    for number, cells in enumerate(lines, start=2):
        if any(cells):
            where = f"{source}: line {number}"
            requests += 1
            if requests > MAX_ROWS:
                raise TraceError(f"{where}: more than {MAX_ROWS} requests; cut the file, or take every tenth line")
            yield _row(cells, places, where)
            before, dated = dated, not _is_seconds(cells[places[0]].strip())
            if before not in (None, dated):
                raise TraceError(f"{where}: TIMESTAMP: some lines of this file have dates, others seconds")


def _row(cells: list[str], places: list[int], where: str) -> Row:
    if len(cells) <= max(places):
        raise TraceError(f"{where}: only {len(cells)} columns")
    time, prompt, output = (cells[place].strip() for place in places)
    return Row(_seconds(time, where), _tokens(prompt, COLUMNS[1], 1, where), _tokens(output, COLUMNS[2], 0, where) or 1)


def _seconds(text: str, where: str) -> float:
    """A date with a time, or a number of seconds."""
    if _is_seconds(text):
        if float(text) > _MAX_S:
            raise TraceError(f"{where}: TIMESTAMP: {text[:40]!r} is more than {_MAX_S:.0f} seconds")
        return float(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise TraceError(f"{where}: TIMESTAMP: {text[:40]!r} is neither a date with a time nor seconds") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _is_seconds(text: str) -> bool:
    return text.isascii() and text.replace(".", "", 1).isdigit()


def _tokens(text: str, column: str, least: int, where: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS and int(text) >= least):
        most = "9" * _MAX_DIGITS
        raise TraceError(f"{where}: {column}: {text[:40]!r} is not a whole number from {least} to {most}")
    return int(text)
