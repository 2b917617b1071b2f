"""``make bench``: Headway and plain vLLM side by side on the real engine, with the same arrivals.

The default preset as it comes, beside vLLM as it comes and with caps, at 0.5, 0.9, 1.5 and 2.5 times what the engine
can serve, and once while two other programs take the processors for 40 s. About a quarter of an hour on two cores, with
SmolLM2-135M, more where other programs disturb it. ``--long`` adds other arms and loads, a changing mix, tenants,
bursts and a recorded trace, takes about ten hours, and goes on where it was stopped. ``--only step`` is a run of its
own: the step policy, with long prompts. The results are kept in tests/benchmarks/results; the charts and the tables of
the documentation are drawn from them.

    bench.py --only spinning                          one part of the short run
    bench.py --only W1 --loads 1.5 --once             one load, and nothing again that was disturbed
    bench.py --only step                              what goes into one step, beside vLLM's own fixed steps, 13 minutes
    bench.py --long --only W3 W6 --rounds 1           some parts of the long run, fewer rounds
    bench.py --long --only trace --trace day.csv      the arrivals of a recorded day, lengths divided by 8
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import replace
from pathlib import Path

from serving import velocity
from serving.client import prepare
from serving.form import LONG, SHORT, STEP, Form
from serving.machine import describe
from serving.report import report, write_into
from serving.results import Results
from serving.run import Run
from serving.step_report import CHART as STEP_CHART
from serving.step_report import step_report

from headway_simulator import TraceError, read_trace
from headway_tools.console import Bar

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).resolve().parent / "results"
MODEL = ROOT / ".models" / "SmolLM2-135M-Instruct"
_STEP = "step"
_PARTS = list(dict.fromkeys(one.workload for one in (*SHORT.parts, *LONG.parts)))
_TITLES = {False: "The short run of `make bench`", True: "The long run of `make bench`"}


def main(words: list[str]) -> int:
    """0; with ``--strict`` 1 where a goal is missed that is not listed as accepted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="all arms and loads; goes on where it was stopped")
    parser.add_argument("--only", nargs="+", choices=[*_PARTS, _STEP], metavar="PART",
                        help=f"these alone: {', '.join(_PARTS)}; or {_STEP}, by itself")  # fmt: skip
    parser.add_argument("--loads", nargs="+", type=float, metavar="LOAD", help="these loads alone")
    parser.add_argument("--arms", nargs="+", metavar="ARM", help="these arms alone, without a grid of caps")
    parser.add_argument("--rounds", type=int, metavar="N", help="fewer rounds, or more")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="of --long: a trace as `headway simulate` reads it")
    parser.add_argument("--once", action="store_true", help="play nothing again that other programs disturbed")
    parser.add_argument("--fresh", action="store_true", help="forget what a stopped run has measured")
    parser.add_argument("--model", type=Path, default=MODEL, metavar="DIR", help="another model's folder")
    parser.add_argument("--results", type=Path, metavar="FILE", help="where the results are kept")
    parser.add_argument("--report", action="store_true", help="measure nothing: only the report of the results")
    parser.add_argument(
        "--write",
        action="store_true",
        help="write the tables into deploy/site/docs/measured/index.md and beside the results",
    )
    parser.add_argument("--strict", action="store_true", help="exit code 1 where a goal is missed that is not accepted")
    chosen = parser.parse_args(words)
    try:
        trace = None if chosen.trace is None else read_trace(chosen.trace)
    except TraceError as error:
        parser.error(str(error))
    step = chosen.only == [_STEP]
    if not step and _STEP in (chosen.only or ()):
        parser.error(f"--only {_STEP} is a run of its own")
    path = chosen.results or RESULTS / ("step.json" if step else "long.json" if chosen.long else "short.json")
    resumed = (chosen.long and not chosen.fresh) or chosen.report
    results = Results.read(path) if resumed else Results(path)
    if not chosen.report:
        prepare()
        machine, form = describe(chosen.model), _form(chosen)
        if results.machine not in ({}, machine):
            parser.error(f"{path} was measured elsewhere, on {results.machine}: give --fresh, or other --results")
        results.machine = machine
        if not velocity.installed():
            print(f"VelocityLLM is not installed, its arm is left out: {velocity.INSTALL}", file=sys.stderr)
        with Bar(sys.stderr) as bar:
            asyncio.run(Run(chosen.model, form, results, bar.show, trace, again=not chosen.once).play())
    found = step_report(results) if step else report(results)
    sys.stdout.write(found.text)
    if chosen.write:
        title = "`make bench`, the step" if step else _TITLES[chosen.long]
        path.with_suffix(".md").write_text(f"# {title}\n\n{found.details}", encoding="utf-8")
        page = ROOT / "deploy/site/docs/measured/index.md"
        if path == RESULTS / "step.json":
            write_into(ROOT, page, found, STEP_CHART, _STEP)
        elif path == RESULTS / "short.json":
            write_into(ROOT, page, found)
    return int(chosen.strict and found.missed)


def _form(chosen: argparse.Namespace) -> Form:
    form = STEP if chosen.only == [_STEP] else LONG if chosen.long else SHORT
    if chosen.only is not None and form is not STEP:
        form = form.only(tuple(chosen.only))
    if chosen.loads is not None:
        parts = (replace(one, loads=tuple(load for load in one.loads if load in chosen.loads)) for one in form.parts)
        form = replace(form, parts=tuple(one for one in parts if one.loads))
    if chosen.arms is not None:
        parts = (replace(one, arms=tuple(arm for arm in one.arms if arm in chosen.arms), grid=()) for one in form.parts)
        form = replace(form, parts=tuple(one for one in parts if one.arms))
    return form if chosen.rounds is None else replace(form, rounds=chosen.rounds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
