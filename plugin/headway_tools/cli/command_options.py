"""The options of a command to a running server: where it is, and what its audit log says of the command."""

from __future__ import annotations

import argparse
import os

from headway.api import AdmissionChanged
from headway_tools.console import add_json, add_url


def add_command_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--url``, ``--json``, ``--reason`` and ``--actor``."""
    add_url(parser)
    add_json(parser)
    parser.add_argument("--reason", metavar="TEXT", help="the reason, for the server's audit log")
    parser.add_argument("--actor", metavar="NAME", help="your name, for the audit log (default: $USER)")


def actor_of(chosen: argparse.Namespace) -> str | None:
    """The name for the audit log, None where neither an option nor the environment has one."""
    return chosen.actor or os.environ.get("USER") or None


def counted(number: int, what: str) -> str:
    """A number of requests of one kind."""
    return f"{number} {what} request{'' if number == 1 else 's'}"


def blocked_words(changed: AdmissionChanged) -> str:
    """The causes that still stop dispatch after a resume; empty where there are none."""
    return "" if changed.state == "open" else f"; dispatch is still blocked by {', '.join(changed.holds)}"
