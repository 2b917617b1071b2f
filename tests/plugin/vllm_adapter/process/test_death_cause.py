"""The file in which an engine's processes write why they died, or did not start."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from headway.vllm_adapter.process import death_cause
from headway.vllm_adapter.process.death_cause import (
    forget_death_cause,
    listen_for_failed_starts,
    one_line,
    prepare_death_cause,
    read_death_cause,
    why_not_started,
    write_last_words,
)
from headway_policies import Cause

CORE, WORKER = (logging.getLogger(name) for name in death_cause._LOGGERS)


@pytest.fixture
def file() -> Iterator[None]:
    """The file, and the listeners as in an engine's process; both are gone afterwards."""
    prepare_death_cause()
    for _ in range(2):  # vLLM may load the plugin twice
        listen_for_failed_starts()
    yield
    for logger in (CORE, WORKER):
        (listener,) = logger.handlers
        logger.removeHandler(listener)
    forget_death_cause()


def fail(logger: logging.Logger, message: str, error: Exception) -> None:
    """Log an error as vLLM does, while it is handled."""
    try:
        raise error
    except type(error):
        logger.exception(message)


def test_the_error_of_the_process_that_failed_first_is_kept(file: None) -> None:
    """The error is that of a worker; EngineCore, which failed because of it, knows only that it did."""
    fail(WORKER, "WorkerProc failed to start.", ValueError("Available memory is 1 GiB.\nMore lines."))
    fail(CORE, "EngineCore failed to start.", RuntimeError("Worker initialization failed."))
    assert why_not_started() == "Available memory is 1 GiB."
    assert read_death_cause() is Cause.CRASH
    assert why_not_started() is None


def test_other_errors_of_a_running_engine_are_no_failed_start(file: None) -> None:
    """Such errors would be taken for the cause of a later death."""
    fail(CORE, "Invocation of %s failed", MemoryError("out of memory"))
    assert why_not_started() is None
    assert read_death_cause() is Cause.CRASH


def test_a_start_without_memory_is_out_of_memory(file: None) -> None:
    """The first line is the same word that a dying engine writes."""
    fail(CORE, "EngineCore failed to start.", RuntimeError("bad_alloc"))
    assert why_not_started() == "bad_alloc"
    assert read_death_cause() is Cause.OUT_OF_MEMORY


def test_a_death_while_serving_has_the_last_word(file: None) -> None:
    """A text written at a start before it says nothing any more."""
    fail(CORE, "EngineCore failed to start.", ValueError("no model"))
    write_last_words(MemoryError("out of memory"))
    assert why_not_started() is None
    assert read_death_cause() is Cause.OUT_OF_MEMORY


def test_without_a_file_nothing_is_written_or_read() -> None:
    """Under plain vLLM there is none."""
    listen_for_failed_starts()
    fail(CORE, "EngineCore failed to start.", ValueError("no model"))
    for logger in (CORE, WORKER):
        logger.handlers.clear()
    assert why_not_started() is None


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("one\ntwo"), "one"),
        (RuntimeError("  the cause  "), "the cause"),
        (RuntimeError("Worker failed with error 'no\nmemory', please check the stack trace above for"), "no"),
        (KeyError("size"), "KeyError: 'size'"),
        (AssertionError(), "AssertionError"),
        (ValueError("x" * 1000), "x" * 400),
    ],
    ids=["first line", "stripped", "of a worker", "kind of error", "no text", "cut"],
)
def test_an_error_is_one_line(error: Exception, line: str) -> None:
    """With its kind, where its text may say too little."""
    assert one_line(error) == line
