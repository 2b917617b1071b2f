"""Tests of the example in plugin/README.md: it runs unchanged, and its types are right."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from running_server import OFFLINE, ROOT, TINY_MODEL


def _example() -> str:
    text = (ROOT / "plugin" / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return example


def test_the_example_in_the_readme_runs(real_engine: None, tmp_path: Path) -> None:
    """Copied from the README and started with a model, it answers, switches the preset and ends by itself."""
    script = tmp_path / "example.py"
    script.write_text(_example(), encoding="utf-8")
    environment = {**os.environ, **OFFLINE}
    del environment["TORCHDYNAMO_DISABLE"]  # the example compiles its model, as a user's would
    command = [sys.executable, str(script), str(TINY_MODEL)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "answer: '" in done.stdout or 'answer: "' in done.stdout
    assert "preset: {'name': 'latency', 'revision': 2}" in done.stdout


@pytest.mark.slow
def test_the_example_in_the_readme_passes_a_strict_type_checker(real_engine: None, tmp_path: Path) -> None:
    """With vLLM's own types, which take mypy minutes to read, and without any setting of this repository."""
    script = tmp_path / "example.py"
    script.write_text(_example(), encoding="utf-8")
    strict = ["--strict", "--config-file=", f"--cache-dir={tmp_path}", f"--python-executable={sys.executable}"]
    environment = {**os.environ, "MYPYPATH": os.pathsep.join(str(ROOT / one) for one in ("plugin", "policies"))}
    command = [sys.executable, "-m", "mypy", *strict, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
