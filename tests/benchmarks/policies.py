"""``make bench-policies``: the goals of the policies, on the simulator and on an engine that answers at once.

--only G4 G5     some goals only
--write          put the table into policies/README.md
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from goal import Goal, as_markdown, put_into
from limits import changing_mix, memory
from overhead import overhead, queue_length
from sharing import starvation, tenants
from strategies import multi_bin, strategies, windows

README = Path(__file__).resolve().parents[2] / "policies" / "README.md"
GOALS: dict[str, Callable[[], Iterator[Goal]]] = {
    "G3": changing_mix,
    "G4": strategies,
    "G5": multi_bin,
    "G6": memory,
    "G7": overhead,
    "G8": queue_length,
    "G9": starvation,
    "G10": tenants,
    "G12": windows,
}


def main() -> int:
    """Run the goals, print the table; a missed goal is said in it and is no failure of the run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=GOALS, default=list(GOALS), metavar="GOAL")
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    reached: list[Goal] = []
    for name in chosen.only:
        started_s = time.monotonic()
        print(f"{name}: {GOALS[name].__doc__} ...", file=sys.stderr, flush=True)
        for goal in GOALS[name]():
            reached.append(goal)
            print("  " + "  ".join(goal.row()[1:]), file=sys.stderr, flush=True)
        print(f"  {time.monotonic() - started_s:.0f} s", file=sys.stderr, flush=True)
    table = as_markdown(reached)
    print(table)
    print(f"\n{sum(goal.met for goal in reached)} of {len(reached)} figures reach their goal")
    if chosen.write:
        README.write_text(put_into(README.read_text(encoding="utf-8"), table), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
