from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKS = {
    "lint": ["ruff", "check", "."],
    "format": ["ruff", "format", "--check", "."],
    "types": ["mypy"],
    "types of the set-up": ["mypy", "deploy"],
    "types of the examples": ["mypy", "plugin/examples"],
    "import contracts": ["lint-imports"],
}


@pytest.mark.slow
@pytest.mark.parametrize("command", CHECKS.values(), ids=CHECKS)
def test_the_code_passes(command: list[str], root: Path) -> None:
    """What `make check` runs; CI runs the tests only."""
    program = Path(sys.executable).parent / command[0]
    done = subprocess.run([program, *command[1:]], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"


@pytest.mark.slow
def test_the_example_in_the_readme_passes_a_strict_type_checker(root: Path, tmp_path: Path) -> None:
    """With vLLM's own types, and without any setting of this repository; what the checks above have read is reused."""
    (example,) = re.findall(r"```python\n(.*?)```", (root / "plugin" / "README.md").read_text(), re.DOTALL)
    script = tmp_path / "example.py"
    script.write_text(example, encoding="utf-8")
    strict = ["--strict", "--config-file=", f"--cache-dir={root / '.mypy_cache'}"]
    environment = {**os.environ, "MYPYPATH": os.pathsep.join(str(root / one) for one in ("plugin", "policies"))}
    command = [sys.executable, "-m", "mypy", *strict, str(script)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_make_check_runs_the_same(root: Path) -> None:
    """Neither list grows without the other."""
    recipe = (root / "Makefile").read_text().partition("\ncheck:")[2].partition("\n\n")[0]
    listed = [line.strip().removeprefix("$(BIN)/") for line in recipe.splitlines() if "$(BIN)/" in line]
    assert listed == [" ".join(command) for command in CHECKS.values()]
