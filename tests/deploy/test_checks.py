"""What is checked beside the tests: `make check` has all of it; how-to/in-a-program.md has sound types."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from engine_parts import long_form

CHECKS = ["ruff check .", "ruff format --check .", "mypy", "mypy deploy", "mypy plugin/examples", "lint-imports"]


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


def test_make_check_runs_every_check(root: Path) -> None:
    """Lint, format, types of all folders, import contracts; .ci/run has them before the tests (test_makefile)."""
    recipe = (root / "Makefile").read_text().partition("\ncheck:")[2].partition("\n\n")[0]
    listed = [line.strip().removeprefix("$(BIN)/") for line in recipe.splitlines() if "$(BIN)/" in line]
    assert listed == CHECKS
