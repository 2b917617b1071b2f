"""``make bench``: Headway and plain vLLM side by side on the real engine, with the same arrivals.

About twelve minutes on two cores, with SmolLM2-135M, more where other programs disturb it; ``--long`` takes hours, and
goes on where it was stopped. The results are kept in tests/benchmarks/results; the chart and the table of the README
are drawn from them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from serving.client import prepare
from serving.report import report, write_into
from serving.results import Results
from serving.run import LONG, SHORT, Run

from headway.console import Bar

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).resolve().parent / "results"
MODEL = ROOT / ".models" / "SmolLM2-135M-Instruct"


def main(words: list[str]) -> int:
    """0; with ``--strict`` 1 where a goal is missed that is not listed as accepted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="all arms and loads; goes on where it was stopped")
    parser.add_argument("--fresh", action="store_true", help="forget what a stopped run has measured")
    parser.add_argument("--model", type=Path, default=MODEL, metavar="DIR", help="another model's folder")
    parser.add_argument("--results", type=Path, metavar="FILE", help="where the results are kept")
    parser.add_argument("--report", action="store_true", help="measure nothing: only the report of the results")
    parser.add_argument("--write", action="store_true", help="put the chart and the tables into the README files")
    parser.add_argument("--strict", action="store_true", help="exit code 1 where a goal is missed that is not accepted")
    chosen = parser.parse_args(words)
    path = chosen.results or RESULTS / ("long.json" if chosen.long else "short.json")
    resumed = (chosen.long and not chosen.fresh) or chosen.report
    results = Results.read(path) if resumed else Results(path)
    if not chosen.report:
        form = LONG if chosen.long else SHORT
        prepare()
        results.machine, results.form = _machine(chosen.model), asdict(form)
        with Bar(sys.stderr) as bar:
            asyncio.run(Run(chosen.model, form, results, bar.show).play())
    found = report(results)
    sys.stdout.write(found.text)
    if chosen.write:
        write_into(ROOT / "README.md", found)
    return int(chosen.strict and found.missed)


def _machine(model: Path) -> dict[str, Any]:
    import torch
    import vllm

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    return {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "gpu": gpu,
        "vllm": vllm.__version__,
        "model": model.name,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
