"""The example in how-to/in-a-program.md runs unchanged; tests/deploy/test_checks.py checks its types."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from engine_parts import long_form
from running_server import OFFLINE, ROOT, TINY_MODEL


def _example() -> str:
    text = (ROOT / "deploy/site/docs/how-to/in-a-program.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return example


@long_form("tests/plugin/test_wrap and test_wrap_whole have the same calls with a fake engine")
def test_the_example_of_the_documentation_runs(real_engine: None, tmp_path: Path) -> None:
    """Copied from the page and started with a model, it answers, switches the preset and ends by itself."""
    script = tmp_path / "example.py"
    script.write_text(_example(), encoding="utf-8")
    environment = {**os.environ, **OFFLINE}
    del environment["TORCHDYNAMO_DISABLE"]  # it compiles its model, as a user's would
    command = [sys.executable, str(script), str(TINY_MODEL)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "answer: '" in done.stdout or 'answer: "' in done.stdout
    assert "preset: {'name': 'latency', 'revision': 2, 'trial': None}" in done.stdout
