"""``headway traffic``: what arrived at a server in the last half hour, and the same as a trace file."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from headway.api import AdminClient, Traffic
from headway.api.schema import ClassTraffic, Lengths
from headway_policies.units import duration
from headway_tools.console import Exit, FailedError, UsageError, add_url, connect, table

NAME = "traffic"
SUMMARY = "Show the arrivals at a server in the last half hour, or write them as a trace."
EPILOG = """\
examples:
  headway traffic
  headway traffic --export monday.csv
  headway simulate --trace monday.csv --preset balanced --preset throughput      the effect of another preset

A trace has the time, class, tenant (as a number) and lengths of each valid request, also of refused requests; no text
and no ids. The length of an incomplete answer is left empty.
Needs the admin token of the server (HEADWAY_ADMIN_TOKEN or HEADWAY_ADMIN_TOKEN_FILE).
exit codes: 0 done   1 the file cannot be written   2 bad usage   3 not reachable   4 token missing or wrong
"""


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="print JSON instead of text")
    how.add_argument("--export", metavar="FILE", help="write a trace that `headway simulate --trace` reads")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    if chosen.export is not None and not Path(chosen.export).absolute().parent.is_dir():
        raise UsageError(f"{chosen.export}: cannot be written: no such folder")
    with connect(chosen.url, os.environ) as client:
        if chosen.export is not None:
            _export(client, Path(chosen.export))
        else:
            found = client.traffic()
            print(found.model_dump_json() if chosen.json else text(found))
    return Exit.OK


def _export(client: AdminClient, path: Path) -> None:
    trace = client.trace()
    try:
        path.write_bytes(trace)
    except OSError as error:
        raise FailedError(f"{path}: cannot be written: {error.strerror}") from None
    requests = trace.count(b"\n") - 1
    print(f"{path}: {requests} requests")


def text(traffic: Traffic) -> str:
    """The traffic as text."""
    if not traffic.requests:
        return "no request has arrived in the last half hour"
    bursts = [
        f"gaps cv {traffic.gap_cv:.2f} (1: random arrivals, more: bursts)" if traffic.gap_cv is not None else "",
        f"busiest ten seconds {traffic.peak_ratio:.1f} times the mean" if traffic.peak_ratio is not None else "",
    ]
    lines = [
        f"{traffic.requests} requests in {duration(traffic.span_s)}: {traffic.rate_per_s:.3g} a second"
        + ("" if traffic.whole else "; there were more, the oldest are dropped"),
        "; ".join(burst for burst in bursts if burst),
    ]
    if traffic.tenants > 1:
        lines.append(f"{traffic.tenants} tenants, the busiest with {traffic.largest_tenant_ratio or 0:.0%} of them")
    head = ["class", "requests", "a second", "sequences", "prompt tokens", "answer tokens"]
    ranked = sorted(traffic.classes.items(), key=lambda figures: -figures[1].requests)
    rows = [_row(name, figures) for name, figures in ranked]
    note = "tokens of a sequence: mean, p50 / p95 / p99; of the answers those that were completed"
    return "\n".join([*filter(None, lines), "", table(head, rows, indent=""), "", note])


def _row(name: str, figures: ClassTraffic) -> list[str]:
    return [
        name,
        str(figures.requests),
        f"{figures.rate_per_s:.3g}",
        f"{figures.sequences:.3g}",
        _lengths(figures.prompt_tokens),
        _lengths(figures.output_tokens),
    ]


def _lengths(lengths: Lengths | None) -> str:
    return "-" if lengths is None else f"{lengths.mean:.0f}, {lengths.p50} / {lengths.p95} / {lengths.p99}"
