"""Work in a fork of this process: with what it has imported, and without a trace in it."""

from __future__ import annotations

import os
import traceback
import warnings
from collections.abc import Callable, Mapping


def in_a_fork(work: Callable[[], str], environment: Mapping[str, str]) -> str:
    """The text that the work returns there. Work that fails is an AssertionError with its traceback."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        _work_and_end(work, environment, writes)
    os.close(writes)
    with open(reads, encoding="utf-8") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, text or f"the fork ended with status {status}"
    return text


def _work_and_end(work: Callable[[], str], environment: Mapping[str, str], writes: int) -> None:
    code = 1
    try:
        warnings.simplefilter("ignore")
        os.environ.update(environment)
        text, code = work(), 0
    except BaseException:  # also SystemExit: nothing of the test may go on here
        text = traceback.format_exc()
    try:
        with open(writes, "w", encoding="utf-8") as pipe:
            pipe.write(text)
    finally:
        os._exit(code)
