from __future__ import annotations

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


def test_make_check_runs_the_same(root: Path) -> None:
    """Neither list grows without the other."""
    recipe = (root / "Makefile").read_text().partition("\ncheck:")[2].partition("\n\n")[0]
    listed = [line.strip().removeprefix("$(BIN)/") for line in recipe.splitlines() if "$(BIN)/" in line]
    assert listed == [" ".join(command) for command in CHECKS.values()]
