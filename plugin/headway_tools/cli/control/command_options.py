"""The options of a command to a running server (address, reason, name), and its way there and back."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel

from headway.api import AdminClient, AdmissionChanged
from headway_tools.console import add_json, add_url, connect

Answer = TypeVar("Answer", bound=BaseModel)


def add_command_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--url``, ``--json``, ``--reason`` and ``--actor``."""
    add_url(parser)
    add_json(parser)
    parser.add_argument("--reason", metavar="TEXT", help="the reason, for the server's audit log")
    parser.add_argument("--actor", metavar="NAME", help="your name, for the audit log (default: $USER)")


def actor_of(chosen: argparse.Namespace) -> str | None:
    """The name for the audit log, None where neither an option nor the environment has one."""
    return chosen.actor or os.environ.get("USER") or None


def send(chosen: argparse.Namespace, command: Callable[[AdminClient], Answer], text: Callable[[Answer], str]) -> int:
    """Send a command and print the answer, as text or as JSON. Returns the exit code."""
    with connect(chosen.url, os.environ) as client:
        answer = command(client)
    print(answer.model_dump_json() if chosen.json else text(answer))
    return 0


def add_plain_command(
    parser: argparse.ArgumentParser, command: Callable[..., Answer], text: Callable[[Answer], str]
) -> None:
    """Add the options of a command that has none of its own; ``command`` is called with client, reason and name."""

    def run(chosen: argparse.Namespace) -> int:
        return send(chosen, lambda client: command(client, reason=chosen.reason, actor=actor_of(chosen)), text)

    add_command_options(parser)
    parser.set_defaults(run=run)


def counted(number: int, what: str) -> str:
    """A number of requests of one kind."""
    return f"{number} {what} request{'' if number == 1 else 's'}"


def blocked_words(changed: AdmissionChanged) -> str:
    """The causes that still stop dispatch after a resume; empty where there are none."""
    return "" if changed.state == "open" else f"; dispatch is still blocked by {', '.join(changed.holds)}"
