"""The cause of EngineCore's death, or of its failure to start, passed on in a file.

EngineCore tells its client that it is dead, but not why. So the process that dies writes one word into a file, and the
process that starts another engine reads it. A killed process writes nothing, which counts as a crash. A start that
fails adds a second line, the error of the process that failed first: most often that of a worker, of which the error
that reaches the server says nothing.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from headway.settings import Environment
from headway_policies import Cause

VARIABLE = Environment.death_cause.name
_MAX_CHARS = 400
#: The loggers and the end of the message with which vLLM logs a start that fails, in the process where it does.
_LOGGERS = ("vllm.v1.engine.core", "vllm.v1.executor.multiproc_executor")
_FAILED = "failed to start."
_PLAIN = (ValueError, RuntimeError)
#: How EngineCore reports an error that a worker answered with (v1/executor/multiproc_executor.py).
_OF_WORKER = re.compile(r"Worker failed with error '(.+)', please check the stack trace", re.DOTALL)
_OUT_OF_MEMORY = ("out of memory", "outofmemory", "cannot allocate memory", "bad_alloc")


def prepare_death_cause() -> str:
    """Choose the file, before the engine is started; its name is passed in the environment, and returned."""
    if VARIABLE not in os.environ:
        handle, path = tempfile.mkstemp(prefix="headway-", suffix=".last-words")
        os.close(handle)
        os.environ[VARIABLE] = path
    return os.environ[VARIABLE]


def forget_death_cause() -> None:
    """Remove the file."""
    path = os.environ.pop(VARIABLE, None)
    if path is not None:
        Path(path).unlink(missing_ok=True)


def listen_for_death_cause(core: type[Any]) -> None:
    """Have EngineCore, in its own process, write the cause when it says that it is dead."""
    tell = getattr(core, "_send_engine_dead", None)
    if tell is None or hasattr(core, "headway_last_words"):
        return

    def tell_and_say_why(self: Any) -> None:
        write_last_words(sys.exc_info()[1])
        tell(self)

    core._send_engine_dead = tell_and_say_why
    core.headway_last_words = True


def listen_for_failed_starts() -> None:
    """Have EngineCore and its workers, in their processes, write the error when vLLM logs that the start failed."""
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(handler, _FailedStart) for handler in logger.handlers):
            logger.addHandler(_FailedStart(logging.ERROR))


class _FailedStart(logging.Handler):
    """A log handler that writes the error of a failed start, unless a process below has written its own already."""

    def emit(self, record: logging.LogRecord) -> None:
        path, error = os.environ.get(VARIABLE), record.exc_info and record.exc_info[1]
        if path is None or not error or not str(record.msg).endswith(_FAILED):
            return
        try:
            if not Path(path).stat().st_size:
                Path(path).write_text(f"{cause_of(error)}\n{one_line(error)}", encoding="utf-8")
        except OSError:
            self.handleError(record)


def why_not_started() -> str | None:
    """The error of the engine's process that did not start; None where no error was written."""
    path = os.environ.get(VARIABLE)
    try:
        return None if path is None else Path(path).read_text(encoding="utf-8").partition("\n")[2] or None
    except (OSError, ValueError):
        return None


def one_line(error: BaseException) -> str:
    """The first line of an error's text; with the kind of error, where the text alone may say too little."""
    text = str(error).strip()
    worker = _OF_WORKER.match(text)
    lines = (worker[1] if worker else text).splitlines()
    kind = type(error).__name__
    if not lines:
        return kind
    return (lines[0] if type(error) in _PLAIN else f"{kind}: {lines[0]}")[:_MAX_CHARS]


def write_last_words(error: BaseException | None) -> None:
    """Write the cause of death, as one word."""
    path = os.environ.get(VARIABLE)
    if path is not None:
        Path(path).write_text(cause_of(error), encoding="ascii")


def read_death_cause() -> Cause:
    """Read the written cause of death, once; a crash without a written cause."""
    path = os.environ.get(VARIABLE)
    if path is None:
        return Cause.CRASH
    try:
        said = Path(path).read_text(encoding="utf-8")
        Path(path).write_text("", encoding="utf-8")
        return Cause(said.partition("\n")[0])
    except (OSError, ValueError):
        return Cause.CRASH


def cause_of(error: BaseException | None) -> Cause:
    """Out of memory, by the name or the text of the error or of an error that led to it; else a crash."""
    while error is not None:
        text = f"{type(error).__name__} {error}".lower()
        if any(words in text for words in _OUT_OF_MEMORY):
            return Cause.OUT_OF_MEMORY
        error = error.__cause__ or error.__context__
    return Cause.CRASH
