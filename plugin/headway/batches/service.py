"""The files and batches of one server: what tenants do to them. All disk work is done on one thread of its own."""

from __future__ import annotations

import asyncio
import errno
import logging
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, ParamSpec, TypeVar

from headway.api.schema import BatchStatus
from headway.batches.folder import BatchFolder, FolderInUseError
from headway.batches.objects import KEPT_S, Batch, Status, StoredFile, new_batch_id, new_file_id
from headway.batches.store import BatchStore, Row, row_of
from headway.batches.upload import PURPOSE, Upload
from headway.errors import HeadwayError
from headway.http.access.identity import Sender
from headway.settings import Environment
from headway.utc_text import utc_text

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

#: Of one tenant so many batches may be waiting or running.
MAX_OPEN: Final = 100
MAX_ALL_OPEN: Final = 2_000
#: So many are in the status.
MOST_SHOWN: Final = 48
MAX_FILES: Final = 100_000
MAX_TENANT_FILES: Final = MAX_FILES // 2
#: After so many new batches the oldest ended ones are counted.
_COUNTED_EVERY: Final = 100
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
#: This clock cannot be set, and on Linux it goes on while the machine sleeps.
_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class StorageFullError(Exception):
    """The disk, or what the folder may hold, is full: nothing was changed."""


class StorageLockedError(Exception):
    """Another process has locked the database: nothing was changed."""


class TenantFullError(Exception):
    """A tenant's files have as many bytes, or are as many, as they may: nothing was changed.

    OpenAI answers 400 to it, without a code. Here it is 413, whose advice is the same: send less, or delete. SDKs come
    again for 429, 500 and above, which cannot help until files are deleted.
    """


class FileInUseError(Exception):
    """The file is read by a batch that has not ended: its message is the id of that."""


class NoFileError(Exception):
    """The file was deleted meanwhile."""


class Free(NamedTuple):
    """The free bytes for the files of one tenant, and for all files."""

    tenant_bytes: int
    all_bytes: int


class TooManyBatchesError(Exception):
    """As many batches as there may be have not ended."""


