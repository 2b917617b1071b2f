"""The bundled presets on a family of engines, beside each engine alone: ``make bench-engines``.

Every continuous preset but ``serial``, on every engine of the family, at loads from 0.3 to 2.5 times the fluid ceiling
of that engine, with four workloads; nothing is tuned and nothing is known of an engine before the run. The judge and
its goals: ``tests/support/engine_judge.py``; the same judge takes random engines in ``scenarios/test_any_engine.py``.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from accepted import ENGINES
from engine_family import FAMILY
from engine_judge import Cell, Judge
from engines_picture import picture
from report import put_into, table

from headway_policies import bundled_presets
from headway_tools.console import Bar

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[2] / "deploy/site/docs/measured/index.md"
PRESETS = ("balanced", "interactive", "latency", "throughput")
LOADS = (0.3, 0.5, 0.9, 1.5, 2.5)
WORKLOADS = ("W1", "W2", "W3", "W8")
_FIGURE = re.compile(r"\d+\.\d+")
_ORDER = ("kept: ", "served: ")  # two classes, the more urgent one first


@dataclass(frozen=True, slots=True)
class Place:
    """Where a cell is: engine, workload, preset and load."""

    engine: str
    workload: str
    preset: str
    load: float

    def __str__(self) -> str:
        return f"{self.engine}, {self.workload}, {self.preset} at {self.load:g}"


Cells = dict[Place, Cell]


def main(words: Sequence[str]) -> int:
    """Measure, print, and exit with 1 where ``--strict`` finds a miss that is not accepted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", nargs="+", choices=FAMILY, default=list(FAMILY), metavar="NAME")
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="W")
    parser.add_argument("--seeds", type=int, default=2, help="runs of each cell (default: 2)")
    parser.add_argument("--requests", type=int, default=1500, help="about how many in each run (default: 1500)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 for a miss that is not accepted")
    parser.add_argument("--write", action="store_true", help="write the table and the picture of the documentation")
    chosen = parser.parse_args(words)
    cells = measured(chosen.engines, chosen.workloads, tuple(range(1, chosen.seeds + 1)), chosen.requests)
    misses = list(missed(cells))
    text = "\n\n".join([summary_table(cells), *verdicts(cells, misses)])
    print(text)
    if chosen.write:
        (RESULTS / "engines.md").write_text(f"{text}\n\n{whole_table(cells)}\n", encoding="utf-8")
        (RESULTS / "engines.svg").write_text(picture(curves(cells)), encoding="utf-8")
        PAGE.write_text(put_into(PAGE.read_text(encoding="utf-8"), summary_table(cells), "engines"), encoding="utf-8")
    return 1 if chosen.strict and any(not reason for _, _, reason in misses) else 0


def measured(engines: Sequence[str], workloads: Sequence[str], seeds: tuple[int, ...], requests: int) -> Cells:
    """All cells, on as many processes as there are cores."""
    jobs = [(engine, workload) for engine in engines for workload in workloads]
    cells: Cells = {}
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool, Bar(sys.stderr) as bar:
        waiting = {pool.submit(_cells_of, *job, seeds, requests): job for job in jobs}
        for done, future in enumerate(as_completed(waiting), start=1):
            cells |= future.result()
            bar.show(" ".join(waiting[future]), done / len(jobs))
    return dict(sorted(cells.items(), key=lambda one: (jobs.index((one[0].engine, one[0].workload)), one[0].load)))


def _cells_of(engine: str, workload: str, seeds: tuple[int, ...], requests: int) -> Cells:
    """Every preset and load on one engine, with one workload."""
    judge, presets = Judge(FAMILY[engine], requests), bundled_presets()
    return {
        Place(engine, workload, name, load): judge.cell(presets[name], workload, load, seeds)
        for name in PRESETS
        for load in LOADS
    }


def missed(cells: Mapping[Place, Cell]) -> Iterator[tuple[Place, str, str]]:
    """Every missed goal: where, what, and the reason for which it is accepted; empty where it is not."""
    for place, cell in cells.items():
        for goal in cell.missed():
            yield place, goal, _reason(place, goal)


