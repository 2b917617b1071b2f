"""``headway recycle``: put another engine in the place of the one that runs."""

from __future__ import annotations

import argparse
import os

from headway.api import RecycleAccepted
from headway.console import add_json, add_url, connect

NAME = "recycle"
SUMMARY = "Replace the engine of a running server by a fresh one, losing nobody."
EPILOG = """\
examples:
  headway recycle --reason "memory in pieces after a week"
  headway status                                    state: paused, then open again; memory.recycled counts it

Who runs finishes first, for as long as memory.recycle_drain_s of the preset allows; who comes meanwhile waits. Then
the engine is replaced, which takes as long as loading the model. What became of it stands in the server's audit.
exit codes: 0 begun   1 refused: this server cannot, or not now   3 not reachable   4 token missing or wrong
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_url(parser)
    add_json(parser)
    parser.add_argument("--reason", metavar="TEXT", help="why; kept in the server's audit")
    parser.add_argument("--actor", metavar="WHO", help="who; kept in the audit (default: $USER)")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Give the order."""
    actor = chosen.actor or os.environ.get("USER") or None
    with connect(chosen.url, os.environ) as client:
        accepted = client.recycle(reason=chosen.reason, actor=actor)
    print(accepted.model_dump_json() if chosen.json else text(accepted))
    return 0


def text(accepted: RecycleAccepted) -> str:
    """What happens now, as a person reads it."""
    first = "at once" if not accepted.seats_taken else f"when the {accepted.seats_taken} that run have finished"
    return f"begun: the engine is replaced {first}; who comes meanwhile waits"
