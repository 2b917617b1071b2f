"""``headway resume``: ends the pause or the drain of a running server."""

from __future__ import annotations

import argparse

from headway.api import AdmissionChanged
from headway_tools.cli.control.command_options import actor_of, add_command_options, blocked_words, counted, send

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
    """Add the options of this command."""
    add_command_options(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Send the command."""
    return send(chosen, lambda client: client.resume(reason=chosen.reason, actor=actor_of(chosen)), text)


def text(changed: AdmissionChanged) -> str:
    """The outcome, as text."""
    sent = f"{counted(changed.dispatched, 'waiting')} dispatched at once, {changed.waiting} still waiting"
    return f"resumed: {sent}{blocked_words(changed)}"
