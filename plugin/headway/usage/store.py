"""The database: a row for each of the last requests, and the sums by minute, hour and day.

A batch of records is one transaction: each record is in the table of requests and in one row of each period, or in
none. Servers may share a database of one machine: they add to the same rows. SQLite does not lock well on network file
systems. In WAL mode a commit is kept when the process is killed; a loss of power may lose the last commits.

Bounds: the newest ``_KEPT`` periods that have rows, ``MAX_ROWS`` rows of each kind of period, ``MAX_GROUPS`` rows of
one period (more groups are counted with ``OTHER``, or with the tenant where it has a budget), ``MAX_REQUESTS``
requests. No bound depends on the clock: a clock that jumps adds periods, and removes none.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, Final

from headway_policies.usage import (
    DIMENSIONS,
    Figures,
    Group,
    Period,
    Priced,
    UsageQuery,
    UsageRecord,
    bounded,
    roll_up,
)

MAX_REQUESTS: Final = 100_000
MAX_GROUPS: Final = 10_000
MAX_ROWS: Final = 1_000_000
_KEPT: Final = {Period.MINUTE: 49 * 60, Period.HOUR: 62 * 24, Period.DAY: 800}
_MAX_NAME_CHARS: Final = 200
_APPLICATION: Final = 0x48575553
_VERSION: Final = 1
#: The longest wait for another server's transaction.
_LOCKED_S: Final = 1.0
_WAL_BYTES: Final = 16 * 1024 * 1024
#: The longest time of a query, after which it fails.
_READ_WITHIN_S: Final = 5.0
#: It differs between machines.
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
_STEPS_BETWEEN_LOOKS: Final = 50_000

_FIGURES: Final = Figures._fields
_KEY: Final = ("period", "start_s", *DIMENSIONS)


def _columns(names: Sequence[str], kind: str) -> str:
    return ", ".join(f"{name} {kind} NOT NULL" for name in names)


_SCHEMA: Final = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS requests (
  ended_s REAL NOT NULL, {_columns(DIMENSIONS, "TEXT")}, {_columns(_FIGURES[2:], "NUMERIC")});
CREATE TABLE IF NOT EXISTS usage (
  period INTEGER NOT NULL, start_s INTEGER NOT NULL, {_columns(DIMENSIONS, "TEXT")}, {_columns(_FIGURES, "NUMERIC")},
  PRIMARY KEY ({", ".join(_KEY)})) WITHOUT ROWID;
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
COMMIT;
"""
_STARTS: Final = "SELECT DISTINCT start_s FROM usage WHERE period = ? ORDER BY start_s DESC LIMIT 1 OFFSET ?"
_ROWS: Final = "SELECT start_s FROM usage WHERE period = ? ORDER BY start_s DESC LIMIT 1 OFFSET ?"
_IN_PERIOD: Final = "period = ? AND start_s = ?"
_GROUPS_IN_PERIOD: Final = f"SELECT {', '.join(DIMENSIONS)} FROM usage WHERE {_IN_PERIOD}"  # noqa: S608 - no values
_ADD: Final = (  # SQLite before 3.35 wants the columns of the conflict
    f" ON CONFLICT ({', '.join(_KEY)})"
    f" DO UPDATE SET {', '.join(f'{name} = {name} + excluded.{name}' for name in _FIGURES)}"
)
#: Rows of one statement. Each statement releases the interpreter lock, and gets it late from a busy event loop.
_AT_ONCE: Final = 200


class NotUsageError(sqlite3.DatabaseError):
    """The file is a database of another program, or of another version of Headway."""


