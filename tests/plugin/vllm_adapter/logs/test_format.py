"""Headway's log lines beside vLLM's."""

from __future__ import annotations

import importlib
import io
import json
import logging
import logging.config
from collections.abc import Callable, Iterator

import pytest
import uvicorn

from headway.logs import JsonLines
from headway.vllm_adapter.logs import format as log_format
from headway.vllm_adapter.logs.format import log_as_vllm_does, log_json_lines


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """What vLLM's loggers write; afterwards all loggers are as before."""
    loggers = [logging.getLogger(name) for name in ("headway", "vllm")]
    before = [(logger, logger.level, list(logger.handlers), logger.propagate) for logger in loggers]
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(levelname)s [%(filename)s] %(message)s"))
    ours, theirs = loggers
    ours.handlers, ours.level, theirs.handlers, theirs.level = [], logging.NOTSET, [handler], logging.INFO
    yield written
    for logger, level, handlers, propagate in before:
        logger.level, logger.handlers, logger.propagate = level, handlers, propagate


def test_a_line_of_headway_names_its_package(stream: io.StringIO) -> None:
    """So that a search of a vLLM log for "headway" finds all of them, and the lines of vLLM stay as they are."""
    log_as_vllm_does()
    logging.getLogger("headway.supervision.supervisor").warning("the engine responds again")
    logging.getLogger("vllm.engine").info("a step")
    logging.getLogger("headway.audit").debug("below the level of vLLM's")
    assert stream.getvalue().splitlines() == [
        "WARNING [headway/test_format.py] the engine responds again",
        "INFO [test_format.py] a step",
    ]


def test_two_handlers_mark_a_line_once(stream: io.StringIO) -> None:
    """Both handlers get the same record."""
    theirs = logging.getLogger("vllm")
    theirs.handlers = [*theirs.handlers, *theirs.handlers]
    log_as_vllm_does()
    logging.getLogger("headway.audit").info("one")
    assert stream.getvalue().splitlines() == ["INFO [headway/test_format.py] one"] * 2


def test_handlers_of_the_operator_stay(stream: io.StringIO) -> None:
    """A logging configuration that names Headway is not overruled."""
    own = logging.NullHandler()
    ours = logging.getLogger("headway")
    ours.handlers, ours.level = [own], logging.ERROR
    log_as_vllm_does()
    assert ours.handlers == [own]
    assert ours.level == logging.ERROR
    assert stream.getvalue() == ""


@pytest.fixture
def json_asked(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """JSON lines are asked for, of uvicorn's loggers as well; afterwards its formatters are as before."""
    monkeypatch.setenv("HEADWAY_LOG_FORMAT", "json")
    monkeypatch.setattr(log_format, "_FORMATTERS", log_format._FORMATTERS[2:])  # vLLM is not imported for this
    for module, name in log_format._FORMATTERS:
        loaded = importlib.import_module(module)
        monkeypatch.setattr(loaded, name, getattr(loaded, name))
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        one = logging.getLogger(name)
        for attribute in ("handlers", "level", "propagate", "disabled"):
            monkeypatch.setattr(one, attribute, getattr(one, attribute))
    return stream


@pytest.mark.parametrize("order", [(log_json_lines, log_as_vllm_does), (log_as_vllm_does, log_json_lines)])
def test_json_lines_are_written_by_all_loggers(json_asked: io.StringIO, order: tuple[Callable[[], None], ...]) -> None:
    """vLLM's handlers, and Headway's, which are made of them; the order of the two calls does not matter."""
    for call in order:
        call()
    logging.getLogger("vllm.engine").info("a step")
    logging.getLogger("headway.audit").info("an order")
    lines = [json.loads(line) for line in json_asked.getvalue().splitlines()]
    assert [(line["logger"], line["message"]) for line in lines] == [
        ("vllm.engine", "a step"),
        ("headway.audit", "an order"),
    ]


def test_json_lines_outlive_the_set_up_of_uvicorn(json_asked: io.StringIO) -> None:
    """uvicorn is configured after the plugin, by the names of its formatters."""
    log_json_lines()
    logging.config.dictConfig(uvicorn.config.LOGGING_CONFIG)
    for name in ("uvicorn", "uvicorn.access"):
        (handler,) = logging.getLogger(name).handlers
        assert isinstance(handler.formatter, JsonLines)


def test_text_is_the_usual_format(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the variable says so."""
    for value in ("", "text"):
        monkeypatch.setenv("HEADWAY_LOG_FORMAT", value)
        log_json_lines()
    logging.getLogger("vllm.engine").info("a step")
    assert stream.getvalue() == "INFO [test_format.py] a step\n"
