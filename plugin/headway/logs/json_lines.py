"""Log lines as JSON objects: what happened, and which request it was about."""

from __future__ import annotations

import json
import logging

from headway.tracing import CURRENT_REQUEST
from headway.utc_text import utc_text


class JsonLines(logging.Formatter):
    """A formatter with the fields ``time`` (UTC, with milliseconds), ``level``, ``logger`` and ``message``.

    Where a request is being served: ``request_id``, and ``trace_id`` and ``span_id`` of its caller if it named them.
    A traceback is one field, ``exception``. All is ASCII and one line, whatever a client sent.
    """

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__()  # takes the place of other formatters, whose options say nothing here

    def format(self, record: logging.LogRecord) -> str:
        """The line of a record."""
        time = utc_text(record.created, "milliseconds")
        line = {"time": time, "level": record.levelname, "logger": record.name, "message": record.getMessage()}
        current = CURRENT_REQUEST.get()
        if current is not None:
            line["request_id"] = current.request_id
            if current.trace is not None:
                line |= {"trace_id": current.trace.trace_id, "span_id": current.trace.span_id}
        if exception := self._exception(record):
            line["exception"] = exception
        return json.dumps(line)

    def _exception(self, record: logging.LogRecord) -> str:
        """The traceback and the stack of a record, if present."""
        text = record.exc_text or (self.formatException(record.exc_info) if record.exc_info else "")
        stack = self.formatStack(record.stack_info) if record.stack_info else ""
        return "\n".join(part for part in (text, stack) if part)
