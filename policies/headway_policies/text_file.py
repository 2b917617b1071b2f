"""A text file that somebody else may have written: a regular file of UTF-8, read whole within a bound."""

from __future__ import annotations

import os
import stat
from pathlib import Path


class TextFileError(ValueError):
    """A file that is not read. Its text says why, without naming the file and without anything of its content."""


def read_text_file(path: str | Path, max_bytes: int) -> str:
    """The text, a mark of some editors at its begin aside. Raises TextFileError.

    A pipe or a device is refused, not waited for: it may never end, or never begin.
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
