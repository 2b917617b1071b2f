"""Recorded traffic: files with the columns TIMESTAMP, ContextTokens, GeneratedTokens.

These are the columns of the public Azure LLM inference traces. A timestamp is a date with a time (UTC, where it names
no zone), or seconds, in all lines of a file alike. Four more columns are read where they are there, as a server exports
them (``headway traffic``): Class, Tenant, Sequences (a request of several is replayed as so many) and MaxTokens. An
empty GeneratedTokens is a length that is not known: it is drawn from the known ones of its class.

Lengths and times of a large service are scaled down before a small engine serves them: publish the scaling with the
result.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import repeat
from operator import attrgetter
from pathlib import Path
from random import Random
from typing import NamedTuple

from headway_simulator.traffic.workload import CLASSES, Request, chooser

COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
MORE_COLUMNS = ("Class", "Tenant", "Sequences", "MaxTokens")
#: The most characters of a line, and the most requests of a file (about 300 MB in memory).
MAX_LINE_CHARS = 10_000
MAX_ROWS = 1_000_000

_MAX_S = 1e12
_MOST_TOKENS = 999_999_999
_MAX_NAME_CHARS = 64
_MAX_SEQUENCES = 1024


class TraceError(ValueError):
    """A trace that cannot be replayed. Its text is one line that names the file and the line."""


class Row(NamedTuple):
    """A recorded sequence; ``at_s`` counts from the first one.

    ``output_tokens`` is 0 where it is not known. ``class_name`` and ``tenant`` are empty where the file has none, and
    ``max_tokens``, what the client said beforehand, is None where the file does not say or the client did not.
    """

    at_s: float
    prompt_tokens: int
    output_tokens: int
    class_name: str = ""
    tenant: str = ""
    max_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """Recorded requests in the order of their arrival, at least one of them with a known answer.

    ``tells_length``: the file says what the clients said beforehand; else they said the very length of the answer.
    """

    name: str
    rows: Sequence[Row]
    tells_length: bool = False

    @property
    def span_s(self) -> float:
        """The time from the first arrival to the last."""
        return self.rows[-1].at_s

    @property
    def prompt_tokens(self) -> float:
        """The mean length of a prompt."""
        return sum(row.prompt_tokens for row in self.rows) / len(self.rows)

    @property
    def output_tokens(self) -> float:
        """The mean of the known answer lengths."""
        known = [row.output_tokens for row in self.rows if row.output_tokens]
        return sum(known) / len(known)

    @property
    def rate_per_s(self) -> float:
        """The mean number of arrivals a second; 0 when all came at once."""
        return (len(self.rows) - 1) / self.span_s if self.span_s else 0.0

    def scaled(self, lengths: float = 1.0, time: float = 1.0, most_tokens: int | None = None) -> Trace:
        """Every length and every time multiplied; a length is at least 1 token and at most ``most_tokens``."""
        most = float("inf") if most_tokens is None else most_tokens

        def length(tokens: int) -> int:
            return int(min(max(round(tokens * lengths), 1), most))

        rows = [
            row._replace(
                at_s=row.at_s * time,
                prompt_tokens=length(row.prompt_tokens),
                output_tokens=row.output_tokens and length(row.output_tokens),
                max_tokens=row.max_tokens and length(row.max_tokens),
            )
            for row in self.rows
        ]
        return replace(self, rows=rows)

    def requests(
        self,
        seed: int,
        duration_s: float = float("inf"),
        classes: Mapping[str, float] = CLASSES,
        tenants: Mapping[str, float] | None = None,
    ) -> list[Request]:
        """The requests of the first ``duration_s`` seconds; missing values are drawn."""
        clients = Random(seed)  # noqa: S311 - to be repeatable
        draw_class, draw_tenant = chooser(clients, classes), chooser(clients, tenants or {"": 1.0})
        known: KnownLengths | None = None
        found = list[Request]()
        for row in self.rows:
            if row.at_s >= duration_s:
                break
            class_name, tenant = row.class_name or draw_class(), row.tenant or draw_tenant()
            output_tokens = row.output_tokens
            if not output_tokens:
                known = known or KnownLengths(self.rows)
                output_tokens = known.draw(row, clients)
            said_tokens = row.max_tokens if self.tells_length else output_tokens
            found.append(Request(row.at_s, class_name, row.prompt_tokens, output_tokens, said_tokens, tenant))
        return found


class KnownLengths:
    """The known lengths of answers, from which the unknown ones are drawn, by class where its own are known.

    Where a client said the most that it wants, what is drawn is the part of that which was used: a request that allows
    more tokens gets more.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self._relative: dict[tuple[str, bool], list[float]] = {}
        self._all = [row.output_tokens for row in rows if row.output_tokens]
        for row in rows:
            if row.output_tokens:
                for name in {row.class_name, ""}:
                    self._relative.setdefault((name, row.max_tokens is None), []).append(relative_length(row))

    def draw(self, row: Row, random: Random) -> int:
        """A length for this row. Raises IndexError where none is known."""
        for name in (row.class_name, ""):
            if known := self._relative.get((name, row.max_tokens is None)):
                return length_of(row, random.choice(known))
        length = random.choice(self._all)
        return length if row.max_tokens is None else min(length, row.max_tokens)


