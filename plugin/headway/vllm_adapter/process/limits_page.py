"""The page of limits: what EngineCore has to keep, for a process that cannot call it.

With several API servers, and before vLLM's front end in Rust, the queue is in a process above vLLM's launcher. The
process with the queue writes what the call ``headway_set_limits`` would take into a page behind the progress reports
(``progress``), which EngineCore has mapped into its memory as well. EngineCore looks at the page's number before each
step, so what was written holds from the first step that begins after it, also in an engine that was started in place of
another one.

A single process writes and nothing is locked: a page that is read in the middle of a change fails its checksum, and is
read again before the next step.
"""

from __future__ import annotations

import functools
import json
import logging
import mmap
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headway.vllm_adapter.process.progress import PAGE_BYTES, REPORTS_BYTES, STEPS, VARIABLE

log = logging.getLogger(__name__)

_NUMBER, _LENGTH, _CHECKSUM = range(3)
_HEAD_BYTES = 3 * 8
_SEEN = "headway_limits_page"


class LimitsPage:
    """Both sides of the page. ``number`` grows with each change; 0: nothing was written."""

    def __init__(self, path: Path) -> None:
        with path.open("r+b") as file:
            mapped = mmap.mmap(file.fileno(), REPORTS_BYTES + PAGE_BYTES)
        page = memoryview(mapped)[REPORTS_BYTES:]
        self._head = page[:_HEAD_BYTES].cast("Q")
        self._text = page[_HEAD_BYTES:]
        self._limits: dict[str, Any] = {}

    @classmethod
    def from_environment(cls) -> LimitsPage | None:
        """The page of the server's engines; None where there is no such file."""
        try:
            return cls(Path(os.environ[VARIABLE]))
        except (KeyError, OSError, ValueError) as error:
            log.warning("EngineCore keeps no limits of the queue before it: %s", error)
            return None

    @property
    def number(self) -> int:
        """The number of the last change."""
        return self._head[_NUMBER]

    def write(self, **limits: Any) -> None:
        """Change these, and leave the others as they are. Raises ValueError where they do not fit."""
        changed = self._limits | limits
        text = json.dumps(changed).encode()
        if len(text) > len(self._text):
            raise ValueError(f"the limits take {len(text)} bytes, and the page has {len(self._text)}")
        self._limits = changed
        self._text[: len(text)] = text
        self._head[_LENGTH], self._head[_CHECKSUM] = len(text), zlib.crc32(text)
        self._head[_NUMBER] += 1

    def read(self) -> dict[str, Any] | None:
        """All that was written; None while it is being changed."""
        text = bytes(self._text[: self._head[_LENGTH]])
        if zlib.crc32(text) != self._head[_CHECKSUM]:
            return None
        limits: dict[str, Any] = json.loads(text)
        return limits


def follow_limits_page(core: type[Any], set_limits: Callable[[Any, dict[str, Any]], None]) -> None:
    """In EngineCore's process: before a step that follows a change, have the limits set."""
    if VARIABLE not in os.environ or hasattr(core, _SEEN) or (page := LimitsPage.from_environment()) is None:
        return
    setattr(core, _SEEN, 0)  # an engine that begins takes all that was written before
    for name in STEPS:
        step = getattr(core, name, None)
        if step is not None:
            setattr(core, name, _following(step, page, set_limits))


def _following(
    step: Callable[..., Any], page: LimitsPage, set_limits: Callable[[Any, dict[str, Any]], None]
) -> Callable[..., Any]:
    @functools.wraps(step)
    def followed(self: Any, *arguments: Any, **options: Any) -> Any:
        if (number := page.number) != getattr(self, _SEEN):
            _take(self, number, page, set_limits)
        return step(self, *arguments, **options)

    return followed


def _take(core: Any, number: int, page: LimitsPage, set_limits: Callable[[Any, dict[str, Any]], None]) -> None:
    """Set the limits, once for each change; a step must not fail for them."""
    try:
        limits = page.read()
        if limits is None:
            return
        set_limits(core, limits)
    except Exception as error:
        log.warning("EngineCore keeps the limits it has: %s: %s", type(error).__name__, error)
    setattr(core, _SEEN, number)
