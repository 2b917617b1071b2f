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
from typing import Final, ParamSpec, TypeVar

from headway.batches.folder import BatchFolder, FolderInUseError
from headway.batches.objects import Batch, Status, StoredFile, new_batch_id, new_file_id
from headway.batches.store import BatchStore
from headway.batches.upload import PURPOSE, Upload
from headway.errors import HeadwayError
from headway.http.access.identity import Sender
from headway.settings import Environment

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

#: Of one tenant so many batches may be waiting or running.
MAX_OPEN: Final = 100
MAX_ALL_OPEN: Final = 2_000
MAX_FILES: Final = 100_000
MAX_TENANT_FILES: Final = MAX_FILES // 2
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class StorageFullError(Exception):
    """The disk, or what the folder may hold, is full: nothing was changed."""


class TenantFullError(Exception):
    """A tenant's files have as many bytes, or are as many, as they may: nothing was changed.

    OpenAI answers 400 to it, without a code. Here it is 413, whose advice is the same: send less, or delete. SDKs come
    again for 429, 500 and above, which cannot help until files are deleted.
    """


class FileInUseError(Exception):
    """The file is read by a batch that has not ended: its message is the id of that."""


class TooManyBatchesError(Exception):
    """As many batches as there may be have not ended."""


class Batches:
    """The files and batches. ``open`` are those that have not ended, by their ids, as they are now.

    ``wake`` is set where there is something new to do; ``lines`` counts the lines that are over by their outcome.
    Touched on the event loop only.
    """

    def __init__(
        self, folder: BatchFolder, store: BatchStore, max_bytes: int, max_tenant_bytes: int | None = None
    ) -> None:
        self.folder, self.store, self.max_bytes = folder, store, max_bytes
        self.max_tenant_bytes = max_bytes // 2 if max_tenant_bytes is None else max_tenant_bytes
        self.lines = Counter[str]()
        self._coming = Counter[str]()
        self.open: dict[str, Batch] = {batch.id: batch for batch in store.open_batches()}
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

    async def disk(self, work: Callable[P, R], *args: P.args, **named: P.kwargs) -> R:
        """Do this on the disk's thread. Raises StorageFullError where the disk is full."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: work(*args, **named))
        except (OSError, sqlite3.Error) as error:
            if is_full(error):
                raise StorageFullError("The disk of this server is full.") from error
            raise

    async def free_bytes(self, tenant: str) -> int:
        """The bytes that another file of a tenant may have. Raises StorageFullError or TenantFullError."""
        number, size_bytes = await self.disk(self.store.files_bytes)
        if number >= MAX_FILES or size_bytes >= self.max_bytes:
            text = f"The files of this server have {size_bytes} bytes, and {self.max_bytes} at most are kept"
            raise StorageFullError(f"{text}: delete files that are not needed.")
        return await self.disk(self._tenant_bytes, tenant)

    def comes(self, tenant: str, size_bytes: int, free_bytes: int) -> None:
        """Count the bytes of uploads that have not ended. Raises TenantFullError for more than the tenant has free."""
        self._coming[tenant] += size_bytes
        if self._coming[tenant] > free_bytes:
            raise self._tenant_full()

    def ends(self, tenant: str, size_bytes: int) -> None:
        """An upload of so many bytes has ended, with a file or without."""
        self._coming[tenant] -= size_bytes
        if not self._coming[tenant]:
            del self._coming[tenant]

    async def add_file(self, file_id: str, tenant: str, name: str, size_bytes: int) -> StoredFile:
        """Keep an uploaded file. Raises TenantFullError, where others of the tenant were kept meanwhile."""
        file = StoredFile(file_id, tenant, name, PURPOSE, size_bytes, int(time.time()))
        await self.disk(self._add, file)
        return file

    def _add(self, file: StoredFile) -> None:
        if file.size_bytes > self._tenant_bytes(file.tenant):
            raise self._tenant_full()
        self.store.save(file)

    def _tenant_bytes(self, tenant: str) -> int:
        number, size_bytes = self.store.files_bytes(tenant)
        if number >= MAX_TENANT_FILES or size_bytes >= self.max_tenant_bytes:
            raise self._tenant_full()
        return self.max_tenant_bytes - size_bytes

    def _tenant_full(self) -> TenantFullError:
        text = f"Your files may have {self.max_tenant_bytes} bytes together, and be {MAX_TENANT_FILES} at most"
        return TenantFullError(f"{text}: delete files that are not needed, or send a smaller one.")

    def discard(self, upload: Upload, file_id: str) -> None:
        """Remove what has come of an upload that failed."""
        for work in (upload.close, partial(self.folder.remove, file_id)):
            self._thread.submit(work)

    async def remove_file(self, file: StoredFile) -> None:
        """Remove a file. Raises FileInUseError."""
        reader = await self.disk(self.store.reader_of, file.id)
        if reader is not None:
            raise FileInUseError(reader)
        await self.disk(self.store.remove, file.id)
        await self.disk(self.folder.remove, file.id)

    async def add_batch(
        self, sender: Sender, file: StoredFile, endpoint: str, window: tuple[str, int], metadata: dict[str, str] | None
    ) -> Batch:
        """Begin a batch; ``window`` is its text and its seconds. Raises TooManyBatchesError."""
        own = sum(batch.sender.tenant == sender.tenant for batch in self.open.values())
        if own >= MAX_OPEN or len(self.open) >= MAX_ALL_OPEN:
            raise TooManyBatchesError
        now_s = int(time.time())
        batch = Batch(
            new_batch_id(), sender, endpoint, file.id, window[0], now_s, now_s + window[1], new_file_id(),
            new_file_id(), metadata,
        )  # fmt: skip
        self.open[batch.id] = batch  # at once, for the bound above
        try:
            await self.disk(self.store.save, batch)
        except BaseException:
            del self.open[batch.id]
            raise
        self.wake.set()
        return batch

    async def batch(self, tenant: str, batch_id: str) -> Batch | None:
        """The batch of this tenant with this id, as it is now."""
        found = self.open.get(batch_id)
        if found is not None:
            return found if found.sender.tenant == tenant else None
        return await self.disk(self.store.batch, tenant, batch_id)

    async def cancel(self, batch: Batch) -> None:
        """Let a batch end without what has not run."""
        if batch.status in (Status.VALIDATING, Status.IN_PROGRESS):
            batch.become(Status.CANCELLING, time.time())
            batch.ending = Status.CANCELLED
            await self.save(batch)
            self.wake.set()

    async def save(self, batch: Batch, *files: StoredFile) -> None:
        """Write a batch down, with the files that it has made."""
        await self.disk(self.store.save, batch, *files)
        if batch.ended:
            self.open.pop(batch.id, None)

    async def tidy(self) -> None:
        """Remove files and ended batches whose time is over."""
        old = await self.disk(self.store.old, time.time())
        if old:
            await self.disk(self.store.remove, *old)
            for object_id in old:
                await self.disk(self.folder.remove, object_id)

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


def is_full(error: Exception) -> bool:
    """Whether an error says that the disk is full."""
    if isinstance(error, OSError):
        return error.errno in _FULL
    return getattr(error, "sqlite_errorname", "") == "SQLITE_FULL"
