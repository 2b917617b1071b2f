"""Tests of the shares of the workers: the tables name files that exist, and the order is the documented one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from worker_shares import ALONE, TOGETHER, part_of, rank

ROOT = Path(__file__).parents[1]


def test_every_name_in_the_tables_exists() -> None:
    """A file that moved would lose its place in silence."""
    starts = [start for part in TOGETHER.values() for start in part]
    assert [one for one in (*starts, *ALONE) if not (ROOT / one).exists()] == []


@pytest.mark.parametrize(("fixture", "folders"), [("server", ("engine", "browser")), ("chaos", ("chaos",))])
def test_files_that_share_a_server_stay_together(fixture: str, folders: tuple[str, ...]) -> None:
    """Else each worker would start that server."""
    files = [path for folder in folders for path in (ROOT / "tests" / folder).glob("test_*.py")]
    asks = re.compile(rf"^(async )?def test_\w+\([^)]*\b{fixture}(_url)?:", re.MULTILINE)
    parts = {part_of(path.relative_to(ROOT).as_posix()) for path in files if asks.search(path.read_text())}
    assert len(parts) == 1
    assert parts <= set(TOGETHER)


def test_the_named_parts_come_first_and_each_has_its_place() -> None:
    """All other files keep their order."""
    firsts = [starts[0] for starts in TOGETHER.values()]
    named = [*(f"{one}test_it.py" if one.endswith("/") else one for one in firsts), *ALONE]
    ranks = [rank(f"{one}::test_it[a]") for one in named]
    last = rank("tests/policies/desk/test_desk.py::test_it")
    assert sorted(ranks) == list(range(last))
    assert last == rank("tests/policies/desk/test_ledger.py::test_it")
