"""The figures of ``headway bench --ramp``: a table with its knee and a curve, a page, JSON, and a CSV file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headway_simulator.report.page import page
from headway_simulator.studies.knee import RULE
from headway_tools.console import Exit, csv_text, table, write_file
from headway_tools.load.ramp import RampStep, knee
from headway_tools.tuning.curve import Curve, Point, curve_chart, text_curve

_HEAD = {
    "load": "load", "rate_per_s": "requests/s", "attained_ratio": "within objectives", "goodput_per_s": "goodput/s",
    "tokens_per_s": "tokens/s", "first_token_p50_ms": "first token, ms: p50", "first_token_p95_ms": "p95",
    "inter_token_p95_ms": "inter-token, ms: p95",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ramped:
    """A ramp on a server: what was offered, and the steps; ``full_per_s`` is the capacity that the loads multiply."""

    url: str
    model: str
    words: str
    seed: int
    full_per_s: float
    steps: Sequence[RampStep]


def show_ramp(chosen: argparse.Namespace, ramped: Ramped) -> int:
    """Print, write what is asked for, and return the exit code. Raises UsageError where a file cannot be written."""
    if chosen.csv:
        write_file(chosen.csv, csv_text([_row(step) for step in ramped.steps]))
    if chosen.html:
        write_file(chosen.html, _as_page(ramped))
    bend = knee(ramped.steps)
    if chosen.json:
        print(json.dumps(_as_json(ramped, bend), ensure_ascii=False))
    else:
        figures = table([*_HEAD.values()], [_cells(step) for step in ramped.steps], indent="")
        print("\n\n".join(["\n".join(_facts(ramped)), figures, text_curve(_curve(ramped.steps))]))
    if not ramped.steps[0].measured.all.completed:
        print(f"headway: error: {ramped.url}: no request of the first step was completed", file=sys.stderr)
        return Exit.FAILED
    return Exit.FAILED if any(step.measured.unanswered for step in ramped.steps) else Exit.OK


def _facts(ramped: Ramped) -> list[str]:
    return [
        f"{ramped.url}, model {ramped.model}: {ramped.words}, seed {ramped.seed}",
        f"open loops at multiples of {ramped.full_per_s:.2f} requests/s",
        _verdict(knee(ramped.steps)),
    ]


def _verdict(bend: RampStep | None) -> str:
    if bend is None:
        return "no knee: the latency has not turned, or the load brought no more tokens/s"
    latency_ms = 1000 * (bend.first_token_p95_s or 0.0)
    return (
        f"the knee is at {bend.load:g} of it, {bend.rate_per_s:.2f} requests/s: {bend.tokens_per_s:.0f} tokens/s, "
        f"first token within {latency_ms:.0f} ms for 95 %; {RULE}"
    )


def _cells(step: RampStep) -> list[str]:
    row = _row(step)
    found: dict[str, str | float | None] = {**row, "attained_ratio": f"{row['attained_ratio']:.1%}"}
    return [cell if isinstance(cell, str) else "-" if cell is None else f"{cell:.4g}" for cell in map(found.get, _HEAD)]


def _as_json(ramped: Ramped, bend: RampStep | None) -> Mapping[str, object]:
    return {
        "server": ramped.url,
        "model": ramped.model,
        "workload": ramped.words,
        "seed": ramped.seed,
        "capacity_per_s": ramped.full_per_s,
        "steps": [_row(step) for step in ramped.steps],
        "knee": None if bend is None else _row(bend),
    }


def _as_page(ramped: Ramped) -> str:
    rows = [(f"{step.load:g} of the capacity", _cells(step)[1:]) for step in ramped.steps]
    chart = curve_chart(_curve(ramped.steps))
    return page(f"Headway: a ramp on {ramped.model}", _facts(ramped), [*_HEAD.values()][1:], rows, [chart])


def _curve(steps: Sequence[RampStep]) -> Curve:
    bend = knee(steps)
    timed = [(1000 * step.first_token_p95_s, step) for step in steps if step.first_token_p95_s is not None]
    points = [Point(latency_ms, step.tokens_per_s, f"{step.load:g}", step is bend) for latency_ms, step in timed]
    return Curve(points, "times the capacity", "ms to the first token (p95)")


def _row(step: RampStep) -> dict[str, float | None]:
    """The figures of a step; milliseconds are None where nothing was measured."""
    whole, span_s = step.measured.all, step.measured.span_s
    times = {
        "first_token_p50_ms": whole.ttft.quantile(0.5),
        "first_token_p95_ms": whole.ttft.quantile(0.95),
        "inter_token_p95_ms": whole.inter_token.quantile(0.95),
    }
    return {
        "load": step.load,
        "rate_per_s": step.rate_per_s,
        "offered": whole.offered,
        "completed": whole.completed,
        "unanswered": step.measured.unanswered,
        "attained_ratio": whole.attained_ratio,
        "goodput_per_s": whole.good / span_s,
        "tokens_per_s": step.tokens_per_s,
        **{name: None if value_s is None else 1000 * value_s for name, value_s in times.items()},
    }
