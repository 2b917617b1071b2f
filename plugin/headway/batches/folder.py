"""The folder of files: one server's, for its lock is held as long as that server runs.

    lock        held by the server
    batches.db  the database (``store``)
    files/ID    inputs, outputs and errors; ids are drawn by the server, and no text of a client becomes a path

A line of an output is one write. Where that fails, on a full disk, what it has written is taken away again, so that a
file ends with a whole line; the last line of a server that was killed may be torn, and is taken away at the next start.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from headway.openai.batch_file import MAX_LINE_BYTES, MAX_LINES, number_of

_FILES: Final = "files"


class FolderInUseError(Exception):
    """Another server has the folder."""


class BatchFolder:
    """The folder. Raises OSError where it cannot be made or locked, FolderInUseError where another server has it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / _FILES).mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a lock that a forked child does not inherit
        except (BlockingIOError, PermissionError):
            os.close(self._lock)
            raise FolderInUseError from None

    @property
    def database(self) -> Path:
        """The path of the database."""
        return self.path / "batches.db"

    def file(self, file_id: str) -> Path:
        """The path of a file, by an id of the server's own."""
        return self.path / _FILES / file_id

    def remove(self, file_id: str) -> None:
        """Remove a file, where it is."""
        self.file(file_id).unlink(missing_ok=True)

    def sweep(self, known: set[str]) -> None:
        """Remove all files but these: an upload may have been broken off."""
        for name in os.listdir(self.path / _FILES):
            if name not in known:
                self.remove(name)

    def close(self) -> None:
        """Give the folder to another server."""
        os.close(self._lock)


class LineFile:
    """A file to which whole lines are appended. Each call waits for the disk, and may raise OSError."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.size_bytes = os.fstat(self._open).st_size

    def append(self, line: bytes) -> None:
        """Append a line, all of it or nothing."""
        left, at = memoryview(line), self.size_bytes
        try:
            while left:
                written = os.pwrite(self._open, left, at)
                left, at = left[written:], at + written
        except OSError:
            os.ftruncate(self._open, self.size_bytes)
            raise
        self.size_bytes = at

    def numbers(self) -> Iterator[int]:
        """The numbers of the requests that are written; a torn last line is taken away."""
        at = 0
        with self._path.open("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                at += len(line)
                number = number_of(line)
                if number is not None:
                    yield number
        os.ftruncate(self._open, at)
        self.size_bytes = at

    def sync(self) -> None:
        """Wait until all of it is on the disk."""
        os.fsync(self._open)

    def close(self) -> None:
        """Close the file."""
        os.close(self._open)


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of an input with their numbers from 1, without empty ones; a line that is too long ends it, and the
    first that is one too many, empty or not.

    A line that is too long comes cut off, one byte longer than it may be.
    """
    number = 0
    with path.open("rb") as file:
        while text := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if text.strip() or number > MAX_LINES:
                yield number, text
            if len(text) > MAX_LINE_BYTES or number > MAX_LINES:
                return
