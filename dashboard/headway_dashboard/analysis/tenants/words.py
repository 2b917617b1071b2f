"""Tenants in words, in a table and as CSV: their figures, and which was held back by which."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from headway.api.schema import UsageReport
from headway_dashboard.analysis.changes.audit_rows import formula_free
from headway_dashboard.analysis.server.fleet.columns import Cell, Heading
from headway_dashboard.analysis.tenants.fairness import OTHER, TenantUse
from headway_dashboard.analysis.units import MISSING, compact, counted, duration, written
from headway_policies.usage import SERVER

#: The name of the chosen tenant in the address.
TENANT = "tenant"
#: The most rows of a table; all are in the CSV file.
MOST_ROWS = 50
NO_NAME = "(no name)"
_WAITS_S = 0.5
_LESS, _MORE = 0.95, 1.05
_NAMED = 3
FAIR_HELP = (
    "The tokens of the tenant, of its max-min fair share: the tokens of all tenants, divided by weight, to none more "
    "than it asked for. A refused request counts with the tenant's mean size. 100 %: a fair share, or all it asked for."
)
JAIN_HELP = (
    "Jain's index of x, the tokens of each tenant over its fair share (the last column): (Σx)² / (n·Σx²). 1: each of n "
    "tenants had its fair share; 1/n: one had everything. A tenant that asks for little, and has it, counts as 1."
)
HEADINGS = (
    Heading("Tenant"),
    Heading("Tokens", "Of prompts and answers, of the requests that ended in the range.", numeric=True),
    Heading("Requests", "Requests that ended in the range.", numeric=True),
    Heading("Refused", "Refused, or given up for a time-out.", numeric=True),
    Heading("Seat time", "Time on seats, of all sequences.", numeric=True),
    Heading("Wait", "The mean time of its requests without a seat.", numeric=True),
    Heading("Share", "Of the tokens of all tenants.", numeric=True),
    Heading("Entitled", "Its weight (share in the keys file, else 1) over the weights of those listed.", numeric=True),
    Heading("Of fair share", FAIR_HELP, numeric=True),
)
_FIELDS = (
    "tenant", "tokens", "requests", "refused", "seat_s", "mean_wait_s", "share", "entitled", "of_fair_share",
)  # fmt: skip
NOTES = {SERVER: "The server's own work, such as a warm-up.", OTHER: "Tenants beyond those that are counted apart."}


def cells(use: TenantUse) -> list[Cell]:
    """The row of a tenant."""
    return [
        Cell(_named(use), use.name, NOTES.get(use.name, "")),
        Cell(compact(use.tokens), use.tokens),
        Cell(compact(use.requests), use.requests),
        Cell(compact(use.refused), use.refused),
        Cell(duration(use.seat_s), use.seat_s),
        Cell(duration(use.wait_s), use.wait_s),
        *(Cell(written(ratio, "ratio"), ratio) for ratio in (use.share, use.entitled, use.fair_ratio)),
    ]


def total_cells(report: UsageReport) -> list[Cell]:
    """The row of all tenants together."""
    whole = report.total
    texts = (
        "all", compact(whole.prompt_tokens + whole.output_tokens), compact(whole.requests), compact(whole.refused),
        duration(whole.seat_s), duration(whole.queue_s / max(1, whole.requests)), "", "", "",
    )  # fmt: skip
    return [Cell(text) for text in texts]


def rows_of_chosen(report: UsageReport) -> list[dict[str, str]]:
    """The parts of one tenant's use, the largest first."""
    ordered = sorted(report.rows, key=lambda row: -(row.prompt_tokens + row.output_tokens))
    return [
        {
            "Class": row.group["class"] or MISSING,
            "Key": row.group["key"] or MISSING,
            "Model": row.group["model"] or MISSING,
            "Ended": (row.group["reason"] or row.group["outcome"]).replace("_", " "),
            "Tokens": compact(row.prompt_tokens + row.output_tokens),
            "Requests": compact(row.requests),
            "Seat time": duration(row.seat_s),
            "Wait": duration(row.queue_s / max(1, row.requests)),
        }
        for row in ordered[:MOST_ROWS]
    ]


