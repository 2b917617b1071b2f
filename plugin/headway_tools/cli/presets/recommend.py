"""``headway preset recommend``: names the preset that fits, and what would help a running server."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from functools import partial

from headway.api import Status
from headway_policies.preset import Needs, Recommendation, bundled_presets, recommend, seat_words
from headway_tools.cli.status import remedy_line
from headway_tools.console import add_json, add_url, connect, positive

SUMMARY = "Recommend a preset for your needs; with --url, also say what limits a running server and what would help."
EPILOG = """\
examples:
  headway preset recommend                          asks two questions (without a terminal: balanced)
  headway preset recommend --latency-sensitive      answers are read as they arrive
  headway preset recommend --inter-token-slo-ms 60  an objective for the time between tokens
  headway preset recommend --offline                a file of prompts, by tomorrow
  headway preset recommend --url http://127.0.0.1:8000
                                                    also what limits that server now, and what would help

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

_milliseconds = partial(positive, what="a number of milliseconds above 0 and up to 60000", most=60_000.1)


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser, default=False)
    add_json(parser)
    aim = parser.add_mutually_exclusive_group()
    aim.add_argument("--latency-sensitive", action="store_true", help="answers are read as they arrive")
    aim.add_argument("--throughput", action="store_true", help="total tokens per second matter most")
    aim.add_argument("--offline", action="store_true", help="all work is known in advance; latency does not matter")
    parser.add_argument(
        "--inter-token-slo-ms", type=_milliseconds, metavar="MS", help="the objective for the time between tokens"
    )
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    needs = Needs(chosen.latency_sensitive, chosen.throughput, chosen.offline, chosen.inter_token_slo_ms)
    if needs == Needs() and not chosen.json and sys.stdin.isatty():
        needs = _ask()
    found, status = recommend(needs), None
    if chosen.url is not None:
        with connect(chosen.url, os.environ) as client:
            status = client.status()
    print(json.dumps(_json(found, status), ensure_ascii=False) if chosen.json else text(found, status))
    return 0


def text(found: Recommendation, status: Status | None = None) -> str:
    """The recommendation as text, with the diagnosis of a server."""
    settings, ceiling = bundled_presets()[found.preset].settings(), None if status is None else status.limit.ceiling
    lines = [f"{found.preset}\n  {found.because}\n  seats: {seat_words(settings, ceiling)}"]
    if status is not None:
        lines.append(f"\nthe server, under {status.preset.name}")
        lines += [f"  {line}" for line in _server(status)]
    return "\n".join(lines)


def _server(status: Status) -> list[str]:
    diagnosis = status.diagnosis
    if diagnosis is None:
        return ["no diagnosis: the server is older than this command"]
    helps = [f"  {place}. {remedy_line(remedy)}" for place, remedy in enumerate(diagnosis.remedies, 1)]
    head = ["remedies, the best first:"] if helps else []
    return [f"{diagnosis.severity}: {diagnosis.statement}", *diagnosis.symptoms, *head, *helps]


def _json(found: Recommendation, status: Status | None) -> dict[str, object]:
    diagnosis = None if status is None or status.diagnosis is None else status.diagnosis.model_dump()
    return {**asdict(found), "diagnosis": diagnosis}


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
