"""``headway drain``: a running server refuses new and waiting requests, and finishes the others."""

from __future__ import annotations

import argparse
import os
import time

from headway.api import AdminClient, AdmissionChanged
from headway_tools.cli.control.command_options import actor_of, add_command_options, counted
from headway_tools.console import Exit, FailedError, connect, time_span

NAME = "drain"
SUMMARY = "Refuse new and waiting requests on a running server; running ones finish."
EPILOG = """\
examples:
  headway drain --reason "kernel update" --wait 5m && systemctl stop headway
  headway status                                    draining, since when, by whom, and how many requests still run
  headway resume                                    admit requests again

New and waiting requests are refused with 503 and Retry-After, so that clients and load balancers go elsewhere; for a
short stop `headway pause` lets them wait instead. The drain lasts until a resume or the end of the server, also across
preset switches; the audit log says when the last running request has ended.
exit codes: 0 draining, with --wait: no request runs   1 refused: it drains already, or --wait was too short
            3 not reachable   4 token missing or wrong
"""
_POLL_S = 0.5


def configure(parser: argparse.ArgumentParser) -> None:
    add_command_options(parser)
    parser.add_argument(
        "--wait", type=time_span, metavar="TIME", help="wait until no request runs, and fail after this time"
    )
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    with connect(chosen.url, os.environ) as client:
        changed = client.drain(reason=chosen.reason, actor=actor_of(chosen))
        print(changed.model_dump_json() if chosen.json else text(changed), flush=True)
        if chosen.wait is not None:
            _wait(client, chosen.wait)
    return Exit.OK


def text(changed: AdmissionChanged) -> str:
    """The present state, as text."""
    refused = f"{counted(changed.refused, 'waiting')} refused, new ones are refused too"
    return f"draining: {refused}; {counted(changed.running, 'running')} will finish"


def _wait(client: AdminClient, at_most_s: float) -> None:
    """Wait until no request runs. Raises FailedError where that takes longer, or the drain was ended."""
    ends_s = time.monotonic() + at_most_s
    while (status := client.status()).in_flight or status.seats_taken:
        if status.state != "draining":
            raise FailedError(f"the drain was ended: the server is {status.state}")
        if time.monotonic() >= ends_s:
            raise FailedError(f"{counted(status.in_flight, 'running')} left after {at_most_s:g} s; the drain goes on")
        time.sleep(_POLL_S)
