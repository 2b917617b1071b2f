"""``headway fallback``: shows the fallback ladder, sets it to a rung, or makes it automatic."""

from __future__ import annotations

import argparse

from headway.api import AdminClient, FallbackState
from headway_tools.cli.control.command_options import actor_of, add_command_options, send
from headway_tools.console import UsageError, table

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
    parser.add_argument("action", nargs="?", choices=("show", "set", "auto"), default="show", help="default: show")
    parser.add_argument("rung", nargs="?", metavar="RUNG", help="the rung, for set")
    add_command_options(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    if (chosen.action == "set") != (chosen.rung is not None):
        raise UsageError("set needs a RUNG, and only set does (see: headway fallback --help)")

    def command(client: AdminClient) -> FallbackState:
        if chosen.action == "show":
            return client.fallback()
        return client.order_fallback(chosen.rung, reason=chosen.reason, actor=actor_of(chosen))

    return send(chosen, command, text)


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
