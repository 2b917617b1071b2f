"""``headway preset recommend``: names the preset that fits, and advice for a running server."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict

from headway.cli.traffic import watch
from headway.console import add_json, add_url, connect, seconds
from headway_policies.preset import Needs, Recommendation, recommend

SUMMARY = "Recommend a preset for your needs; with --url, also from a running server's traffic."
EPILOG = """\
examples:
  headway preset recommend                          asks two questions (without a terminal: balanced)
  headway preset recommend --latency-sensitive      answers are read as they arrive
  headway preset recommend --inter-token-slo-ms 60  an objective for the time between tokens
  headway preset recommend --offline                a file of prompts, by tomorrow
  headway preset recommend --url http://127.0.0.1:8000 --watch 30
                                                    also from 30 s of its traffic, with reasons

decision tree:
  an objective for the time between tokens?   interactive
  are answers read as they arrive?            latency
  is all work known in advance?               offline
  do total tokens per second matter most?     throughput
  none of these                               balanced

`dynamic` (whole batches) and `serial` (one request at a time) are chosen by name, never recommended.

Nothing is changed; `headway preset use NAME` switches. --url needs the admin token of the server.
exit codes: 0 done   2 wrong usage   3 not reachable   4 token missing or wrong
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add_url(parser, default=False)
    add_json(parser)
    aim = parser.add_mutually_exclusive_group()
    aim.add_argument("--latency-sensitive", action="store_true", help="answers are read as they arrive")
    aim.add_argument("--throughput", action="store_true", help="total tokens per second matter most")
    aim.add_argument("--offline", action="store_true", help="all work is known in advance; latency does not matter")
    parser.add_argument(
        "--inter-token-slo-ms", type=_milliseconds, metavar="MS", help="the objective for the time between tokens"
    )
    parser.add_argument(
        "--watch", type=seconds, default=5.0, metavar="S", help="how long to observe --url (default: 5)"
    )
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    """Print the recommendation."""
    needs = Needs(chosen.latency_sensitive, chosen.throughput, chosen.offline, chosen.inter_token_slo_ms)
    if needs == Needs() and not chosen.json and sys.stdin.isatty():
        needs = _ask()
    if chosen.url is None:
        found = recommend(needs)
    else:
        with connect(chosen.url, os.environ) as client:
            found = recommend(needs, watch(client, chosen.watch))
    print(json.dumps(asdict(found), ensure_ascii=False) if chosen.json else text(found))
    return 0


def text(found: Recommendation) -> str:
    """The recommendation as text."""
    lines = [f"{found.preset}\n  {found.because}"]
    if found.advice:
        lines.append("\nwhat the traffic suggests")
        lines += [f"  {one.do}\n    {one.because}" for one in found.advice]
    return "\n".join(lines)


def _ask() -> Needs:
    if _yes("Are answers read as they arrive?"):
        return Needs(latency=True)
    if _yes("Is all the work there at the start?"):
        return Needs(offline=True)
    return Needs(throughput=_yes("Are tokens a second what counts?"))


def _yes(question: str) -> bool:
    try:
        return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _milliseconds(text: str) -> float:
    try:
        value_ms = float(text)
    except ValueError:
        value_ms = -1.0
    if not 0 < value_ms <= 60_000:
        raise argparse.ArgumentTypeError(f"milliseconds from 0 to 60000 are needed, not {text!r}")
    return value_ms
