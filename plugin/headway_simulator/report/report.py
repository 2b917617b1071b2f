"""The report of a comparison: a text table, rows of a CSV file, JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from headway_simulator.engine_model.capacity import Slo
from headway_simulator.engine_model.engine import EngineModel
from headway_simulator.report.class_slo import ClassSlo
from headway_simulator.report.engine_words import engine_table
from headway_simulator.report.summary import ALL, ClassSummary, Spread, Summary
from headway_simulator.run.result import Result

Cell = str | int | float | None
ClassRow = tuple[str, Callable[[ClassSummary], str]]


@dataclass(frozen=True, slots=True)
class Run:
    """An arm: its result and its figures. ``limited`` says whether a desk stood before the engine, ``seats`` in words
    where its limit starts, and how far it reaches.
    """

    name: str
    result: Result
    summary: Summary
    limited: bool = True
    seats: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Several arms served the same requests, judged by ``slo``, a class in ``judged`` by what stands there.
    ``ceiling_per_s`` (requests) is what no policy could pass for long; ``arrivals`` requests arrived, and those of the
    first ``warmup_s`` are in no figure.
    """

    workload: str
    seed: int
    model: EngineModel
    slo: Slo
    judged: Mapping[str, ClassSlo]
    runs: Sequence[Run]
    ceiling_per_s: float | None
    arrivals: int
    warmup_s: float

    @property
    def with_own(self) -> list[Run]:
        """The runs whose preset states other objectives than those by which all are judged."""
        return [run for run in self.runs if any(self.judged.get(name) != slo for name, slo in run.summary.own.items())]

    def class_names(self) -> list[str]:
        """All classes of all runs, the sum first."""
        return list(dict.fromkeys(name for run in self.runs for name in run.summary.classes))


def text_table(comparison: Comparison) -> str:
    """The rows under each other, cells to the right."""
    rows = [("", [run.name for run in comparison.runs]), *text_rows(comparison)]
    label_width = max(len(label) for label, _ in rows)
    widths = [max(map(len, column)) for column in zip(*(cells for _, cells in rows if cells), strict=True)]
    lines = []
    for label, cells in rows:
        row = [cell.rjust(width) for cell, width in zip(cells, widths, strict=False)]
        lines.append("   ".join([label.ljust(label_width), *row]).rstrip())
    return "\n".join(lines)


def text_rows(comparison: Comparison) -> list[tuple[str, list[str]]]:
    """The table: a label and one cell for each run; a row with no cells is a heading.

    For a closed batch no row says what was in time.
    """
    runs = comparison.runs
    rows: list[tuple[str, list[str]]] = [
        (label, [show(run.summary) for run in runs]) for label, show in _whole(comparison)
    ]
    names = comparison.class_names()
    for name in names if len(names) > 2 else names[:1]:
        rows.append(("every class" if name == ALL else f"class {name}", []))
        parts = [run.summary.classes.get(name) for run in runs]
        for label, show in _class_rows(comparison):
            rows.append((f"  {label}", ["-" if part is None else show(part) for part in parts]))
        for reason in sorted({reason for part in parts if part is not None for reason in part.refused}):
            counts = [0 if part is None else part.refused.get(reason, 0) for part in parts]
            rows.append((f"  refused, {reason}", [str(count) for count in counts]))
    return rows


def _whole(comparison: Comparison) -> list[tuple[str, Callable[[Summary], str]]]:
    top_per_s, first = comparison.ceiling_per_s, comparison.runs[0].summary
    rows: list[tuple[str, Callable[[Summary], str]]] = []
    if top_per_s is not None:
        rows += [
            ("goodput, requests/s", lambda summary: f"{summary.all.goodput_per_s:.2f}"),
            ("  of the ceiling", lambda summary: _percent(summary.all.goodput_per_s / top_per_s)),
            ("goodput, tokens/s", lambda summary: f"{summary.all.good_tokens_per_s:.0f}"),
        ]
    rows.append(("output, tokens/s", lambda summary: f"{summary.tokens_per_s:.0f}"))
    if len(comparison.runs) > 1 and first.tokens_per_s:
        rows.append(("  times the first", lambda summary: f"{summary.tokens_per_s / first.tokens_per_s:.2f}"))
    rows += [
        ("completed, requests/s", lambda summary: f"{summary.requests_per_s:.2f}"),
        ("mean batch", lambda summary: f"{summary.mean_batch:.1f}"),
        ("engine busy", lambda summary: _percent(summary.utilisation_ratio)),
        ("preemptions", lambda summary: str(summary.preemptions)),
    ]
    if any(visit.request.tenant for run in comparison.runs for visit in run.result.visits[:100]):
        rows.append(("fairness (Jain)", lambda summary: f"{summary.jain:.3f}"))
    return rows


