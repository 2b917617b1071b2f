"""Headway's log lines, in vLLM's format and marked as Headway's: ``[headway/supervisor.py:153]``."""

from __future__ import annotations

import copy
import logging

_MARK = "headway/"


def log_as_vllm_does() -> None:
    """Give Headway's loggers the handlers and the level of vLLM's, unless the operator configured them."""
    ours, theirs = logging.getLogger("headway"), logging.getLogger("vllm")
    if not ours.handlers:
        ours.handlers = [_marked(handler) for handler in theirs.handlers]
        ours.propagate = False
    if ours.level == logging.NOTSET:
        ours.setLevel(theirs.level or logging.INFO)


def _marked(handler: logging.Handler) -> logging.Handler:
    """A handler with the same stream, format and lock, whose lines name the file as one of Headway's."""
    twin = copy.copy(handler)
    twin.filters = [*handler.filters, _mark]
    return twin


def _mark(record: logging.LogRecord) -> bool:
    """vLLM's format shows the name of the file only, and vLLM has a ``warmup.py`` of its own, too."""
    if not record.filename.startswith(_MARK):  # a second handler gets the same record
        record.filename = _MARK + record.filename
    return True
