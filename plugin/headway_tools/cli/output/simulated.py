"""The output of a simulation: a table, JSON, a CSV file, or a page."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from headway_policies.units import compact
from headway_simulator.engine_model.capacity import Slo
from headway_simulator.report.charts import Chart, charts
from headway_simulator.report.class_slo import ClassSlo
from headway_simulator.report.engine_words import engine_words
from headway_simulator.report.page import NoPlotlyError, page, plotly_js
from headway_simulator.report.report import Comparison, as_csv, as_json, text_rows, text_table
from headway_simulator.studies.knee import RULE
from headway_simulator.studies.picture import text_timeline, timeline_chart
from headway_simulator.studies.timeline import timelines
from headway_simulator.studies.tuning import Point, knee, most_within
from headway_tools.console import UsageError, install_command, milliseconds, table, write_file


def show(chosen: argparse.Namespace, comparison: Comparison) -> int:
    """The table, and whichever files are asked for. Raises UsageError where one cannot be written."""
    if chosen.csv:
        write_file(chosen.csv, as_csv(comparison))
    if chosen.html:
        names = [run.name for run in comparison.runs]
        pictures = [*charts(comparison), timeline_chart(timelines())]
        _write_page(chosen.html, " and ".join(names), _facts(comparison), names, text_rows(comparison), pictures)
    if chosen.json:
        print(json.dumps(as_json(comparison), ensure_ascii=False))
    else:
        print("\n".join([*_facts(comparison), "", text_table(comparison)]))
        print("\n".join(["", *_explanations(comparison)]))
    return 0


def _facts(comparison: Comparison) -> list[str]:
    slo, classes = comparison.slo, comparison.class_names()
    told = f": first token within {milliseconds(slo.ttft_s)} ms, {milliseconds(slo.inter_token_s)} ms between tokens"
    judged = {name: objectives for name, objectives in comparison.judged.items() if name in classes}
    return [
        f"{comparison.workload}, seed {comparison.seed}",
        *engine_words(comparison.model),
        f"objectives for all alike{f', first token and between tokens: {_stated(judged)}' if judged else told}",
        *(f"  {run.name} states its own: {_stated(run.summary.own)}" for run in comparison.with_own),
        *(f"seats of {run.name}: {run.seats}" for run in comparison.runs if run.seats),
        *(
            f"{run.name}: a custom policy failed and was replaced by a built-in one ({run.summary.policy_failures})"
            for run in comparison.runs
            if run.summary.policy_failures
        ),
    ]


def _stated(own: Mapping[str, ClassSlo]) -> str:
    """The objectives of classes, first token and between tokens; a dash for one that is not stated."""
    return "; ".join(
        f"{name} {_ms(objectives.ttft_s)}, {_ms(objectives.inter_token_s)}" for name, objectives in own.items()
    )


def _ms(slo_s: float | None) -> str:
    return "-" if slo_s is None else f"{compact(round(1000 * slo_s, 1))} ms"


def _explanations(comparison: Comparison) -> list[str]:
    """The meaning of the table's rows."""
    lines = []
    if comparison.ceiling_per_s is not None:
        lines = [
            "goodput: requests completed within both objectives; the ceiling is the most that any policy could",
            f"reach on this engine ({comparison.ceiling_per_s:.2f}/s): beyond that load some requests must fail",
        ]
        if len({slo.inter_token_s for slo in comparison.judged.values()}) > 1:
            lines.append(
                f"the ceiling keeps {_ms(comparison.slo.inter_token_s)} between tokens, the shortest objective: a "
                "class with a longer one can pass it"
            )
        if comparison.model.variation is not None:
            lines.append("the ceiling, and the loads, are of the undisturbed engine")
        if comparison.with_own:
            lines += [
                "by its own objectives: of the preset for the class; longer objectives are easier to keep, so",
                "compare presets by goodput and by requests in time",
            ]
    if comparison.warmup_s:
        fills_s = f"{comparison.warmup_s:.15g}"
        lines.append(
            f"offered: requests after the first {fills_s} s, in which the engine fills; {comparison.arrivals} in all"
        )
    return [*lines, "triples: 50th / 95th / 99th percentile"]


def show_timeline(chosen: argparse.Namespace) -> int:
    """The timeline of the strategies."""
    drawn = timelines()
    if chosen.html:
        _write_page(chosen.html, "Static, dynamic, continuous", [], [], [], [timeline_chart(drawn)])
    print(json.dumps([asdict(timeline) for timeline in drawn]) if chosen.json else text_timeline(drawn))
    return 0


def show_sweep(chosen: argparse.Namespace, points: Sequence[Point], slo: Slo) -> int:
    """The curve of throughput and latency, and its knee as a preset."""
    best, bend = most_within(points, slo), knee(points)
    if chosen.json:
        bent = None if bend is None else bend.seats
        most = None if best is None else best.seats
        print(json.dumps({"points": [asdict(point) for point in points], "knee": bent, "most_within": most}))
        return 0
    head = ["seats", "tokens/s", "times one seat", "inter-token ms p50", "p95", "more than one seat, ms"]
    print(table(head, [_sweep_row(point, points[0]) for point in points], indent=""))
    print(f"\nThe knee: {'none' if bend is None else f'{bend.seats} seats'}, {RULE}.")
    objective = f"whose 95th percentile stays within {milliseconds(slo.inter_token_s)} ms"
    if best is None:
        print(f"No number of seats {objective}.".replace("whose", "has tokens whose"))
    else:
        print(f"The most seats {objective}: {best.seats}. As a preset:\n")
        print(f'[batching]\nseats = {best.seats}\n\n[limit]\npolicy = "fixed"')
    return 0


def _sweep_row(point: Point, alone: Point) -> list[object]:
    times_ms = [point.inter_token_p50_s * 1000, point.inter_token_p95_s * 1000]
    figures = [point.tokens_per_s, point.speedup, *times_ms, point.added_ms(alone)]
    return [point.seats, *(f"{figure:.1f}" for figure in figures)]


def need_plotly() -> None:
    """Raise UsageError where no page could be drawn."""
    try:
        plotly_js()
    except NoPlotlyError as error:
        raise UsageError(f"{error}; install it with: {install_command('tools')}") from None


def _write_page(
    path: str,
    names: str,
    facts: Sequence[str],
    head: Sequence[str],
    rows: Sequence[tuple[str, list[str]]],
    pictures: Sequence[Chart],
) -> None:
    write_file(path, page(f"Headway: {names}, simulated", facts, head, rows, pictures))
