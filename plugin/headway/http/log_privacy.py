"""The log filter that keeps query strings, and the headers and frames of WebSockets, out of the web server's log lines.

A client may put a token into the query (``?token=...``), where it does not belong; uvicorn prints the whole target of
each request at level INFO, of a WebSocket to another logger, and the whole scope at level TRACE. A query is dropped
whole: which of its values are secret is not known. The WebSocket library prints all headers and frames at level DEBUG.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from headway.logs.hidden import Hidden

#: uvicorn's loggers that print a request's target: of HTTP, of WebSockets (and its WebSocket library), of the scope.
_LOGGERS = ("uvicorn.access", "uvicorn.error", "uvicorn.asgi")
_TARGETS = ('"WebSocket ', " HTTP/")
#: The messages of the WebSocket library, and what their last argument is.
_SECRETS = {"< %s: %s": "header", "> %s: %s": "header", "< %s": "frame", "> %s": "frame"}


def hide_secrets() -> None:
    """Put the filter on uvicorn's loggers. The filter survives the set-up of uvicorn's logging, which comes later."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(without_secrets)  # a filter that is there already is not added again


def without_secrets(record: logging.LogRecord) -> bool:
    """Cut the query out of the arguments of a record, or hide its header or frame. Always true: no line is dropped."""
    if not isinstance(record.args, tuple):
        return True
    if record.name == "uvicorn.error" and str(record.msg) in _SECRETS:
        record.args = (*record.args[:-1], Hidden(_SECRETS[str(record.msg)]))
    elif _has_target(record):
        record.args = tuple(_cut(arg) for arg in record.args)
    return True


def _has_target(record: logging.LogRecord) -> bool:
    """Most lines of ``uvicorn.error`` are not about requests: they are left as they are."""
    return record.name != "uvicorn.error" or any(target in record.getMessage() for target in _TARGETS)


def _cut(argument: object) -> object:
    """An address, a method and a quoted path have no question mark of their own."""
    if isinstance(argument, str):
        return argument.partition("?")[0]
    if isinstance(argument, Mapping) and "query_string" in argument:
        return {**argument, "query_string": b""}
    return argument
