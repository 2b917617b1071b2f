"""The argument parser of all commands, and the options that several share."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterable, Sequence
from math import inf
from typing import Any, NoReturn

from headway.settings import Environment, Variable
from headway_policies.close_name import did_you_mean
from headway_tools.console.exits import UsageError

DEFAULT_URL = "http://127.0.0.1:8000"
_WIDTH, _INDENT = 110, 30


def formatter(prog: str) -> argparse.HelpFormatter:
    """Help with the epilog as written and a fixed width, so that it reads the same everywhere."""
    return argparse.RawDescriptionHelpFormatter(prog, max_help_position=_INDENT, width=_WIDTH)


def variable_lines(variables: Iterable[Variable[Any]]) -> str:
    """The text of the help on these variables."""
    lines = list[str]()
    for variable in variables:
        name, *file = variable.names
        text = (
            f"{variable.meaning}{''.join(f'; or {twin}, a file with it' for twin in file)} (default: {variable.usual})"
        )
        start = f"  {name:<{_INDENT - 4}}  "
        lines += textwrap.wrap(text.replace("`", ""), _WIDTH, initial_indent=start, subsequent_indent=" " * _INDENT)
    return "\n".join(lines)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line that names the help to read, and the closest known word."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageError instead of printing the whole usage."""
        raise UsageError(f"{message} (see: {self.prog} --help)")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += did_you_mean(str(value), map(str, action.choices or ()))
            raise

    def unknown(self, words: Sequence[str]) -> UsageError:
        """The error of words that no parser has read, which name no flag of this one."""
        flags = [word.partition("=")[0] for word in words if word.startswith("-")]
        close = did_you_mean(flags[0], self._option_string_actions) if flags else ""
        return UsageError(f"unknown: {' '.join(words)}{close} (see: {self.prog} --help)")


def add_command(commands: argparse._SubParsersAction[Parser], name: str, summary: str, epilog: str) -> Parser:
    """Add one subcommand with its help text."""
    parser = commands.add_parser(
        name,
        help=summary[0].lower() + summary[1:],
        description=summary,
        epilog=epilog,
        formatter_class=formatter,
    )
    parser.set_defaults(reader=parser)
    return parser


def add_url(parser: argparse.ArgumentParser, *, default: bool = True) -> None:
    """Add ``--url``; without ``default`` it stays None unless it is given."""
    where = next(iter(Environment().url), DEFAULT_URL)  # a list is for the dashboard
    parser.add_argument(
        "--url",
        default=where if default else None,
        help=f"the server (default: $HEADWAY_URL, else {DEFAULT_URL})" if default else "ask this server",
    )


def add_json(parser: argparse._ActionsContainer) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def port(text: str) -> int:
    """Read a TCP port, 1 to 65535. Raises argparse.ArgumentTypeError."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"a port is a number from 1 to 65535, not {text!r}")
    return int(text)


def seconds(text: str) -> float:
    """Read a positive number of seconds. Raises argparse.ArgumentTypeError."""
    return positive(text, "a number of seconds above 0 and below 10,000,000", most=1e7)


def positive(text: str, what: str = "a number above 0", most: float = inf, *, zero: bool = False) -> float:
    """Read a number above 0, or 0 too, and below ``most``. Raises argparse.ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < most and not (zero and value == 0):
        raise argparse.ArgumentTypeError(f"{what} is needed, not {text[:40]!r}")
    return value


def whole(text: str, most: int = 999_999_999, what: str = "a whole number") -> int:
    """Read a whole number from 1 to ``most``. Raises argparse.ArgumentTypeError."""
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:20]) <= most):
        raise argparse.ArgumentTypeError(f"{what} from 1 to {most} is needed, not {text[:40]!r}")
    return int(text)


def time_span(text: str) -> float:
    """Read a time such as 90, 90s, 10m or 1h, in seconds. Raises argparse.ArgumentTypeError."""
    unit_s = {"s": 1.0, "m": 60.0, "h": 3600.0}.get(text[-1:])
    try:
        return seconds(text if unit_s is None else text[:-1]) * (unit_s or 1.0)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(f"a time such as 90s, 10m or 1h is needed, not {text!r}") from None
