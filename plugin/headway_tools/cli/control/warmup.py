"""``headway warmup``: runs the warm-up of the preset on the running engine, beside its requests."""

from __future__ import annotations

import argparse

from headway.api import AdminClient, WarmupAccepted
from headway_tools.cli.control.command_options import add_plain_command, counted

NAME = "warmup"
SUMMARY = "Run the warm-up of the preset on a running server, beside the traffic."
EPILOG = """\
examples:
  headway warmup --reason "the first requests after a quiet night were slow"
  headway pause && headway warmup                   without other requests beside it; then headway resume
  headway status --json | python3 -m json.tool      warmup: the seconds of each stage and round

The requests of `[warmup]` of the preset run once, past the queue, with batches as large as the seats that are free;
they are in no count, and the prefix cache is not cleared. The server stays ready, and a failure changes nothing: the
result is in the server's audit log. Warm-ups run one at a time.
exit codes: 0 accepted   1 refused: this server cannot, or not now   3 not reachable   4 token missing or wrong
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_plain_command(parser, AdminClient.warm_up, text)


def text(accepted: WarmupAccepted) -> str:
    """The present state, as text."""
    beside = f"beside {counted(accepted.running, 'running')}" if accepted.running else "on an idle engine"
    return f"accepted: batches of at most {accepted.batch_size} {beside}; the result is in the audit log"
