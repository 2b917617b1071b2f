"""Headway's log lines beside vLLM's."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from headway.vllm_adapter.log_format import log_as_vllm_does


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """What vLLM's loggers write; afterwards all loggers are as before."""
    loggers = [logging.getLogger(name) for name in ("headway", "vllm")]
    before = [(one, one.level, list(one.handlers), one.propagate) for one in loggers]
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(levelname)s [%(filename)s] %(message)s"))
    ours, theirs = loggers
    ours.handlers, ours.level, theirs.handlers, theirs.level = [], logging.NOTSET, [handler], logging.INFO
    yield written
    for one, level, handlers, propagate in before:
        one.level, one.handlers, one.propagate = level, handlers, propagate


def test_a_line_of_headway_names_its_package(stream: io.StringIO) -> None:
    """So that a search of a vLLM log for "headway" finds all of them, and the lines of vLLM stay as they are."""
    log_as_vllm_does()
    logging.getLogger("headway.supervision.supervisor").warning("the engine responds again")
    logging.getLogger("vllm.engine").info("a step")
    logging.getLogger("headway.audit").debug("below the level of vLLM's")
    assert stream.getvalue().splitlines() == [
        "WARNING [headway/test_log_format.py] the engine responds again",
        "INFO [test_log_format.py] a step",
    ]


def test_two_handlers_mark_a_line_once(stream: io.StringIO) -> None:
    """Both handlers get the same record."""
    theirs = logging.getLogger("vllm")
    theirs.handlers = [*theirs.handlers, *theirs.handlers]
    log_as_vllm_does()
    logging.getLogger("headway.audit").info("one")
    assert stream.getvalue().splitlines() == ["INFO [headway/test_log_format.py] one"] * 2


def test_handlers_of_the_operator_stay(stream: io.StringIO) -> None:
    """A logging configuration that names Headway is not overruled."""
    own = logging.NullHandler()
    ours = logging.getLogger("headway")
    ours.handlers, ours.level = [own], logging.ERROR
    log_as_vllm_does()
    assert ours.handlers == [own]
    assert ours.level == logging.ERROR
    assert stream.getvalue() == ""