def _reason(place: Place, goal: str) -> str:
    """The reason for which a miss is accepted: of its workload and kind, no worse than the figure that was accepted."""
    for (workload, kind), (bound, reason) in ENGINES.items():
        if workload == place.workload and goal.startswith(kind):
            figures = [float(one) for one in _FIGURE.findall(goal)]
            if kind in _ORDER:
                worse = round(figures[1] - figures[0], 2) > bound
            else:
                worse = figures[0] > bound if kind.startswith("first token") else figures[0] < bound
            return "" if worse else reason
    return ""


def verdicts(cells: Mapping[Place, Cell], misses: Sequence[tuple[Place, str, str]]) -> list[str]:
    """What is missed, by the reasons, and what is missed without one."""
    places = {place for place, _, _ in misses}
    lines = [f"{len(cells) - len(places)} of {len(cells)} cells reach every goal."]
    for reason in dict.fromkeys(reason for _, _, reason in misses if reason):
        own = [f"{place}: {goal}" for place, goal, why in misses if why == reason]
        lines.append(f"Missed: {reason} ({len(own)}):\n\n" + "\n".join(f"- {line}" for line in own))
    left = [f"- {place}: {goal}" for place, goal, reason in misses if not reason]
    if left:
        lines.append("Missed, and not accepted:\n\n" + "\n".join(left))
    return lines


def summary_table(cells: Mapping[Place, Cell]) -> str:
    """For the page: W1 on every engine under the default preset, and the tokens of ``throughput``."""
    engines = list(dict.fromkeys(place.engine for place in cells))
    rows = [[engine, *_figures(cells, engine)] for engine in engines if Place(engine, "W1", "balanced", 0.5) in cells]
    heads = [
        "engine",
        "`balanced`, goodput of vLLM alone at 0.5 / 0.9",
        "goodput of the ceiling at 1.5 / 2.5",
        "vLLM alone",
        "realtime kept at 2.5",
        "`throughput`, tokens of vLLM alone at 2.5",
    ]
    return table(heads, rows)


def _figures(cells: Mapping[Place, Cell], engine: str) -> list[str]:
    def at(load: float, preset: str = "balanced") -> Cell:
        return cells[Place(engine, "W1", preset, load)]

    below = [one.own.goodput_per_s / one.alone.goodput_per_s for one in (at(0.5), at(0.9))]
    above = [one.own.goodput_per_s / one.ceiling_per_s for one in (at(1.5), at(2.5))]
    alone = [one.alone.goodput_per_s / one.ceiling_per_s for one in (at(1.5), at(2.5))]
    tokens = at(2.5, "throughput")
    return [
        " / ".join(f"{one:.2f}" for one in below),
        " / ".join(f"{one:.2f}" for one in above),
        " / ".join(f"{one:.2f}" for one in alone),
        f"{at(2.5).own.attained['realtime']:.2f}",
        f"{tokens.own.tokens_per_s / tokens.alone.tokens_per_s:.2f}",
    ]


def whole_table(cells: Mapping[Place, Cell]) -> str:
    """Every cell."""
    heads = ["cell", "goodput of vLLM alone", "of the ceiling", "tokens of vLLM alone", "within objectives", "served"]
    return table(heads, [[str(place), *_row(cell)] for place, cell in cells.items()])


def _row(cell: Cell) -> list[str]:
    own, alone = cell.own, cell.alone
    good = f"{own.goodput_per_s / alone.goodput_per_s:.2f}" if alone.goodput_per_s else "-"
    return [
        good,
        f"{own.goodput_per_s / cell.ceiling_per_s:.2f}",
        f"{own.tokens_per_s / max(alone.tokens_per_s, 1e-9):.2f}",
        ", ".join(f"{name} {share:.2f}" for name, share in own.attained.items()),
        ", ".join(f"{name} {share:.2f}" for name, share in own.served.items()),
    ]


def curves(cells: Mapping[Place, Cell]) -> dict[str, list[tuple[float, float, float]]]:
    """By engine: load, goodput of the ceiling under ``balanced``, and of the engine alone, with W1."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for place, cell in cells.items():
        if place.workload == "W1" and place.preset == "balanced":
            most = cell.ceiling_per_s
            point = place.load, cell.own.goodput_per_s / most, cell.alone.goodput_per_s / most
            found.setdefault(place.engine, []).append(point)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
