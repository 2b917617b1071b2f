"""``headway usage``: what tenants, keys, classes and models have used, from the accounting of a server."""

from __future__ import annotations

import argparse
import os
import sys
import time

from headway.api.budget_ends import ends, rate_per_s
from headway.api.schema import UsageReport, UsageRow
from headway_policies.units import duration
from headway_tools.console import Exit, add_json, add_url, connect, table

NAME = "usage"
SUMMARY = "Show what tenants, keys, classes and models have used: tokens, seats, time in the queue, costs."
EPILOG = """\
examples:
  headway usage                                     each tenant, in the last day
  headway usage --since 30d --by tenant,model       and model
  headway usage --tenant acme --every hour          one tenant, hour by hour (in UTC)
  headway usage --by reason --since 1h              what was refused, and why
  headway usage --since 2026-10-01T00:00:00Z --until 2026-11-01T00:00:00Z --csv > october.csv

The server counts where it was started with HEADWAY_USAGE_DB. A range begins and ends with a whole minute, beyond two
days with a whole hour, beyond sixty with a whole day, and earlier where so many tenants come that shorter periods are
not kept so long. Needs the admin token of the server, or the viewer's.
exit codes: 0 done   1 not counted, or not readable   2 bad usage   3 not reachable   4 token missing or wrong
"""
_GIVEN = ("since", "until", "by", "every", "tenant")


def configure(parser: argparse.ArgumentParser) -> None:
    add_url(parser)
    time = "a time with a zone, or so long ago, such as 30m, 12h or 7d"
    parser.add_argument("--since", metavar="T", help=f"{time} (default: 1d)")
    parser.add_argument("--until", metavar="T", help="the same (default: now)")
    parser.add_argument("--tenant", metavar="T", help="this tenant alone")
    words = "some of tenant, key, class, model, adapter, outcome, reason, with commas (default: tenant)"
    parser.add_argument("--by", metavar="GROUPS", help=words)
    parser.add_argument("--every", choices=("minute", "hour", "day"), help="a row for each value of these fields")
    how = parser.add_mutually_exclusive_group()
    add_json(how)
    how.add_argument("--csv", action="store_true", help="print CSV instead of text")
    parser.set_defaults(run=run)


def run(chosen: argparse.Namespace) -> int:
    asked = {name: value for name in _GIVEN if (value := getattr(chosen, name)) is not None}
    with connect(chosen.url, os.environ) as client:
        if chosen.csv:
            sys.stdout.write(client.usage_csv(**asked).decode())
        else:
            found = client.usage(**asked)
            print(found.model_dump_json() if chosen.json else text(found, chosen.tenant))
    return Exit.OK


def text(usage: UsageReport, tenant: str | None = None) -> str:
    """The figures as text, of all tenants or of the chosen tenant."""
    lines = [f"from {usage.since} until {usage.until}"]
    if usage.kept_since is not None and usage.kept_since > usage.since:
        lines.append(f"nothing is kept from before {usage.kept_since}")
    if usage.lost:
        lines.append(f"{usage.lost} requests could not be counted, since the server started")
    if usage.waiting:
        lines.append(f"{usage.waiting} requests are not written yet")
    budgets = _budgets(usage, tenant)
    if not usage.rows:
        return "\n".join([*lines, "no request has ended in this time", *budgets])
    timed, priced = any(row.start is not None for row in usage.rows), usage.currency is not None
    head = [
        *(["start"] if timed else []), *usage.by, "requests", "refused", "prompt", "cached", "output", "seats",
        "KV tokens", "queue", *([f"cost {usage.currency}".strip()] if priced else []),
    ]  # fmt: skip
    rows = [
        [*([row.start] if timed else []), *(row.group[name] or "-" for name in usage.by), *_cells(row, priced=priced)]
        for row in usage.rows
    ]
    if len(rows) > 1 and len(head) > len(_cells(usage.total, priced=priced)):
        blank = [""] * (len(head) - len(_cells(usage.total, priced=priced)) - 1)
        rows.append(["all", *blank, *_cells(usage.total, priced=priced)])
    note = "tokens of prompts, of those cached, and of answers; seats and queue: time in all; KV tokens: times seconds"
    return "\n".join([*lines, "", table(head, rows, indent=""), "", note, *budgets])


def _budgets(usage: UsageReport, tenant: str | None) -> list[str]:
    """The budgets: what is used of each bound, what requests in progress hold, and when it ends at the range's rate."""
    cells = []
    for row in usage.budgets:
        per_s = rate_per_s(usage, row, tenant)
        cells.append(
            [row.owner, row.bound, f"{row.used:,.0f}", f"{row.held:,.0f}", f"{row.limit:,.0f}",
             f"{(row.used + row.held) / row.limit:.0%}", row.resets or "-",
             "-" if per_s is None else f"{per_s * 3600:,.0f}", ends(row, per_s, time.time()) or "-"]
        )  # fmt: skip
    head = ["budget of", "bound", "used", "in progress", "limit", "taken", "counts anew", "an hour", "ends at that"]
    return ["", table(head, cells, indent="")] if cells else []


def _cells(row: UsageRow, *, priced: bool) -> list[str]:
    cost = "-" if row.cost is None else f"{row.cost:.4f}"
    return [
        str(row.requests), str(row.refused), str(row.prompt_tokens), str(row.cached_tokens), str(row.output_tokens),
        duration(row.seat_s), f"{row.kv_token_s:.0f}", duration(row.queue_s), *([cost] if priced else []),
    ]  # fmt: skip
