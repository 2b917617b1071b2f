"""The format of Headway's log lines: vLLM's, marked as Headway's: ``[headway/supervisor.py:153]``.

With HEADWAY_LOG_FORMAT=json all lines of Headway, vLLM and uvicorn are JSON objects (``headway.logs.json_lines``).
"""

from __future__ import annotations

import copy
import importlib
import logging

from headway.logs import JsonLines
from headway.patches import switched_off
from headway.settings import Environment

_MARK = "headway/"
#: The classes that the set-ups of vLLM's and of uvicorn's logging name for their formatters.
_FORMATTERS = (
    ("vllm.logging_utils", "NewLineFormatter"),
    ("vllm.logging_utils", "ColoredFormatter"),
    ("uvicorn.logging", "DefaultFormatter"),
    ("uvicorn.logging", "AccessFormatter"),
)
_LOGGERS = ("headway", "vllm", "uvicorn", "uvicorn.access", "uvicorn.error")


def log_as_vllm_does() -> None:
    """Give Headway's loggers the handlers and the level of vLLM's, unless the operator configured them."""
    ours, theirs = logging.getLogger("headway"), logging.getLogger("vllm")
    if not ours.handlers:
        ours.handlers = [_marked(handler) for handler in theirs.handlers]
        ours.propagate = False
    if ours.level == logging.NOTSET:
        ours.setLevel(theirs.level or logging.INFO)


def log_json_lines() -> None:
    """Write JSON lines in this process, if HEADWAY_LOG_FORMAT says so.

    The formatters are replaced also where they are looked up by name, for logging may be set up again later. A logging
    configuration of the operator's with formatters of other names stays as it is.
    """
    if Environment().log_format != "json":
        return
    for module, name in () if "json-lines" in switched_off() else _FORMATTERS:
        setattr(importlib.import_module(module), name, JsonLines)
    for name in _LOGGERS:
        for handler in logging.getLogger(name).handlers:
            handler.setFormatter(JsonLines())


def _marked(handler: logging.Handler) -> logging.Handler:
    """A handler with the same stream, format and lock, whose lines mark the file as Headway's."""
    twin = copy.copy(handler)
    twin.filters = [*handler.filters, _mark]
    return twin


def _mark(record: logging.LogRecord) -> bool:
    """Mark the name of the file: vLLM's format shows the name alone, and vLLM has a ``warmup.py`` too."""
    if not record.filename.startswith(_MARK):  # a second handler gets the same record
        record.filename = _MARK + record.filename
    return True
