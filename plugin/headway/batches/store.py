"""The database of files and batches: one table, in which each has a row. ``source`` is a file's purpose, or the input
of a batch.

The column ``created_s`` is not when the row was made: it is ``KEPT_S`` (30 days) before the row expires, so of a file
that is kept for a shorter time it lies before its making. That time itself is in ``document``. The name stays, as
databases of earlier versions have it.

The connection belongs to one thread. In WAL mode with full synchronisation what was committed outlives a killed
process and a machine without power. Raises sqlite3.Error wherever the database cannot be opened, read or written.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from headway.batches.objects import KEPT_S, Batch, StoredFile

Order = Literal["asc", "desc"]
Row = tuple[object, ...]

_APPLICATION: Final = 0x48574254
_VERSION: Final = 1
_SCHEMA: Final = f"""
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS objects (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, tenant TEXT NOT NULL,
  open INTEGER NOT NULL, size_bytes INTEGER NOT NULL, source TEXT NOT NULL, created_s INTEGER NOT NULL,
  document BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS of_tenant ON objects (tenant, kind, seq);
CREATE INDEX IF NOT EXISTS open_batches ON objects (open, source);
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
COMMIT;
"""
#: The rows of so many batches of a tenant are kept, the newest; and of so many of all.
MAX_TENANT_BATCHES: Final = 10_000
MAX_BATCHES: Final = 100_000
#: So long a call waits for another process that has locked the database; answers of lines are written behind it.
_LOCKED_S: Final = 1.0
_PUT: Final = (
    "INSERT INTO objects (id, kind, tenant, open, size_bytes, source, created_s, document)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT (id) DO UPDATE SET open = excluded.open, document = excluded.document"
)


class NotBatchesError(sqlite3.DatabaseError):
    """The file is a database of something else, or of a newer Headway."""


class BatchStore:
    """The files and batches of all tenants."""

    def __init__(self, path: Path) -> None:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._connection = sqlite3.connect(path, _LOCKED_S, isolation_level=None, check_same_thread=False)
        try:
            self._set_up()
        except BaseException:
            self._connection.close()
            raise

    def save(self, *saved: StoredFile | Batch) -> None:
        """Add or change these files and batches, all of them or none."""
        self.put([row_of(document) for document in saved])

    def put(self, rows: Sequence[Row]) -> None:
        """Add or change these rows, all of them or none."""
        with self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_PUT, rows)

    def remove(self, *ids: str) -> None:
        """Remove the files and batches with these ids."""
        with self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("DELETE FROM objects WHERE id = ?", [(removed,) for removed in ids])

    def file(self, tenant: str, file_id: str) -> StoredFile | None:
        """The file of this tenant with this id."""
        found = self._one("file", tenant, file_id)
        return None if found is None else msgspec.json.decode(found, type=StoredFile)

    def batch(self, tenant: str, batch_id: str) -> Batch | None:
        """The batch of this tenant with this id."""
        found = self._one("batch", tenant, batch_id)
        return None if found is None else msgspec.json.decode(found, type=Batch)

    def files(
        self, tenant: str, limit: int, after: str | None, order: Order, purpose: str | None = None
    ) -> Sequence[StoredFile]:
        """The files of a tenant, those after the named one, and of one purpose where that is given."""
        rows = self._page("file", tenant, limit, after, order, purpose)
        return [msgspec.json.decode(row, type=StoredFile) for row in rows]

    def batches(self, tenant: str, limit: int, after: str | None, order: Order = "desc") -> Sequence[Batch]:
        """The batches of a tenant, those after the named one."""
        return [msgspec.json.decode(row, type=Batch) for row in self._page("batch", tenant, limit, after, order)]

    def open_batches(self) -> Sequence[Batch]:
        """The batches of all tenants that have not ended."""
        rows = self._connection.execute("SELECT document FROM objects WHERE open = 1 ORDER BY seq")
        return [msgspec.json.decode(row, type=Batch) for (row,) in rows]

    def reader_of(self, file_id: str) -> str | None:
        """The id of a batch that still reads this file."""
        text = "SELECT id FROM objects WHERE open = 1 AND source = ?"
        found = self._connection.execute(text, (file_id,)).fetchone()
        return None if found is None else str(found[0])

    def file_ids(self) -> set[str]:
        """The ids of all files."""
        return {row[0] for row in self._connection.execute("SELECT id FROM objects WHERE kind = 'file'")}

    def files_bytes(self, tenant: str | None = None) -> tuple[int, int]:
        """The number of files, and their bytes: of one tenant, or of all."""
        text = "SELECT count(*), coalesce(sum(size_bytes), 0) FROM objects WHERE kind = 'file' AND tenant "
        whose, values = ("IS NOT NULL", []) if tenant is None else ("= ?", [tenant])
        number, size_bytes = self._connection.execute(text + whose, values).fetchone()
        return number, size_bytes

    def old(self, now_s: float) -> Sequence[str]:
        """The ids of files and ended batches whose time is over; not of a file that a batch still reads."""
        text = (
            "SELECT id FROM objects WHERE open = 0 AND created_s <= ?"
            " AND id NOT IN (SELECT source FROM objects WHERE open = 1)"
        )
        return [row[0] for row in self._connection.execute(text, (int(now_s) - KEPT_S,))]

    def beyond(self) -> Sequence[str]:
        """The ids of ended batches that are more than may be kept: the oldest of a tenant, and the oldest of all."""
        numbered = (
            "SELECT seq, row_number() OVER (PARTITION BY tenant ORDER BY seq DESC) AS of_tenant,"
            " row_number() OVER (ORDER BY seq DESC) AS of_all FROM objects WHERE kind = 'batch'"
        )
        text = (
            f"SELECT id FROM objects WHERE open = 0 AND seq IN (SELECT seq FROM ({numbered})"  # noqa: S608 - no values
            " WHERE of_tenant > ? OR of_all > ?)"
        )
        return [row[0] for row in self._connection.execute(text, (MAX_TENANT_BATCHES, MAX_BATCHES))]

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    # ------------------------------------------------------------------ inside

    def _set_up(self) -> None:
        connection = self._connection
        application, version, tables = (
            connection.execute(text).fetchone()[0]
            for text in ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_master")
        )
        if tables and (application, version) != (_APPLICATION, _VERSION):
            raise NotBatchesError("the file is a database of another program, or of another version of Headway")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        if not tables:
            connection.executescript(_SCHEMA)

    def _one(self, kind: str, tenant: str, object_id: str) -> bytes | None:
        text = "SELECT document FROM objects WHERE id = ? AND kind = ? AND tenant = ?"
        found = self._connection.execute(text, (object_id, kind, tenant)).fetchone()
        return None if found is None else bytes(found[0])

    def _page(
        self, kind: str, tenant: str, limit: int, after: str | None, order: Order, source: str | None = None
    ) -> list[bytes]:
        beyond = ">" if order == "asc" else "<"
        where, values = "kind = ? AND tenant = ?", [kind, tenant]
        if after is not None:
            where += f" AND seq {beyond} (SELECT seq FROM objects WHERE id = ? AND tenant = ?)"  # noqa: S608 - no values
            values += [after, tenant]
        if source is not None:
            where += " AND source = ?"
            values.append(source)
        text = f"SELECT document FROM objects WHERE {where} ORDER BY seq {order} LIMIT ?"  # noqa: S608 - no values
        return [row[0] for row in self._connection.execute(text, (*values, limit))]


def row_of(one: StoredFile | Batch) -> Row:
    """The row of a file, or of a batch as it is now."""
    document = msgspec.json.encode(one)
    if isinstance(one, StoredFile):
        return (one.id, "file", one.tenant, 0, one.size_bytes, one.purpose, one.expires_s - KEPT_S, document)
    return (one.id, "batch", one.sender.tenant, int(not one.ended), 0, one.input_id, one.created_s, document)
