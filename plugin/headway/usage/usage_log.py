"""The queue of records before the database: bounded, and emptied by a thread.

On the event loop a record costs an append. The thread writes every half second, so a server that is killed loses the
requests that ended in its last second, and those that ran. While the database cannot be written, at most
``MAX_WAITING`` records wait, and requests are served all the same. The log has one warning, and another line once the
database is written again.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headway.errors import HeadwayError
from headway.settings import Environment
from headway.usage.store import UsageStore
from headway_policies.text_file import TextFileError, read_text_file
from headway_policies.usage import Figures, Prices, PricesError, TopTenants, UsageRecord

if TYPE_CHECKING:
    from headway.usage.budgets import TenantBudgets

log = logging.getLogger(__name__)

#: About 20 MB: eight minutes without the database at a hundred requests a second.
MAX_WAITING: Final = 50_000
MAX_PRICES_BYTES: Final = 256 * 1024
_EVERY_S: Final = 0.5
_AGAIN_S: Final = 2.0
_PRUNE_EVERY_S: Final = 600.0
_CLOSE_WITHIN_S: Final = 5.0
_MOST_AT_ONCE: Final = 5_000
_OF_RECORD: Final = (sqlite3.DataError, sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError)


class UsageLog:
    """The accounting of one server. ``add`` is called on one thread, all other methods on any. Its owner closes it.

    ``prices`` None: nothing has a cost. ``budgets`` are counted on the thread of ``add``.
    """

    def __init__(self, store: UsageStore, prices: Prices | None = None, *, every_s: float = _EVERY_S) -> None:
        self.store = store
        self.prices = prices
        self.budgets: TenantBudgets | None = None
        self._unqueued = 0  # by the calling thread; the next two by the writing thread
        self._dropped = self._unwritten = 0
        self._every_s = every_s
        self._tenants = TopTenants()
        self._tenants_lock = threading.Lock()
        self._waiting: deque[UsageRecord] = deque()
        self._batch: list[UsageRecord] = []
        self._added = self._settled = 0
        self._thread: threading.Thread | None = None
        self._wake, self._hurry = threading.Event(), threading.Event()
        self._round, self._starting = threading.Condition(), threading.Lock()
        self._closed = self._failing = False
        self._pruned_s = time.monotonic() - _PRUNE_EVERY_S

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> UsageLog | None:
        """The accounting in the database that ``HEADWAY_USAGE_DB`` names, None without it.

        A database that exists and cannot be used is a warning. Raises HeadwayError in one line where none can be
        created, or the prices are wrong.
        """
        found = Environment(environment)
        if found.usage_db is None:
            return None
        usage = cls(UsageStore(Path(found.usage_db)), _prices(found.usage_prices))
        try:
            usage.store.check()
        except (sqlite3.Error, OSError, ValueError) as error:
            if not isinstance(error, sqlite3.Error) or _cannot_open(error):
                advice = "name a file in a folder that the server may write to"
                name = Environment.usage_db.name
                raise HeadwayError(f"{name} ({found.usage_db[:200]}): cannot be opened: {error}; {advice}") from None
            usage._warn(error)
        return usage

    def add(self, record: UsageRecord) -> None:
        """Queue a record for writing within a second. Raises no error of the database."""
        if self.budgets is not None:
            self.budgets.add(record)
        if self._thread is None and not self._closed:
            self._start()
        if self._closed or self.waiting >= MAX_WAITING:
            self._unqueued += 1
            return
        self._waiting.append(record)
        self._added += 1
        if not self._wake.is_set():
            self._wake.set()

    @property
    def lost(self) -> int:
        """The number of requests whose records are lost."""
        return self._unqueued + self._dropped + self._unwritten

    @property
    def waiting(self) -> int:
        """The number of requests that are not written yet."""
        return len(self._waiting) + len(self._batch)

    def flush(self, within_s: float) -> bool:
        """Wait until the records added before are written; returns whether they are."""
        wanted = self._added
        self._hurry.set()
        self._wake.set()
        with self._round:
            return self._round.wait_for(lambda: self._settled >= wanted, within_s if self._thread else 0.0)

    def tenants(self) -> Mapping[str, Figures]:
        """The figures of each tenant that has a label of its own, and of the others together."""
        with self._tenants_lock:
            return self._tenants.counts()

    def close(self) -> None:
        """Write the waiting records, for a few seconds at most, and close the database. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        if self._thread is not None:
            self._hurry.set()
            self._wake.set()
            self._thread.join(_CLOSE_WITHIN_S)
        elif self._waiting:
            self._end()

    # ------------------------------------------------------------------ inside

    def _start(self) -> None:
        """Start the thread, with the first record: a fork before that has no thread and can start its own.

        At its end a process can start no thread (Python 3.12): then ``close`` writes. Records may come from several
        threads at once; the database has one connection, of this thread.
        """
        thread = threading.Thread(target=self._run, name="headway usage", daemon=True)
        with self._starting, suppress(RuntimeError):
            if self._thread is None:
                thread.start()
                self._thread = thread

    def _run(self) -> None:
        while not self._closed:
            self._wake.wait()
            self._hurry.wait(_AGAIN_S if self._failing else self._every_s)
            self._hurry.clear()
            self._wake.clear()
            self._write_all()
        self._end()

    def _end(self) -> None:
        self._write_all()
        self._unwritten += len(self._batch) + len(self._waiting)
        self.store.close()

    def _write_all(self) -> None:
        """Write all waiting records, in batches; a batch that fails stays, and ends the round."""
        while self._batch or self._waiting:
            while self._waiting and len(self._batch) < _MOST_AT_ONCE:
                self._batch.append(self._waiting.popleft())
            try:
                self._write_batch()
            except (sqlite3.Error, OSError) as error:
                self.store.close()
                self._warn(error)
                self._wake.set()  # to try again
                break
        self._prune()
        with self._round:
            self._round.notify_all()

    def _write_batch(self) -> None:
        """Write the batch, in smaller parts if a record cannot be written: only that record is lost.

        Raises sqlite3.Error or OSError where the database cannot be written; then the rest of the batch stays.
        """
        size = len(self._batch)
        while self._batch:
            part = self._batch[:size]
            try:
                self.store.write(part)
            except Exception as error:
                if _of_database(error):
                    raise
                if len(part) > 1:
                    size = len(part) // 2
                    continue
                self._drop(error)
            else:
                self._written(part)
                size *= 2
            self._settled += len(part)
            del self._batch[: len(part)]

    def _drop(self, error: Exception) -> None:
        """Discard the first record, which would fail again, with a line for the first such loss."""
        if not self._dropped:
            log.error(
                "usage database %s: the record of a request cannot be written (%s); this one and any other such is "
                "lost, and counted", self.store.path, type(error).__name__,
            )  # fmt: skip
        self._dropped += 1

    def _written(self, records: list[UsageRecord]) -> None:
        with self._tenants_lock:
            for record in records:
                self._tenants.add(record.group.tenant, record.figures)
        if self._failing:
            self._failing = False
            log.warning("usage database %s: it is written again; %d requests are lost", self.store.path, self.lost)

    def _prune(self) -> None:
        if self._failing or time.monotonic() < self._pruned_s + _PRUNE_EVERY_S:
            return
        self._pruned_s = time.monotonic()
        with self._tenants_lock:
            self._tenants.review()
        try:
            self.store.prune()
        except (sqlite3.Error, OSError) as error:
            self.store.close()
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        if not self._failing:
            self._failing = True
            log.warning(
                "usage database %s: %s; requests go on; the last %d are written once the database works again",
                self.store.path, error, MAX_WAITING,
            )  # fmt: skip


def _of_database(error: Exception) -> bool:
    """Whether the database caused an error, and not a record with a value that a column does not accept."""
    return isinstance(error, sqlite3.Error | OSError) and not isinstance(error, _OF_RECORD)


def _cannot_open(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorname", "") == "SQLITE_CANTOPEN"


def _prices(path: str | None) -> Prices | None:
    """The prices in a file. Raises HeadwayError."""
    if path is None:
        return None
    try:
        return Prices.parse(read_text_file(path, MAX_PRICES_BYTES))
    except (TextFileError, PricesError) as error:
        raise HeadwayError(f"{Environment.usage_prices.name} ({path[:200]}): {error}") from None
