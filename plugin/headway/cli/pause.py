"""``headway pause``: suspends the dispatch of a running server."""

from __future__ import annotations

import argparse
import os

from headway.api import AdmissionChanged
from headway.cli.order_options import actor_of, add_order_options, counted
from headway.console import connect

NAME = "pause"
SUMMARY = "Suspend dispatch on a running server: requests wait until `headway resume`."
EPILOG = """\
examples:
  headway pause --reason "the storage of the model is moved"
  headway status                                    paused, since when, by whom, and how many requests wait
  headway resume                                    dispatch goes on

Running requests finish. New and waiting requests wait, within the bounds and time-outs of the preset, which go on: for
a long stop `headway drain` refuses them at once. The server is not ready meanwhile, so that a load balancer sends its
requests elsewhere. A pause holds across preset switches and recycles, until a resume.
exit codes: 0 paused   1 refused: paused or draining already   3 not reachable   4 token missing or wrong
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_order_options(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Send the order."""
    with connect(chosen.url, os.environ) as client:
        changed = client.pause(reason=chosen.reason, actor=actor_of(chosen))
    print(changed.model_dump_json() if chosen.json else text(changed))
    return 0


def text(changed: AdmissionChanged) -> str:
    """What happens now, as text."""
    waits = f"{counted(changed.waiting, 'waiting')} and all new ones wait, with their time-outs"
    return f"paused: {counted(changed.running, 'running')} will finish; {waits}, until headway resume"