class UsageStore:
    """The database. Raises sqlite3.Error or OSError wherever it cannot be opened, read or written.

    ``write`` and ``prune`` keep a connection and belong to one thread; ``read`` may be called on any other. ``named``
    returns the tenants that keep their names in a period that has ``MAX_GROUPS`` rows.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.named: Callable[[], Container[str]] = tuple
        self._connection: sqlite3.Connection | None = None

    def check(self) -> None:
        """Open the database, create a missing one, and close it."""
        try:
            self._opened()
        finally:
            self.close()

    def write(self, records: Sequence[UsageRecord]) -> None:
        """Add these records, all of them or none."""
        records = [_storable(record) for record in records]
        with self._transaction() as connection:
            _insert(connection, "requests", [(ended_s, *group, *figures[2:]) for ended_s, group, figures in records])
            for (period, start_s), groups in roll_up(records).items():
                self._add(connection, period, start_s, groups)

    def prune(self) -> None:
        """Remove the rows beyond the bounds."""
        with self._transaction() as connection:
            connection.execute(
                "DELETE FROM requests WHERE rowid <= (SELECT max(rowid) FROM requests) - ?", (MAX_REQUESTS,)
            )
            for period, kept in _KEPT.items():
                for newest, most in ((_STARTS, kept), (_ROWS, MAX_ROWS)):
                    beyond = connection.execute(newest, (period, most)).fetchone()
                    if beyond is not None:
                        connection.execute("DELETE FROM usage WHERE period = ? AND start_s <= ?", (period, *beyond))

    def close(self) -> None:
        """Close the connection; the next use opens another one."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()

    def read(self, query: UsageQuery, most: int) -> list[Priced]:
        """The sums of a query, told apart by what prices depend on as well; ``most`` + 1 rows at most."""
        priced = ("class", "model", "adapter")
        groups = [*(["start_s"] if query.every else []), *query.by, *(name for name in priced if name not in query.by)]
        rows = []
        for line in self._sums(query, groups, most + 1):
            named = dict(zip(groups, line, strict=False))
            own, figures = tuple(named[name] for name in query.by), Figures._make(line[len(groups) :])
            rows.append(Priced(named.get("start_s"), own, named["class"], named["model"], named["adapter"], figures))
        return rows

    def sums(self, query: UsageQuery) -> Iterator[tuple[tuple[str, ...], Figures]]:
        """The sums of every group of a query over its whole range, however many groups there are."""
        count = len(query.by)
        for line in self._sums(query, query.by, -1):
            yield line[:count], Figures._make(line[count:])

    def oldest_s(self, period: Period) -> int | None:
        """The start of the oldest kept period; None without one."""
        with closing(self._reading()) as connection:
            found = connection.execute("SELECT min(start_s) FROM usage WHERE period = ?", (period,)).fetchone()
        return None if found is None else found[0]

    def identity(self) -> str | None:
        """A name of the file that is the same for all servers of a machine; None if unknown."""
        with suppress(OSError):
            machine, file = _BOOT.read_bytes(), self.path.stat()
            return sha256(machine + f"{file.st_dev} {file.st_ino}".encode()).hexdigest()[:16]
        return None

    # ------------------------------------------------------------------ inside

    def _add(
        self, connection: sqlite3.Connection, period: Period, start_s: int, groups: Mapping[Group, Figures]
    ) -> None:
        """Add to the rows of one period."""
        at = (period, start_s)
        kept = connection.execute(f"SELECT count(*) FROM usage WHERE {_IN_PERIOD}", at).fetchone()[0]  # noqa: S608 - no values
        if kept + len(groups) > MAX_GROUPS:
            known = set(map(Group._make, connection.execute(_GROUPS_IN_PERIOD, at)))
            groups = bounded(groups, known, MAX_GROUPS, self.named())
        _insert(connection, "usage", [(*at, *group, *figures) for group, figures in groups.items()], _ADD)

    def _sums(self, query: UsageQuery, groups: Sequence[str], most: int) -> Iterator[tuple[Any, ...]]:
        """The groups of a query with their sums; -1: all of them."""
        sums, by = ", ".join(f"sum({name})" for name in _FIGURES), ", ".join(groups)
        where = "period = ? AND start_s >= ? AND start_s < ?" + ("" if query.tenant is None else " AND tenant = ?")
        text = f"SELECT {by}, {sums} FROM usage WHERE {where} GROUP BY {by} LIMIT ?"  # noqa: S608 - names of columns
        values = [query.period, query.since_s, query.until_s, *([] if query.tenant is None else [query.tenant])]
        with closing(self._reading()) as connection:
            yield from connection.execute(text, (*values, most))

    def _reading(self) -> sqlite3.Connection:
        """A connection of its own, which only reads, for a bounded time."""
        connection = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", timeout=_LOCKED_S, uri=True)
        until_s = time.monotonic() + _READ_WITHIN_S
        connection.set_progress_handler(lambda: time.monotonic() > until_s, _STEPS_BETWEEN_LOOKS)
        return connection

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._opened()
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield connection
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            _make(self.path)
            connection = sqlite3.connect(self.path, timeout=_LOCKED_S, isolation_level=None, check_same_thread=False)
            try:
                _set_up(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection


def _storable(record: UsageRecord) -> UsageRecord:
    """The record with names that SQLite can store: a client may send a lone surrogate, or a very long name."""
    if sum(map(len, record.group)) <= _MAX_NAME_CHARS and "".join(record.group).isprintable():
        return record
    return record._replace(group=Group._make(map(_name, record.group)))


def _name(text: str) -> str:
    return text[:_MAX_NAME_CHARS].encode(errors="replace").decode()


def _make(path: Path) -> None:
    """Create a missing file that only its owner may read. Raises OSError, also for a pipe or a device, which blocks."""
    if not path.exists():
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    elif not path.is_file():
        raise OSError(0, "not a regular file")


def _set_up(connection: sqlite3.Connection) -> None:
    application, version = (
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
    )
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if tables and (application, version) != (_APPLICATION, _VERSION):
        raise NotUsageError("the file is a database of another program, or of another version of Headway")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
    if not tables:
        connection.executescript(_SCHEMA)


def _insert(
    connection: sqlite3.Connection, table: str, rows: Sequence[tuple[object, ...]], otherwise: str = ""
) -> None:
    for start in range(0, len(rows), _AT_ONCE):
        part = rows[start : start + _AT_ONCE]
        values = ", ".join([f"({', '.join('?' * len(part[0]))})"] * len(part))
        connection.execute(f"INSERT INTO {table} VALUES {values}{otherwise}", [*chain.from_iterable(part)])  # noqa: S608 - no values
