"""The cause of EngineCore's death, passed on in a file.

EngineCore tells its client that it is dead, but not why. So the process that dies writes one word into a file, and the
one that starts another engine reads it. A process that was killed writes nothing; that counts as a crash.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from headway_policies import Cause

VARIABLE = "HEADWAY_DEATH_CAUSE"
_OUT_OF_MEMORY = ("out of memory", "outofmemory", "cannot allocate memory", "bad_alloc")


def prepare_death_cause() -> None:
    """Choose the file, before the engine is started; its name is passed in the environment."""
    if VARIABLE not in os.environ:
        handle, path = tempfile.mkstemp(prefix="headway-", suffix=".last-words")
        os.close(handle)
        os.environ[VARIABLE] = path


def forget_death_cause() -> None:
    """Remove the file."""
    path = os.environ.pop(VARIABLE, None)
    if path is not None:
        Path(path).unlink(missing_ok=True)


def listen_for_death_cause(core: type[Any]) -> None:
    """In EngineCore's process: write the reason down when it says that it is dead."""
    tell = getattr(core, "_send_engine_dead", None)
    if tell is None or hasattr(core, "headway_last_words"):
        return

    def tell_and_say_why(self: Any) -> None:
        write_last_words(sys.exc_info()[1])
        tell(self)

    core._send_engine_dead = tell_and_say_why
    core.headway_last_words = True


def write_last_words(error: BaseException | None) -> None:
    """Write one word: the cause of death."""
    path = os.environ.get(VARIABLE)
    if path is not None:
        Path(path).write_text(cause_of(error), encoding="ascii")


def read_death_cause() -> Cause:
    """The word that was written, once."""
    path = os.environ.get(VARIABLE)
    if path is None:
        return Cause.CRASH
    try:
        said = Path(path).read_text(encoding="ascii")
        Path(path).write_text("", encoding="ascii")
        return Cause(said)
    except (OSError, ValueError):
        return Cause.CRASH


def cause_of(error: BaseException | None) -> Cause:
    """Out of memory, by the name or the text of the error or of one that led to it; else a crash."""
    while error is not None:
        text = f"{type(error).__name__} {error}".lower()
        if any(one in text for one in _OUT_OF_MEMORY):
            return Cause.OUT_OF_MEMORY
        error = error.__cause__ or error.__context__
    return Cause.CRASH