def relative_length(row: Row) -> float:
    """The length of the answer, as a part of the client's bound if given."""
    return row.output_tokens if row.max_tokens is None else min(1.0, row.output_tokens / row.max_tokens)


def length_of(row: Row, relative: float) -> int:
    """The length of an answer to this row that is relatively so long."""
    return max(1, round(relative if row.max_tokens is None else relative * row.max_tokens))


def read_trace(path: str | Path) -> Trace:
    """Read a trace file. Raises TraceError."""
    file = Path(path)
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            rows, tells_length = _table(csv.reader(_bounded(lines, str(path))), str(path))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8 text with comma-separated values"
        raise TraceError(f"{path}: cannot be read: {why}") from None
    if not rows:
        raise TraceError(f"{path}: line 2: there is no request in this file")
    if not any(row.output_tokens for row in rows):
        raise TraceError(f"{path}: no line has a number of {COLUMNS[2]}")
    begin_s = rows[0].at_s
    return Trace(file.name, [row._replace(at_s=row.at_s - begin_s) for row in rows], tells_length)


def _bounded(file: io.TextIOWrapper, source: str) -> Iterator[str]:
    """The lines, each read up to its bound."""
    number = 0
    while line := file.readline(MAX_LINE_CHARS + 1):
        number += 1
        if len(line) > MAX_LINE_CHARS:
            raise TraceError(f"{source}: line {number}: longer than {MAX_LINE_CHARS} characters")
        yield line


def _table(lines: Iterator[list[str]], source: str) -> tuple[list[Row], bool]:
    """All rows in order of time, and whether the file says what the clients said beforehand."""
    head = [name.strip() for name in next(lines, [])]
    missing = [name for name in COLUMNS if name not in head]
    if missing:
        raise TraceError(f"{source}: line 1: no column {', '.join(missing)}; needed are {', '.join(COLUMNS)}")
    places = {name: head.index(name) for name in (*COLUMNS, *MORE_COLUMNS) if name in head}
    return sorted(_rows(lines, places, source), key=attrgetter("at_s")), MORE_COLUMNS[3] in places


def _rows(lines: Iterator[list[str]], places: Mapping[str, int], source: str) -> Iterator[Row]:
    dated: bool | None = None
    requests = 0
    for number, cells in enumerate(lines, start=2):
        if any(cells):
            where = f"{source}: line {number}"
            if len(cells) <= max(places.values()):
                raise TraceError(f"{where}: only {len(cells)} columns")
            named = {name: cells[place].strip() for name, place in places.items()}
            sequences = _tokens(named.get(MORE_COLUMNS[2]) or "1", MORE_COLUMNS[2], 1, where, _MAX_SEQUENCES)
            requests += sequences
            if requests > MAX_ROWS:
                raise TraceError(f"{where}: more than {MAX_ROWS} requests; cut the file, or take every tenth line")
            yield from repeat(_row(named, where), sequences)
            before, dated = dated, not _is_seconds(named[COLUMNS[0]])
            if before not in (None, dated):
                raise TraceError(f"{where}: TIMESTAMP: some lines of this file have dates, others seconds")


def _row(named: Mapping[str, str], where: str) -> Row:
    time, prompt, output = (named[name] for name in COLUMNS)
    class_name, tenant = (_name(named.get(column, ""), column, where) for column in MORE_COLUMNS[:2])
    most = named.get(MORE_COLUMNS[3])
    return Row(
        _seconds(time, where),
        _tokens(prompt, COLUMNS[1], 1, where),
        (_tokens(output, COLUMNS[2], 0, where) or 1) if output else 0,
        class_name,
        tenant,
        _tokens(most, MORE_COLUMNS[3], 1, where) if most else None,
    )


def _name(text: str, column: str, where: str) -> str:
    if len(text) > _MAX_NAME_CHARS or not text.isprintable():
        raise TraceError(f"{where}: {column}: {text[:40]!r} is no name of at most {_MAX_NAME_CHARS} characters")
    return text


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


def _tokens(text: str, column: str, least: int, where: str, most: int = _MOST_TOKENS) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and least <= int(text) <= most):
        raise TraceError(f"{where}: {column}: {text[:40]!r} is not a whole number from {least} to {most}")
    return int(text)