def hurt(uses: Iterable[TenantUse]) -> list[TenantUse]:
    """The tenants that were refused while they had less than a fair share, or had to wait below their entitlement; the
    worst first.
    """
    found = [use for use in uses if _refused(use) or _waits(use)]
    return sorted(found, key=lambda use: (not _refused(use), use.fair_ratio or 0.0, -use.wait_s))


def hurt_words(uses: Sequence[TenantUse], name: str | None = None) -> list[str]:
    """A sentence for each tenant that was held back, or for ``name`` alone, with the tenants that had more."""
    more = [use for use in uses if (use.fair_ratio or 0.0) > _MORE or (use.share or 0.0) > _MORE * (use.entitled or 1)]
    words = []
    for use in hurt(uses):
        others = sorted((other for other in more if other is not use), key=lambda other: -(other.share or 0.0))[:_NAMED]
        if name not in (None, use.name):
            continue
        what = f"waited {duration(use.wait_s)} on the mean"
        if _refused(use):
            what = f"had {use.refused} of {counted(use.requests, 'request', 'requests')} refused and {what}"
        had = ", ".join(f"{_named(other)} ({_of(other)})" for other in others)
        more_than = f" More than entitled to: {had}." if had else ""
        words.append(f"{_named(use)} {what}, with {_of(use)}.{more_than}")
    if not words:
        below = f"for over {duration(_WAITS_S)} below its entitlement"
        if name is None:
            return [f"No tenant was refused below a fair share, nor made to wait {below}."]
        return [f"{name or NO_NAME} was not refused below a fair share, nor made to wait {below}."]
    return words[:_NAMED]


def usage_csv(uses: Iterable[TenantUse]) -> str:
    """All tenants as CSV, in base units. No cell is a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(_FIELDS)
    for use in uses:
        ratios = ("" if ratio is None else f"{ratio:.6g}" for ratio in (use.share, use.entitled, use.fair_ratio))
        figures = (use.tokens, use.requests, use.refused, f"{use.seat_s:.6g}", f"{use.wait_s:.6g}")
        writer.writerow([formula_free(use.name), *figures, *ratios])
    return out.getvalue()


def tiles(uses: Sequence[TenantUse], index: float | None) -> Mapping[str, tuple[str, str]]:
    """The key figures of all tenants: the text and the help of each."""
    told = [use for use in uses if use.share is not None]
    return {
        "Tenants": (compact(len(told)), "Tenants that asked for anything in the range."),
        "Held back": (f"{len(hurt(uses))} of {len(told)}", "Refused below a fair share, or waited below their "
                      f"entitlement for over {duration(_WAITS_S)} on the mean."),
        "Jain's index": (MISSING if index is None else f"{index:.2f}", JAIN_HELP),
        "Largest share": (written(max((use.share or 0.0 for use in told), default=None), "ratio"),
                          "Of the tokens of all tenants."),
    }  # fmt: skip


def tiles_of_chosen(use: TenantUse) -> Mapping[str, tuple[str, str]]:
    """The key figures of one tenant."""
    row = {heading.title: (cell.text, heading.help) for heading, cell in zip(HEADINGS, cells(use), strict=True)}
    return {title: figure for title, figure in row.items() if title != "Tenant"}


def _refused(use: TenantUse) -> bool:
    """Whether a tenant was refused a part of its fair share; with a ratio of None the tenant had nothing at all."""
    return bool(use.refused) and use.entitled is not None and (use.fair_ratio or 0.0) < _LESS


def _waits(use: TenantUse) -> bool:
    return use.share is not None and use.share < _LESS * (use.entitled or 0.0) and use.wait_s > _WAITS_S


def _named(use: TenantUse) -> str:
    return use.name or NO_NAME


def _of(use: TenantUse) -> str:
    return f"{written(use.share, 'ratio')} of the tokens, entitled to {written(use.entitled, 'ratio')}"
