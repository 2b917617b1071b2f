"""The command line of the benchmarks: run the goals, print the table, and exit with a code for scripts."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from accepted import Accepted
from goal import Goal
from report import as_markdown, judged, put_into, put_rows, summary

Goals = Mapping[str, Callable[[], Iterator[Goal]]]


def run(
    words: Sequence[str],
    goals: Goals,
    accepted: Accepted,
    readme: Path,
    *,
    help_text: str = "",
    marks: str = "figures",
    on_request: Collection[str] = (),
) -> int:
    """Returns 0; with ``--strict`` 1 when a figure is missed that ``accepted`` does not list.

    With ``--write`` the table goes between these ``marks`` of the page; the rows of goals that were not run stay. Goals
    ``on_request`` run only if named.
    """
    parser = argparse.ArgumentParser(description=help_text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=goals, metavar="GOAL",
                        default=[name for name in goals if name not in on_request])  # fmt: skip
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args(words)
    lines = []
    for name in chosen.only:
        started_s = time.monotonic()
        print(f"{name}: {goals[name].__doc__} ...", file=sys.stderr, flush=True)
        for goal in goals[name]():
            lines.append(judged(goal, accepted))
            print("  " + "  ".join(lines[-1].row()[1:]), file=sys.stderr, flush=True)
        print(f"  {time.monotonic() - started_s:.0f} s", file=sys.stderr, flush=True)
    figures = as_markdown(lines)
    print(figures, "\n".join(summary(lines, accepted)), sep="\n\n")
    if chosen.write:
        page, whole = readme.read_text(encoding="utf-8"), set(chosen.only) >= set(goals) - set(on_request)
        page = put_into(page, figures, marks) if whole else put_rows(page, lines, marks)
        readme.write_text(page, encoding="utf-8")
    return 1 if chosen.strict and any(line.fails for line in lines) else 0