class Batches:
    """The files and batches. ``open`` are those that have not ended, by their ids, as they are now.

    ``wake`` is set where there is something new to do; ``lines`` counts the lines that are over by their outcome.
    ``now_s`` is the wall clock of the start and the time since then: one that jumps changes no window, and makes no
    file old. A window counts the time in which a server runs with the folder, by what was written of it: so a server
    that starts with a wrong clock neither ends it nor makes it longer. Touched on the event loop only.

    What depends on the rows as they are is one piece of work of the disk's thread: nothing comes between.
    """

    def __init__(
        self, folder: BatchFolder, store: BatchStore, max_bytes: int, max_tenant_bytes: int | None = None
    ) -> None:
        self.folder, self.store, self.max_bytes = folder, store, max_bytes
        self.max_tenant_bytes = max_bytes // 2 if max_tenant_bytes is None else max_tenant_bytes
        self.lines = Counter[str]()
        self._start_s = time.time() - _passed_s()
        self._coming = Counter[str]()
        self._adding = asyncio.Lock()
        self._added = 0
        self.open: dict[str, Batch] = {batch.id: batch for batch in store.open_batches()}
        for batch in self.open.values():
            batch.expires_s += int(self.now_s()) - batch.seen_s if batch.seen_s else 0
        self.wake = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "headway batches")
        self._closed = False
        self._sweep()

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Batches | None:
        """The files and batches in the folder that ``HEADWAY_BATCH_DIR`` names, None without it.

        Raises HeadwayError in one line where that cannot be used.
        """
        found = Environment(environment)
        if found.batch_dir is None:
            return None
        where, folder = f"{Environment.batch_dir.name} ({found.batch_dir[:200]})", None
        try:
            folder = BatchFolder(Path(found.batch_dir))
            return cls(folder, BatchStore(folder.database), found.batch_bytes, found.batch_tenant_bytes)
        except FolderInUseError:
            text = "another server has this folder: give each server one of its own"
            raise HeadwayError(f"{where}: {text}") from None
        except (OSError, sqlite3.Error, ValueError) as error:
            if folder is not None:
                folder.close()
            advice = "name a folder that the server may write to"
            raise HeadwayError(f"{where}: cannot be used: {error}; {advice}") from None

    def now_s(self) -> float:
        """The time in seconds since 1970."""
        return self._start_s + _passed_s()

    def rows(self) -> list[BatchStatus]:
        """The batches that have not ended, for the status: those that run, then the newest."""
        newest_first = list(self.open.values())[::-1]
        shown = sorted(newest_first, key=lambda batch: batch.status is Status.VALIDATING)
        return [
            BatchStatus(
                id=batch.id,
                tenant=batch.sender.tenant,
                state=batch.status,
                completed=batch.completed,
                failed=batch.failed,
                total=batch.total,
                expires=utc_text(batch.expires_s),
                late=batch.late,
                left_s=batch.needed_s,
            )
            for batch in shown[:MOST_SHOWN]
        ]

    async def disk(self, work: Callable[P, R], *args: P.args, **named: P.kwargs) -> R:
        """Do this on the disk's thread. Raises StorageFullError where the disk is full, StorageLockedError where
        another process keeps the database locked.
        """
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: work(*args, **named))
        except (OSError, sqlite3.Error) as error:
            if is_full(error):
                raise StorageFullError("The disk of this server is full.") from error
            if is_locked(error):
                raise StorageLockedError("Another process has locked the database of batches.") from error
            raise

    async def free(self, tenant: str) -> Free:
        """The room that is left for files of a tenant. Raises StorageFullError or TenantFullError."""
        return await self.disk(self._free, tenant)

    def comes(self, tenant: str, size_bytes: int, free: Free) -> None:
        """Count the bytes of uploads that have not ended. Raises StorageFullError or TenantFullError for more than was
        free.
        """
        self._coming[tenant] += size_bytes
        self._check(self._coming[tenant], self._coming.total(), free)

    def ends(self, tenant: str, size_bytes: int) -> None:
        """An upload of so many bytes has ended, with a file or without."""
        self._coming[tenant] -= size_bytes
        if not self._coming[tenant]:
            del self._coming[tenant]

    async def add_file(self, file_id: str, tenant: str, name: str, size_bytes: int, kept_s: int = KEPT_S) -> StoredFile:
        """Keep an uploaded file. Raises StorageFullError or TenantFullError, where others were kept meanwhile."""
        file = StoredFile(file_id, tenant, name, PURPOSE, size_bytes, int(self.now_s()), kept_s)
        await self.disk(self._add, file)
        return file

    def _add(self, file: StoredFile) -> None:
        self._check(file.size_bytes, file.size_bytes, self._free(file.tenant))
        self.store.save(file)

    def _free(self, tenant: str) -> Free:
        number, size_bytes = self.store.files_bytes()
        own, own_bytes = self.store.files_bytes(tenant)
        free = Free(self.max_tenant_bytes - own_bytes, self.max_bytes - size_bytes)
        self._check(1, 1, free)
        if number >= MAX_FILES:
            raise self._full()
        if own >= MAX_TENANT_FILES:
            raise self._tenant_full()
        return free

    def _check(self, tenant_bytes: int, all_bytes: int, free: Free) -> None:
        if all_bytes > free.all_bytes:
            raise self._full()
        if tenant_bytes > free.tenant_bytes:
            raise self._tenant_full()

    def _full(self) -> StorageFullError:
        text = f"The files of this server may have {self.max_bytes} bytes together, and be {MAX_FILES} at most"
        return StorageFullError(f"{text}: delete files that are not needed.")

    def _tenant_full(self) -> TenantFullError:
        text = f"Your files may have {self.max_tenant_bytes} bytes together, and be {MAX_TENANT_FILES} at most"
        return TenantFullError(f"{text}: delete files that are not needed, or send a smaller one.")

    def discard(self, upload: Upload, file_id: str) -> None:
        """Remove what has come of an upload that failed."""
        for work in (upload.close, partial(self.folder.remove, file_id), partial(self.store.remove, file_id)):
            self._thread.submit(work)

    async def remove_file(self, file: StoredFile) -> None:
        """Remove a file. Raises FileInUseError."""
        await self.disk(self._remove_file, file.id)

    def _remove_file(self, file_id: str) -> None:
        reader = self.store.reader_of(file_id)
        if reader is not None:
            raise FileInUseError(reader)
        self._remove(file_id)

    async def add_batch(
        self,
        sender: Sender,
        file: StoredFile,
        endpoint: str,
        window: tuple[str, int],
        metadata: dict[str, str] | None,
        files_kept_s: int = KEPT_S,
    ) -> Batch:
        """Begin a batch; ``window`` is its text and its seconds. Raises TooManyBatchesError or NoFileError."""
        async with self._adding:  # for the bounds: it is open once it is written
            own = sum(batch.sender.tenant == sender.tenant for batch in self.open.values())
            if own >= MAX_OPEN or len(self.open) >= MAX_ALL_OPEN:
                raise TooManyBatchesError
            now_s = int(self.now_s())
            batch = Batch(
                new_batch_id(), sender, endpoint, file.id, window[0], now_s, now_s + window[1], new_file_id(),
                new_file_id(), metadata, now_s, files_kept_s=files_kept_s,
            )  # fmt: skip
            try:
                await self.disk(self._add_batch, batch)
            except asyncio.CancelledError:  # its client has gone, and the disk's thread may write it all the same
                self._thread.submit(self._remove, batch.id)
                raise
            self.open[batch.id] = batch
        self.wake.set()
        return batch

    def _add_batch(self, batch: Batch) -> None:
        if self.store.file(batch.sender.tenant, batch.input_id) is None:
            raise NoFileError
        self.store.save(batch)
        self._added += 1
        if self._added % _COUNTED_EVERY == 0:
            self._remove(*self.store.beyond())

    async def batch(self, tenant: str, batch_id: str) -> Batch | None:
        """The batch of this tenant with this id, as it is now."""
        found = self.open.get(batch_id)
        if found is not None:
            return found if found.sender.tenant == tenant else None
        return await self.disk(self.store.batch, tenant, batch_id)

    async def cancel(self, batch: Batch) -> None:
        """Let a batch end without what has not run. It does so also where that cannot be written; then the error is
        raised, and another call tries to write it again.
        """
        if batch.status in (Status.VALIDATING, Status.IN_PROGRESS):
            batch.become(Status.CANCELLING, self.now_s())
            batch.ending = Status.CANCELLED
            self.wake.set()
        if batch.ending is Status.CANCELLED and not batch.ended:
            await self.save(batch)

    async def save(self, batch: Batch, *files: StoredFile) -> None:
        """Write a batch down as it is now, with the files that it has made."""
        ended, rows = batch.ended, [self._row(batch), *map(row_of, files)]
        await self.disk(self.store.put, rows)
        if ended:
            self.open.pop(batch.id, None)

    def _row(self, batch: Batch) -> Row:
        batch.seen_s = int(self.now_s())
        return row_of(batch)

    async def note(self) -> None:
        """Write down what the windows of all open batches have left: nothing else writes those that wait."""
        await self.disk(self.store.put, [self._row(batch) for batch in self.open.values() if not batch.ended])

    async def tidy(self) -> None:
        """Remove files and ended batches whose time is over by both clocks, and ended batches that are too many."""
        now_s = min(self.now_s(), time.time())
        await self.disk(lambda: self._remove(*self.store.old(now_s), *self.store.beyond()))

    def _remove(self, *ids: str) -> None:
        if ids:
            self.store.remove(*ids)
            for object_id in ids:
                self.folder.remove(object_id)

    def close(self) -> None:
        """Close the database and the folder, once the disk's work is done. A second call does nothing."""
        if not self._closed:
            self._closed = True
            self._thread.shutdown(wait=True)
            self.store.close()
            self.folder.close()

    def _sweep(self) -> None:
        begun = {file_id for batch in self.open.values() for file_id in (batch.output_id, batch.errors_id)}
        self.folder.sweep(self.store.file_ids() | begun)


def _passed_s() -> float:
    return time.clock_gettime(_STEADY)


def is_full(error: Exception) -> bool:
    """Whether an error says that the disk is full."""
    if isinstance(error, OSError):
        return error.errno in _FULL
    return getattr(error, "sqlite_errorname", "") == "SQLITE_FULL"


def is_locked(error: Exception) -> bool:
    """Whether an error says that another process has locked the database."""
    return getattr(error, "sqlite_errorname", "").startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))