def _class_rows(comparison: Comparison) -> list[ClassRow]:
    rows: list[ClassRow] = [("offered", lambda figures: str(figures.offered))]
    if comparison.ceiling_per_s is not None:
        rows += _IN_TIME
        if comparison.with_own:
            rows += _BY_OWN
    return [*rows, *_TIMES]


_TIMES: tuple[ClassRow, ...] = (
    ("first token, ms", lambda figures: spread_ms(figures.ttft)),
    ("inter-token, ms", lambda figures: spread_ms(figures.inter_token)),
    ("wait, ms", lambda figures: spread_ms(figures.wait)),
    ("end to end, mean s", lambda figures: _number(figures.end_to_end.mean_s)),
)


_IN_TIME: tuple[ClassRow, ...] = (
    ("in time, of offered", lambda figures: _percent(figures.attained_ratio)),
    ("in time, of admitted", lambda figures: _percent(figures.attained_of_admitted_ratio)),
)
_BY_OWN: tuple[ClassRow, ...] = (
    ("by its own objectives, of offered", lambda figures: _percent(figures.own_attained_ratio)),
    ("by its own objectives, of admitted", lambda figures: _percent(figures.own_attained_of_admitted_ratio)),
)


def flat_rows(comparison: Comparison) -> list[dict[str, Cell]]:
    """The rows of each run and class, all figures with their units in the name."""
    return [
        {**_flat_whole(run.summary), **_flat_class(summary)}
        for run in comparison.runs
        for summary in run.summary.classes.values()
    ]


def _flat_whole(summary: Summary) -> dict[str, Cell]:
    return {
        "preset": summary.name,
        "span_s": summary.span_s,
        "tokens_per_s": summary.tokens_per_s,
        "requests_per_s": summary.requests_per_s,
        "mean_batch": summary.mean_batch,
        "utilisation_ratio": summary.utilisation_ratio,
        "preemptions": summary.preemptions,
        "jain": summary.jain,
        "policy_failures": summary.policy_failures,
    }


def _flat_class(summary: ClassSummary) -> dict[str, Cell]:
    row: dict[str, Cell] = {
        "class": summary.name,
        "offered": summary.offered,
        "admitted": summary.admitted,
        "completed": summary.completed,
        "good": summary.good,
        "goodput_per_s": summary.goodput_per_s,
        "good_tokens_per_s": summary.good_tokens_per_s,
        "attained_ratio": summary.attained_ratio,
        "attained_of_admitted_ratio": summary.attained_of_admitted_ratio,
        "own_attained_ratio": summary.own_attained_ratio,
        "own_attained_of_admitted_ratio": summary.own_attained_of_admitted_ratio,
    }
    for name in ("ttft", "inter_token", "wait", "end_to_end"):
        for part, value_s in asdict(getattr(summary, name)).items():
            row[f"{name}_{part.removesuffix('_s')}_ms"] = None if value_s is None else value_s * 1000
    row["refused"] = "; ".join(f"{reason}={count}" for reason, count in summary.refused.items())
    return row


def as_csv(comparison: Comparison) -> str:
    """The flat rows as CSV text; figures rounded to six significant digits."""
    out = io.StringIO()
    rows = flat_rows(comparison)
    writer = csv.DictWriter(out, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(
        {key: f"{cell:.6g}" if isinstance(cell, float) else cell for key, cell in row.items()} for row in rows
    )
    return out.getvalue()


def as_json(comparison: Comparison) -> dict[str, object]:
    """The report without the single visits."""
    return {
        "workload": comparison.workload,
        "seed": comparison.seed,
        "model": engine_table(comparison.model),
        "slo": asdict(comparison.slo),
        "slo_by_class": {name: asdict(slo) for name, slo in comparison.judged.items()},
        "ceiling_per_s": comparison.ceiling_per_s,
        "runs": [asdict(run.summary) for run in comparison.runs],
    }


def _percent(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.1%}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def spread_ms(spread: Spread) -> str:
    """The percentiles in whole milliseconds; a dash where nothing was measured."""
    cells = (spread.p50_s, spread.p95_s, spread.p99_s)
    return " / ".join("-" if value is None else f"{value * 1000:.0f}" for value in cells)
