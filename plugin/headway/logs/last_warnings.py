"""The last warnings and errors of the log, for an operator who cannot read the log itself.

Only of the process that serves requests: the lines of EngineCore stand in the log alone.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

from headway.settings import Environment

MOST: Final = 20
MAX_CHARS: Final = 300
_HOLDER: Final = "headway"


@dataclass(slots=True)
class Warned:
    """A line, when it was written last (seconds since the epoch), and how often."""

    level: str
    logger: str
    message: str
    last_s: float
    times: int = 1


class LastWarnings(logging.Handler):
    """Keeps the newest lines of level WARNING and above, equal ones as one."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._kept: dict[tuple[str, str, str], Warned] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the line of a record, without its traceback."""
        try:
            text = " ".join(record.getMessage().split())
        except Exception:  # arguments that do not fit their message: logging reports it where it writes the line
            return
        line = (record.levelname, record.name, text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]}…")
        before = self._kept.pop(line, None)
        self._kept[line] = Warned(*line, record.created, 1 if before is None else before.times + 1)
        if len(self._kept) > MOST:
            del self._kept[next(iter(self._kept))]

    def newest_first(self) -> list[Warned]:
        """All lines that are kept."""
        self.acquire()
        try:
            return list(reversed(self._kept.values()))
        finally:
            self.release()


def keep_last_warnings(*loggers: str) -> None:
    """Keep the last warnings of these loggers and of Headway's. A second call does nothing, nor one where the log may
    have the content of requests.
    """
    if _holders() or Environment().log_content:
        return
    handler = LastWarnings()
    for name in (_HOLDER, *loggers):
        logging.getLogger(name).addHandler(handler)


def last_warnings() -> list[Warned]:
    """The last warnings, the newest first; none where they are not kept."""
    return [line for holder in _holders() for line in holder.newest_first()]


def _holders() -> list[LastWarnings]:
    return [handler for handler in logging.getLogger(_HOLDER).handlers if isinstance(handler, LastWarnings)]
