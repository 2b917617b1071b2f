"""``make gpu-check`` from its command to its report, on a real engine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from engine_parts import long_form
from running_server import TINY_MODEL

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "gpu_check.py"
WITHIN_S = 2700  # what all stages may take at the most
CANARY = "hf_CanaryToken-of-32-characters--"


@long_form("engines for minutes; tests/benchmarks/test_gpu_check.py has the stages, the report and its reasons")
def test_the_short_form_holds_without_a_gpu(real_engine: None, tmp_path: Path) -> None:
    """All stages are done and every check holds; neither a token nor a path is in the report."""
    model, report = tmp_path / "canary" / "tiny", tmp_path / "report.md"
    shutil.copytree(TINY_MODEL, model)
    command = [sys.executable, str(SCRIPT), "--short", "--model", str(model), "--report", str(report)]
    environment = {**os.environ, "HF_TOKEN": CANARY, "HEADWAY_ADMIN_TOKEN": CANARY}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=WITHIN_S)
    found = report.read_text()
    assert done.returncode == 0, f"{done.stdout}{done.stderr}{found}"
    figures = json.loads(found.partition("```json\n")[2].partition("\n```")[0])
    assert {stage["state"] for stage in figures["stages"].values()} == {"done"}
    assert not [secret for secret in (CANARY, "canary", str(tmp_path)) if secret in found]
