"""The output of a command beside its result: warnings, and files."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from headway_tools.console.exits import UsageError


def warn(text: str) -> None:
    """Print a warning in one line, where programs do not read it."""
    sys.stderr.write(f"headway: warning: {' '.join(text.split())}\n")
    sys.stderr.flush()


def check_folder(path: str) -> None:
    """Refuse a file that could not be written at the end. Raises UsageError."""
    if Path(path).is_dir():
        raise UsageError(f"{path}: cannot be written: a folder, not a file")
    if not Path(path).absolute().parent.is_dir():
        raise UsageError(f"{path}: cannot be written: no such folder")


def csv_text(rows: Sequence[Mapping[str, object]]) -> str:
    """The rows as CSV under the keys of the first one."""
    out = io.StringIO()
    writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def write_file(path: str, text: str) -> None:
    """Write a file. Raises UsageError where that is not possible."""
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None
