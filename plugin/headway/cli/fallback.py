"""``headway fallback``: how far down has service gone, why, and where should it stand?"""

from __future__ import annotations

import argparse
import os

from headway.api import FallbackState
from headway.console import UsageError, add_json, add_url, connect, table

NAME = "fallback"
SUMMARY = "Show where a server's fallback ladder stands, put it on a rung, or let it move by itself."
EPILOG = """\
examples:
  headway fallback                                  the rung, its reason, and the last moves
  headway fallback set shed --reason "half the GPUs are away"
  headway fallback set normal                       take nothing from anybody, whatever happens
  headway fallback auto                             let it move by itself again

The rungs, from the mildest on: normal, cap, bypass, shed, divert, pause. What a rung takes away it takes only from the
classes whose preset allows it. An order holds until the next one, also across preset switches.
exit codes: 0 done   1 refused   2 no such rung, or a useless one   3 not reachable   4 token missing or wrong
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_url(parser)
    add_json(parser)
    parser.add_argument("action", nargs="?", choices=("show", "set", "auto"), default="show", help="default: show")
    parser.add_argument("rung", nargs="?", metavar="RUNG", help="where to stand, for set")
    parser.add_argument("--reason", metavar="TEXT", help="why; kept in the server's audit")
    parser.add_argument("--actor", metavar="WHO", help="who; kept in the audit (default: $USER)")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Look, or give an order."""
    if (chosen.action == "set") != (chosen.rung is not None):
        raise UsageError("set needs a RUNG, and only set does (see: headway fallback --help)")
    with connect(chosen.url, os.environ) as client:
        if chosen.action == "show":
            now = client.fallback()
        else:
            actor = chosen.actor or os.environ.get("USER") or None
            now = client.order_fallback(chosen.rung, reason=chosen.reason, actor=actor)
    print(now.model_dump_json() if chosen.json else text(now))
    return 0


def text(now: FallbackState) -> str:
    """The ladder as a person reads it."""
    other = now.upstream
    facts = [
        ("rung", now.rung + ("" if now.trigger is None else f"  ({now.trigger})")),
        ("moves", "by itself" if now.ordered is None else f"no more: an operator has put it on {now.ordered}"),
        ("in force", ", ".join(now.in_force) or "nothing"),
        ("usable", ", ".join(now.usable) or "nothing: no class of the preset allows anything"),
        ("other", "none" if other is None else f"{other.model}, breaker {other.breaker}, {other.in_flight} in flight"),
    ]
    lines = [f"{name:<9} {value}" for name, value in facts]
    if now.moves:
        rows = [[move.time, move.before, move.after, move.trigger] for move in now.moves[:10]]
        lines += ["", table(["time", "from", "to", "because of"], rows, indent="")]
    return "\n".join(lines)
