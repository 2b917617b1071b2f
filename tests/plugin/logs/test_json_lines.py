"""JSON log lines: one object a line, with the ids of the request that is being served."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.logs import JsonLines
from headway.tracing import CURRENT_REQUEST, CurrentRequest, TraceParent

TRACE = TraceParent("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", 1)


class Written:
    """A logger that writes JSON lines."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.log = logging.Logger("vllm.some.module", logging.DEBUG)
        handler = logging.StreamHandler(self.stream)
        handler.setFormatter(JsonLines("%(message)s", format="%(message)s", log_level="DEBUG"))
        self.log.addHandler(handler)

    def one(self) -> dict[str, Any]:
        """The only line, read."""
        text = self.stream.getvalue()
        assert text.count("\n") == 1
        assert text.isascii()
        return dict(json.loads(text))


@pytest.fixture
def written() -> Written:
    """Nothing yet."""
    return Written()


@pytest.fixture
def traced() -> Iterator[None]:
    """A request with a trace is being served."""
    token = CURRENT_REQUEST.set(CurrentRequest("order-66", "order-66-1", TRACE))
    yield
    CURRENT_REQUEST.reset(token)


def test_a_line_says_what_happened_where(written: Written) -> None:
    """Outside of a request there are four fields."""
    written.log.warning("the %s responds again after %d s", "engine", 3)
    line = written.one()
    assert datetime.fromisoformat(line.pop("time")).tzinfo is not None
    assert line == {
        "level": "WARNING",
        "logger": "vllm.some.module",
        "message": "the engine responds again after 3 s",
    }


def test_the_time_is_utc_with_milliseconds(written: Written) -> None:
    """As other tools read it."""
    record = written.log.makeRecord("a", logging.INFO, "-", 1, "a", (), None)
    record.created = 1_700_000_000.5
    assert json.loads(JsonLines().format(record))["time"] == "2023-11-14T22:13:20.500Z"


def test_a_line_about_a_request_has_its_ids(written: Written, traced: None) -> None:
    """The line joins with the spans of its trace."""
    written.log.info("a step")
    line = written.one()
    assert (line["request_id"], line["trace_id"], line["span_id"]) == ("order-66", TRACE.trace_id, TRACE.span_id)


def test_a_traceback_is_one_field(written: Written) -> None:
    """With the stack, where one was asked for."""
    try:
        raise ValueError("no\nway")
    except ValueError:
        written.log.exception("it failed", stack_info=True)
    exception = written.one()["exception"]
    assert exception.startswith("Traceback (most recent call last):\n")
    assert "ValueError: no\nway\nStack (most recent call last):\n" in exception


def test_a_traceback_that_was_formatted_before_is_kept(written: Written) -> None:
    """The traceback has no messages."""
    record = written.log.makeRecord("a", logging.INFO, "-", 1, "a", (), None)
    record.exc_text = "short"
    assert json.loads(JsonLines().format(record))["exception"] == "short"


@given(st.text())
def test_whatever_a_client_sent_is_one_line(text: str) -> None:
    """Line breaks, escapes and lone surrogates among it; and it is read as it was."""
    written = Written()
    written.log.info("path %s", text)
    assert written.one()["message"] == f"path {text}"
