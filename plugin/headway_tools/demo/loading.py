"""The start-up stage of the server, read from its log and shown as one line."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TextIO

#: A piece of a log line, and what it means. Later entries are later stages.
STAGES: tuple[tuple[str, str], ...] = (
    (" serves ", "importing vLLM"),
    ("Resolved architecture", "reading the model's configuration"),
    ("Initializing a V1 LLM engine", "starting the engine"),
    ("Starting to load model", "loading the weights"),
    ("Loading weights took", "preparing the engine"),
    ("KV cache size", "warming up the engine"),
    ("init engine", "starting the HTTP server"),
    ("Supported tasks", "sending warm-up requests"),
    ("Starting vLLM server", "opening the port"),
)
_REPEAT_EVERY_S = 15.0


def stage_of(log: str) -> str:
    """The latest stage a log has reached."""
    reached = [words for piece, words in STAGES if piece in log]
    return reached[-1] if reached else "starting Python"


class Progress:
    """The line of progress, rewritten on a terminal, and written again at each change elsewhere."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._begin_s = self._shown_s = time.monotonic()
        self._shown = ""

    def show(self, log: Path) -> None:
        """Show the stage the log has reached and the seconds since the start."""
        now_s = time.monotonic()
        stage = stage_of(log.read_text(encoding="utf-8", errors="replace"))
        line = f"  {now_s - self._begin_s:4.0f} s  {stage} ..."
        if self._out.isatty():
            print(f"\r\x1b[K{line}", end="", file=self._out, flush=True)
        elif stage != self._shown or now_s - self._shown_s >= _REPEAT_EVERY_S:
            print(line, file=self._out, flush=True)
            self._shown_s = now_s
        self._shown = stage

    def done(self) -> None:
        """Leave the line: on a terminal it is wiped."""
        if self._out.isatty() and self._shown:
            print("\r\x1b[K", end="", file=self._out, flush=True)
