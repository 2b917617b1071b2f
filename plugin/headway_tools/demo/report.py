"""The summary of a demo run as text, or as JSON for scripts."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from headway_tools.console import table
from headway_tools.demo.overload.report import overload_lines, whole_ms
from headway_tools.demo.summary import Check, ClassFigures, Summary


def text(summary: Summary, checked: Sequence[Check]) -> str:
    """The summary as a person reads it."""
    mean = "-" if summary.mean_batch is None else f"{summary.mean_batch:.1f} sequences in an engine step"
    before, after = summary.before, summary.after
    head = ["class", "sent", "ended", "TTFT p50 ms", "TTFT p95 ms"]
    rows = [
        [
            figures.class_name,
            figures.sent,
            _endings(figures),
            whole_ms(figures.ttft_p50_s),
            whole_ms(figures.ttft_p95_s),
        ]
        for figures in summary.classes
    ]
    refusals = [
        f"  {figures.class_name}: {why} {count}" for figures in summary.classes for why, count in figures.why.items()
    ]
    return "\n".join(
        [
            f"Summary of {summary.length_s:.0f} s",
            table(head, rows),
            *refusals,
            f"  output      {summary.output_tokens_per_s:.1f} tokens/s",
            f"  mean batch  {mean}",
            f"  preset      {before.name} (revision {before.revision}, {before.limit} seats) -> "
            f"{after.name} (revision {after.revision}, {after.limit} seats)",
            *([] if summary.overload is None else overload_lines(summary.overload)),
            *(f"  {'ok    ' if check.held else 'FAILED'}  {check.promise}{_detail(check)}" for check in checked),
        ]
    )


def as_json(summary: Summary, checked: Sequence[Check]) -> str:
    """The summary and the checks as one JSON object."""
    return json.dumps(
        dataclasses.asdict(summary)
        | {"checks": [dataclasses.asdict(check) for check in checked], "ok": all(check.held for check in checked)}
    )


def _endings(figures: ClassFigures) -> str:
    """The ends of the requests of a class; requests that had not ended when the run was interrupted are open."""
    seen = [f"{ending} {count}" for ending, count in sorted(figures.endings.items())]
    unfinished = figures.sent - sum(figures.endings.values())
    return ", ".join([*seen, *([f"open {unfinished}"] if unfinished > 0 else [])]) or "-"


def _detail(check: Check) -> str:
    return f": {check.detail}" if check.detail else ""
