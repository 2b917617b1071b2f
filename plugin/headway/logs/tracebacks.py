"""Tracebacks without the messages of their exceptions, which may repeat what a client sent or the model wrote."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

_MAX_EXCEPTIONS = 8
_CAUSED = "\nThe above exception was the direct cause of the following exception:\n\n"
_DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"

#: Exceptions, by the name of their class or of a base of it, that vLLM answers with a status that blames the client.
_CLIENT_ERRORS = frozenset(
    {
        "GracefulHTTPError", "HTTPException", "OverflowError", "RequestValidationError", "TemplateError", "TypeError",
        "VLLMClientError", "ValidationError", "ValueError",
    }
)  # fmt: skip


def traceback_without_messages(error: BaseException) -> str:
    """The traceback as Python prints it, of at most 8 exceptions that led to each other, with no message of theirs."""
    parts: list[str] = []
    for cause, link in _chain(error):
        parts.append(link)
        if cause.__traceback__ is not None:
            parts += ["Traceback (most recent call last):\n", *traceback.format_tb(cause.__traceback__)]
        parts.append(f"{_name(cause)}\n")
        if isinstance(cause, BaseExceptionGroup):
            parts += [f"  with {_name(inner)}\n" for inner in cause.exceptions[:_MAX_EXCEPTIONS]]
    return "".join(parts).rstrip("\n")


def blames_client(error: BaseException) -> bool:
    """Whether the exception refuses a request for what its client sent, or for the load: no fault of the server."""
    return any(kind.__name__ in _CLIENT_ERRORS for kind in type(error).__mro__)


def _chain(error: BaseException) -> Iterator[tuple[BaseException, str]]:
    """The exceptions, the first one first, each with the words between it and the one before."""
    found: list[tuple[BaseException, str]] = []
    one: BaseException | None = error
    seen: set[int] = set()
    while one is not None and id(one) not in seen and len(found) < _MAX_EXCEPTIONS:
        seen.add(id(one))
        before = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
        last = before is None or id(before) in seen or len(found) + 1 == _MAX_EXCEPTIONS
        found.append((one, "" if last else _CAUSED if one.__cause__ is not None else _DURING))
        one = before
    return reversed(found)


def _name(error: BaseException) -> str:
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}: [message hidden]"
