"""The example of how-to/in-a-program.md has sound types."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tiers import long_form


@pytest.mark.slow
@long_form("make check has the types of plugin/examples, which call the same; vLLM's own take minutes to read")
def test_the_example_in_the_readme_passes_a_strict_type_checker(root: Path, tmp_path: Path) -> None:
    """With vLLM's own types, and without any setting of this repository; what `make check` has read is reused."""
    (example,) = re.findall(
        r"```python\n(.*?)```", (root / "deploy/site/docs/how-to/in-a-program.md").read_text(), re.DOTALL
    )
    script = tmp_path / "example.py"
    script.write_text(example, encoding="utf-8")
    strict = ["--strict", "--config-file=", f"--cache-dir={root / '.mypy_cache'}"]
    environment = {**os.environ, "MYPYPATH": os.pathsep.join(str(root / one) for one in ("plugin", "policies"))}
    command = [sys.executable, "-m", "mypy", *strict, str(script)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
