"""The audit file: JSON lines, one for each entry, appended and never changed.

A thread writes it, so that a slow disk delays no request. A line that cannot be written, or for which there is no room
in the queue, is lost and counted; the first of them is one warning, and so is the end of the trouble. The command that
the line is about is not affected. The beginning of a line that found no room for all of it is taken back.

The file is rotated by its size: ``audit.jsonl`` becomes ``audit.jsonl.1``, that one ``.2``, and the oldest is removed.
A file that another program has moved or removed (logrotate, a second API server) is opened anew under its name.

Attempts without a token go to a file of their own, ``audit.strangers.jsonl``: however many there are, they rotate no
change out of the other one.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import logging
import os
import queue
import stat
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from headway.errors import HeadwayError
from headway.settings import Environment

log = logging.getLogger("headway.audit")

#: The size at which a file is rotated, and how many older ones are kept beside it.
MAX_FILE_BYTES: Final = Environment.audit_file_bytes.default
KEPT_FILES: Final = 5
KEPT_STRANGERS: Final = 1
#: Lines that wait for the thread; a line has at most some 5 KB.
MAX_WAITING: Final = 1000
_CLOSE_WITHIN_S: Final = 5.0


class AuditFile:
    """Appends to one file. ``write`` is called on one thread, and returns at once; raises OSError when it is made."""

    def __init__(self, path: str | Path, max_bytes: int = MAX_FILE_BYTES, kept: int = KEPT_FILES) -> None:
        self.path = Path(path)
        self._max_bytes = max_bytes
        self._kept = kept
        self._descriptor: int | None = _open(self.path)
        self._torn = _ends_torn(self._descriptor)  # the last line was not written whole
        self._unmoved = False
        self._lines: queue.Queue[bytes | None] = queue.Queue(MAX_WAITING)
        self._thread: threading.Thread | None = None
        self._closed = False
        self._unqueued = 0  # written by the thread that calls, as the next one is by the thread that writes
        self._unwritten = 0
        self._failing = False
        self._strangers: AuditFile | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> AuditFile | None:
        """The file that ``HEADWAY_AUDIT_FILE`` names, None without it. Raises HeadwayError in one line."""
        found = Environment(environment)
        path, max_bytes = found.audit_file, found.audit_file_bytes
        if path is None:
            return None
        try:
            return cls(path, max_bytes)
        except (OSError, ValueError) as error:
            cause = error.strerror if isinstance(error, OSError) else str(error)
            advice = "name a file in a folder that the server may write to"
            raise HeadwayError(
                f"{Environment.audit_file.name} ({path[:200]}): cannot be opened: {cause}; {advice}"
            ) from None

    def of_strangers(self) -> AuditFile | None:
        """Open the file beside this one for attempts without a token; None, with a warning, where that fails."""
        path = self.path.with_name(f"{self.path.stem}.strangers{self.path.suffix}")
        try:
            self._strangers = AuditFile(path, self._max_bytes, kept=KEPT_STRANGERS)
            return self._strangers
        except OSError as error:
            cause = error.strerror or type(error).__name__
            log.warning("audit file %s: %s; attempts without a token are in the log alone", path, cause)
            return None

    @property
    def lost(self) -> int:
        """The number of lines that could not be written."""
        return self._unqueued + self._unwritten

    def write(self, entry: Mapping[str, Any]) -> None:
        """Append one line, later. Never raises for a file that cannot be written."""
        if self._thread is None and not self._closed:
            self._start()
        try:
            if self._closed:
                raise queue.Full
            self._lines.put_nowait(json.dumps(entry, separators=(",", ":")).encode() + b"\n")
        except queue.Full:
            self._unqueued += 1
            self._warn("writing is too slow")

    def close(self) -> None:
        """Write what waits, for a few seconds at most, and close the file and the one of strangers.

        A second call does nothing.
        """
        if self._strangers is not None:
            self._strangers.close()
        if self._closed:
            return
        self._closed = True
        atexit.unregister(self.close)
        if self._thread is not None:
            try:
                self._lines.put(None, timeout=_CLOSE_WITHIN_S)
            except queue.Full:
                return
            self._thread.join(_CLOSE_WITHIN_S)
        elif self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    # ------------------------------------------------------------------ inside

    def _start(self) -> None:
        """Start with the first line and not before: a process that is forked until then has the whole of it."""
        self._thread = threading.Thread(target=self._run, name="headway audit file", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._append(line)
            except OSError as error:
                self._unwritten += 1
                self._warn(error.strerror or type(error).__name__)
            else:
                self._recovered()
            self._lines.task_done()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self._lines.task_done()

    def _append(self, line: bytes) -> None:
        """Write one line to the file that has the name now. Raises OSError."""
        descriptor = self._current()
        if (size := os.fstat(descriptor).st_size) and size + len(line) > self._max_bytes:
            descriptor = self._rotated(descriptor)
        whole = b"\n" + line if self._torn else line
        written = os.write(descriptor, whole)
        if written < len(whole):
            self._torn = not _taken_back(descriptor, size, written)
            raise OSError(0, "no room for a whole line")
        self._torn = False

    def _current(self) -> int:
        """The descriptor of the file; opened anew where another one, or none, has the name. Raises OSError."""
        if self._descriptor is not None:
            if _is_at(self._descriptor, self.path):
                return self._descriptor
            os.close(self._descriptor)
            self._descriptor = None
        self._descriptor = _open(self.path)
        self._torn = _ends_torn(self._descriptor)
        return self._descriptor

    def _rotated(self, descriptor: int) -> int:
        """Move the file aside, unless another process has just done so; returns the new one. Raises OSError.

        Where the file cannot be moved, as in a folder that is not the server's, it grows on: no line is lost.
        """
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # ends when the descriptor is closed
        try:
            if _is_at(descriptor, self.path):
                self._move()
        except OSError as error:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            if not self._unmoved:
                log.warning(
                    "audit file %s: cannot be rotated: %s; the file outgrows its bound", self.path, error.strerror
                )
            self._unmoved = True
            return descriptor
        self._unmoved = False
        return self._current()

    def _move(self) -> None:
        names = [self.path, *(Path(f"{self.path}.{number}") for number in range(1, self._kept + 1))]
        for older, newer in zip(names[:0:-1], names[-2::-1], strict=True):
            if newer.exists():
                newer.replace(older)

    def _warn(self, cause: str) -> None:
        if not self._failing:
            self._failing = True
            log.warning("audit file %s: %s; lines are lost, which the log still has", self.path, cause)

    def _recovered(self) -> None:
        if self._failing and self._lines.qsize() < MAX_WAITING // 2:
            self._failing = False
            log.warning("audit file %s: it is written again; %d lines are lost", self.path, self.lost)


def _open(path: Path) -> int:
    """Open a regular file for appending. Raises OSError; a pipe or a device would block, or keep nothing."""
    flags = os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(path, os.O_RDWR | flags, 0o600)
    except PermissionError:  # the server may append to it, and not read it
        descriptor = os.open(path, os.O_WRONLY | flags, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, "not a regular file")
    return descriptor


def _ends_torn(descriptor: int) -> bool:
    """Whether the file ends within a line: the power was cut, or the disk full. False where it cannot be read."""
    size = os.fstat(descriptor).st_size
    try:
        return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    except OSError:
        return False


def _taken_back(descriptor: int, size: int, written: int) -> bool:
    """Whether the part of a line that was written is gone again: not where another server has written behind it."""
    try:
        if os.fstat(descriptor).st_size == size + written:
            os.ftruncate(descriptor, size)
            return True
    except OSError:
        pass
    return False


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether this open file is the one of that name."""
    try:
        named = path.stat()
    except FileNotFoundError:
        return False
    opened = os.fstat(descriptor)
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)
