"""Bounded reading of an untrusted text file: a regular file of UTF-8, read whole."""

from __future__ import annotations

import os
import stat
from pathlib import Path


class TextFileError(ValueError):
    """A file that cannot be read. The text says why; it holds neither the file's name nor any of its content."""


def read_text_file(path: str | Path, max_bytes: int) -> str:
    """The text of the file, without a byte order mark. Raises TextFileError.

    A pipe or a device is refused at once: reading it might block for ever.
    """
    try:
        with open(path, "rb", opener=_open_nonblocking) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise TextFileError("not a regular file")
            content = file.read(max_bytes + 1)
    except OSError as error:
        raise TextFileError(error.strerror or "not readable") from None
    except ValueError as error:  # a null byte in the name
        raise error if isinstance(error, TextFileError) else TextFileError("not the name of a file") from None
    if len(content) > max_bytes:
        raise TextFileError(f"larger than {max_bytes} bytes")
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError:
        raise TextFileError("not UTF-8 text") from None


def _open_nonblocking(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
