"""A progress bar: one line of a terminal, rewritten; none elsewhere, nor for work of less than a second."""

from __future__ import annotations

import time
from typing import TextIO

_SILENT_S = 1.0
_EVERY_S = 0.2
_WIDTH = 30


class Bar:
    """A progress bar on ``out``. Use as a context manager: at the end the line is wiped."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._shows = out.isatty()
        self._next_s = time.monotonic() + _SILENT_S
        self._shown = False

    def show(self, what: str, ratio: float) -> None:
        """Show ``what`` as done to this part, 0 to 1."""
        if self._shows and time.monotonic() >= self._next_s:
            self._next_s = time.monotonic() + _EVERY_S
            self._shown = True
            full = round(_WIDTH * min(ratio, 1.0))
            line = f"  {'█' * full}{'░' * (_WIDTH - full)} {ratio:4.0%}  {what}"
            print(f"\r\x1b[K{line}", end="", file=self._out, flush=True)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=self._out, flush=True)
