"""``headway silence``: lists an alert apart on the dashboards of a running server, for a time."""

from __future__ import annotations

import argparse

from headway.api import Silences
from headway_tools.cli.control.command_options import actor_of, add_command_options, send
from headway_tools.console import time_span

NAME = "silence"
SUMMARY = "Silence an alert on the dashboards of a running server, for a time."
EPILOG = """\
examples:
  headway silence HeadwayQueueLong --for 2h --reason "load test until three"
  headway silence HeadwayQueueLong --end            the alert is shown as before

The dashboards of the server list the alert apart until then, with the author and the reason; figures, diagnosis and
metrics stay as they are. Alertmanager has silences of its own. `headway status --json` lists the silences, the audit
log keeps them, and a restart of the server ends them.
exit codes: 0 done   1 refused: too many alerts are silent   2 wrong name or time   3 not reachable
            4 token missing or wrong
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("alert", metavar="ALERT", help="the name of the alert, as the dashboard shows it")
    until = parser.add_mutually_exclusive_group(required=True)
    until.add_argument(
        "--for",
        dest="expires_s",
        type=time_span,
        metavar="TIME",
        help="length of the silence, such as 30m or 8h; at most 168h",
    )
    until.add_argument("--end", action="store_true", help="end the silence of the alert")
    add_command_options(parser)
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    return send(
        chosen,
        lambda client: client.silence(chosen.alert, chosen.expires_s, reason=chosen.reason, actor=actor_of(chosen)),
        text,
    )


def text(changed: Silences) -> str:
    """The silences after the command, a line for each."""
    lines = [f"{silence.alert}: silent until {silence.ends}" for silence in changed.silences]
    return "\n".join(lines) or "no alert is silent"
