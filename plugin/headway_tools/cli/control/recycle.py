"""``headway recycle``: replaces the running engine."""

from __future__ import annotations

import argparse

from headway.api import AdminClient, RecycleAccepted
from headway_tools.cli.control.command_options import add_plain_command

NAME = "recycle"
SUMMARY = "Replace the engine of a running server by a new one, without losing a request."
EPILOG = """\
examples:
  headway recycle --reason "memory fragmented after a week"
  headway status                                    state: paused, then open again; memory.recycled counts it

Where memory allows two engines, the new one is started first, while the old one serves; memory.recycle_form of the
status says so, or why not. Then running requests finish, within memory.recycle_drain_s of the preset, and new requests
wait until the engine is replaced: without room for two, as long as loading the model takes. The result is in the
server's audit log.
exit codes: 0 accepted   1 refused: this server cannot, or not now   3 not reachable   4 token missing or wrong
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_plain_command(parser, AdminClient.recycle, text)


def text(accepted: RecycleAccepted) -> str:
    """The present state, as text."""
    first = "at once" if not accepted.seats_taken else f"when {accepted.seats_taken} running requests have finished"
    return f"accepted: the engine is replaced {first}; where memory allows, the new one is started before that"
