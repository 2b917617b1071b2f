"""``headway pause``: suspends the dispatch of a running server."""

from __future__ import annotations

import argparse

from headway.api import AdmissionChanged
from headway_policies.units import duration
from headway_tools.cli.control.command_options import actor_of, add_command_options, counted, send
from headway_tools.console import time_span

NAME = "pause"
SUMMARY = "Suspend dispatch on a running server: requests wait until `headway resume`, or for a time."
EPILOG = """\
examples:
  headway pause --reason "the storage of the model is moved"
  headway pause --for 10m                           the server resumes by itself, also without this client
  headway status                                    author, age and waiting requests of the pause
  headway resume                                    dispatch goes on

Running requests finish. New and waiting requests wait, within the bounds and time-outs of the preset; for a long stop
`headway drain` refuses them at once. The server is not ready meanwhile, so a load balancer sends its requests to other
servers. A pause lasts across preset switches and recycles, until a resume or its end. Another pause renews or replaces
a pause with an end; a drain removes the end.
exit codes: 0 paused   1 refused: draining, or paused without an end   3 not reachable   4 token missing or wrong
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_command_options(parser)
    parser.add_argument(
        "--for", dest="expires_s", type=time_span, metavar="TIME",
        help="time until the server resumes by itself, such as 30s, 10m or 1h (default: never)",
    )  # fmt: skip
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    expires_s, reason = chosen.expires_s, chosen.reason
    return send(
        chosen,
        lambda client: client.pause(expires_s=expires_s, reason=reason, actor=actor_of(chosen)),
        lambda changed: text(changed, expires_s),
    )


def text(changed: AdmissionChanged, expires_s: float | None = None) -> str:
    """The present state and its end, as text."""
    end = "" if expires_s is None else f", for {duration(expires_s)} at most"
    waits = f"{counted(changed.waiting, 'waiting')} and all new ones wait, with their time-outs"
    return f"paused: {counted(changed.running, 'running')} will finish; {waits}, until headway resume{end}"
