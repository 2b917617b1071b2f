"""What does the exit code say? The codes a script can test, and the errors that end in them.

CliError
├── UsageError     2  wrong usage or bad input: a bad preset, a missing model, a taken port
├── FailedError    1  the operation was refused or failed
├── ServerUnreachableError  3  nobody answers, or not Headway
└── TokenError     4  the admin token is missing or wrong
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes of every ``headway`` command."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    TOKEN = 4


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
    """Nobody answers at the URL, or not a Headway server."""

    code = Exit.UNREACHABLE


class TokenError(CliError):
    """The admin token is missing, wrong, or may not do this."""

    code = Exit.TOKEN
