"""``headway resume``: ends the pause or the drain of a running server."""

from __future__ import annotations

import argparse

from headway.api import AdminClient, AdmissionChanged
from headway_tools.cli.control.command_options import add_plain_command, blocked_words, counted

NAME = "resume"
SUMMARY = "End the pause or the drain of a running server."
EPILOG = """\
examples:
  headway resume --reason "the storage is back"
  headway resume --json                             what was dispatched at once, for scripts

The command ends what `headway pause` or `headway drain` began, also a pause that would end by itself. A stop for
another cause (a recycle, a warm-up, the engine's own pause) goes on until its own end, and the answer names it.
exit codes: 0 resumed   1 refused: no command blocks dispatch   3 not reachable   4 token missing or wrong
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_plain_command(parser, AdminClient.resume, text)


def text(changed: AdmissionChanged) -> str:
    """The outcome, as text."""
    sent = f"{counted(changed.dispatched, 'waiting')} dispatched at once, {changed.waiting} still waiting"
    return f"resumed: {sent}{blocked_words(changed)}"
