"""The record factory that keeps the content of requests out of log lines.

A factory and not a filter: a filter of a logger does not see the records of the loggers below it, and one of a handler
is lost when logging is set up again. The line is kept, with its place in the code and its numbers; texts and objects
among its arguments are replaced, and so are the messages of exceptions, which may repeat what a client sent.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headway.logs.hidden import Hidden, shown
from headway.logs.tracebacks import blames_client, traceback_without_messages

_SHORTEST_TEXT = 4  # a shorter message of an exception may be in a line by chance


class Loggers:
    """Loggers by name, each with those below it, but for some."""

    def __init__(self, *names: str, but: tuple[str, ...] = ()) -> None:
        self._names = tuple(f"{name}." for name in names)
        self._but = tuple(f"{name}." for name in but)

    def __contains__(self, name: str) -> bool:
        dotted = f"{name}."
        return dotted.startswith(self._names) and not (self._but and dotted.startswith(self._but))


@dataclass(frozen=True, slots=True)
class ContentRules:
    """The content that is hidden, and the loggers of the lines.

    ``arguments``: all arguments but numbers and ids, and the messages of exceptions. ``exceptions``: the latter alone;
    ``lines`` are messages as the code has them, of any logger, for which the same is true. ``formatted``: what comes
    after the first colon or quote of a message without arguments, for it was formatted before. ``refusals``: an
    exception that blames the client is one line at level INFO. ``escaped``: control characters of all arguments are
    escaped, so that a client cannot write a line of its own.
    """

    arguments: Loggers
    exceptions: Loggers
    lines: frozenset[str]
    formatted: Loggers
    refusals: Loggers
    escaped: Loggers


class ContentRecords:
    """A log record factory (``logging.setLogRecordFactory``) around another one."""

    def __init__(self, make: Callable[..., logging.LogRecord], rules: ContentRules) -> None:
        self._make = make
        self._rules = rules

    def __call__(self, *args: Any, **options: Any) -> logging.LogRecord:
        """Make a record without content."""
        record = self._make(*args, **options)
        name, rules = record.name or "", self._rules
        hides = name in rules.arguments
        if hides:
            _hide_arguments(record, formatted=name in rules.formatted)
        elif name in rules.escaped:
            record.args = _each(record.args, _escaped)
        if record.exc_info and (hides or name in rules.exceptions or str(record.msg) in rules.lines):
            _hide_exception(record, one_line=name in rules.refusals)
        return record


def _hide_arguments(record: logging.LogRecord, *, formatted: bool) -> None:
    if not isinstance(record.msg, str):
        record.msg = str(shown(record.msg))
    elif formatted and not record.args:
        known = record.msg.partition(":")[0].partition("'")[0].rstrip()
        if known != record.msg:
            record.msg = f"{known} {Hidden('the rest')}"
    if isinstance(record.args, Mapping) and "%(" not in str(record.msg):  # a single argument that is a mapping
        record.args = (shown(record.args),)
    else:
        record.args = _each(record.args, shown)


def _hide_exception(record: logging.LogRecord, *, one_line: bool) -> None:
    """Replace the exception by its traceback without messages; no handler can format the exception itself then."""
    error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    record.exc_info = record.exc_text = None
    if error is None:
        return
    if isinstance(record.msg, str) and not record.args:  # else the message is a literal
        record.msg = _without(error, record.msg)
    if not (one_line and blames_client(error)):
        record.exc_text = traceback_without_messages(error)
    elif record.levelno > logging.INFO:
        record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)


def _without(error: BaseException, message: str) -> str:
    """A message without the exception's text in it."""
    try:
        texts = (repr(error), str(error))
    except Exception:  # a log line must not fail
        return str(Hidden(type(error).__name__))
    for text in texts:
        if len(text) >= _SHORTEST_TEXT:
            message = message.replace(text, str(Hidden(type(error).__name__)))
    return message


def _each(args: Any, change: Callable[[object], object]) -> Any:
    """The arguments of a record, each of them changed: a tuple, or one mapping."""
    if isinstance(args, Mapping):
        return {key: change(value) for key, value in args.items()}
    return tuple(change(arg) for arg in args) if isinstance(args, tuple) else args


def _escaped(value: object) -> object:
    """A text or an exception that prints as one line, without control characters; anything else as it is."""
    text = value if isinstance(value, str) else str(value) if isinstance(value, BaseException) else None
    if text is None or text.isprintable():
        return value
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in text)
