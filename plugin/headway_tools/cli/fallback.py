"""``headway fallback``: shows the fallback ladder, sets it to a rung, or makes it automatic."""

from __future__ import annotations

import argparse
import os

from headway.api import FallbackState
from headway_tools.console import UsageError, add_json, add_url, connect, table

NAME = "fallback"
SUMMARY = "Show a server's fallback ladder, set it to a rung, or make it automatic."
EPILOG = """\
examples:
  headway fallback                                  the rung, its reason, and the last moves
  headway fallback set shed --reason "half of the GPUs are down"
  headway fallback set normal                       degrade no request, whatever happens
  headway fallback auto                             follow the thresholds of the preset again

The rungs, from the mildest on: normal, cap, bypass, shed, divert, pause. A rung affects only the classes whose
preset allows it. A command holds until the next one, also across preset switches.
exit codes: 0 done   1 refused   2 no such rung, or one without effect   3 not reachable   4 token missing or wrong
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_url(parser)
    add_json(parser)
    parser.add_argument("action", nargs="?", choices=("show", "set", "auto"), default="show", help="default: show")
    parser.add_argument("rung", nargs="?", metavar="RUNG", help="the rung, for set")
    parser.add_argument("--reason", metavar="TEXT", help="the reason, for the server's audit log")
    parser.add_argument("--actor", metavar="NAME", help="your name, for the audit log (default: $USER)")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Show the ladder, or set a rung."""
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
    """The ladder as text."""
    other = now.fallback_model
    facts = [
        ("rung", now.rung + ("" if now.trigger is None else f"  ({now.trigger})")),
        ("mode", "automatic" if now.ordered is None else f"an operator has set it to {now.ordered}"),
        ("in force", ", ".join(now.in_force) or "none"),
        ("usable", ", ".join(now.usable) or "none: no class of the preset allows a degradation"),
        (
            "divert to",
            "none" if other is None else f"{other.model}, breaker {other.breaker}, {other.in_flight} in flight",
        ),
    ]
    lines = [f"{name:<9} {value}" for name, value in facts]
    if now.moves:
        rows = [[move.time, move.before, move.after, move.trigger] for move in now.moves[:10]]
        lines += ["", table(["time", "from", "to", "trigger"], rows, indent="")]
    return "\n".join(lines)
