"""``make bench-policies``: the goals of the policies, on the simulator and on an engine that answers at once.

--only G4 G5     some goals only
--strict         exit code 1 on a miss that accepted.py does not list
--write          put the table into deploy/site/docs/measured/policies.md
"""

from __future__ import annotations

import sys
from pathlib import Path

from accepted import POLICIES
from adapters import adapters
from command import Goals, run
from limits import capacities, changing_mix, memory, pacing
from overhead import overhead, queue_length
from sharing import prefixes, starvation, tenants
from strategies import multi_bin, steadiness, strategies, windows

PAGE = Path(__file__).resolve().parents[2] / "deploy/site/docs/measured/policies.md"
GOALS: Goals = {
    "G1": pacing,
    "G3": changing_mix,
    "G4": strategies,
    "G5": multi_bin,
    "G6": memory,
    "G7": overhead,
    "G8": queue_length,
    "G9": starvation,
    "G10": tenants,
    "G12": windows,
    "G16": prefixes,
    "G17": adapters,
    "N6": capacities,
    "N14": steadiness,
}

if __name__ == "__main__":
    sys.exit(run(sys.argv[1:], GOALS, POLICIES, PAGE, help_text=__doc__ or ""))
