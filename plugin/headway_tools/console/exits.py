"""The exit codes of the command, which a script can test, and the errors that end in them.

CliError
├── UsageError     2  wrong usage or bad input: a bad preset, a missing model, a taken port
├── FailedError    1  the operation was refused or failed
├── ServerUnreachableError  3  no answer, or not one of Headway
└── TokenError     4  the admin token is missing or wrong
"""

from __future__ import annotations

from enum import IntEnum

from headway.api import (
    AdminError,
    BadUrlError,
    BrokenConnectionError,
    InvalidCommandError,
    NoAnswerInTimeError,
    NotHeadwayError,
    RefusedError,
    RoleError,
    SwitchedOffError,
    TlsError,
    TokenRefusedError,
    TooLargeError,
)


class Exit(IntEnum):
    """The exit codes of every ``headway`` command."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    TOKEN = 4
    REVERTED = 5


#: Ended by Ctrl-C: 128 + SIGINT, as shells count.
INTERRUPTED = 130


class CliError(Exception):
    """An expected end that is not success. Its text is one line that says what to do next."""

    code: Exit = Exit.FAILED


class FailedError(CliError):
    """The operation was refused or failed."""


class UsageError(CliError):
    """The command line, a file or the environment is wrong."""

    code = Exit.USAGE


class ServerUnreachableError(CliError):
    """No answer at the URL, or not one of a Headway server."""

    code = Exit.UNREACHABLE


class TokenError(CliError):
    """The admin token is missing, wrong, or may not do this."""

    code = Exit.TOKEN


def as_cli_error(error: AdminError) -> CliError:
    """The end of a command whose request to the admin API failed."""
    url = error.url
    match error:
        case BadUrlError():
            return UsageError(f"not a URL of a server, such as http://127.0.0.1:8000: {url!r}")
        case RefusedError():
            return _refused(error)
        case TooLargeError():
            return ServerUnreachableError(f"{url}: {error} Is it a Headway server? check --url")
        case NotHeadwayError():
            return ServerUnreachableError(f"{url} answered something that is not Headway's admin API; check --url")
        case BrokenConnectionError():
            return ServerUnreachableError(
                f"{url} closed the connection without an answer; the command may have been carried out all the same"
            )
        case NoAnswerInTimeError():
            return ServerUnreachableError(f"{url} does not answer in time; is the server overloaded or still starting?")
        case TlsError():
            return ServerUnreachableError(f"{url}: the TLS connection failed; check https and the certificate")
    return ServerUnreachableError(f"no server answers at {url}; start one with `headway serve MODEL`, or give --url")


def _refused(error: RefusedError) -> CliError:
    if error.is_problem:
        match error:
            case TokenRefusedError() | RoleError() | SwitchedOffError():
                return TokenError(str(error))
            case InvalidCommandError():
                return UsageError(str(error))
        return FailedError(str(error))
    if error.status >= 500:
        return FailedError(f"{error.url} answered {error.status}; look at the server's log")
    return ServerUnreachableError(
        f"{error.url} answered {error.status} and is not a Headway server; check --url, or start it with "
        "`headway serve`"
    )
