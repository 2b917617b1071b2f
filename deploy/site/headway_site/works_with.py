"""The page of vLLM's features: what Headway does with each, and the test that shows it."""

from __future__ import annotations

import ast
from typing import Any

from headway_site.tables import ROOT, code, data, page, table

#: The parts of Headway that a row speaks of, by their keys, and the columns they are.
PARTS = {"admission": "admission", "limit": "limit", "ring": "step ring", "steps": "step policy",
         "recycling": "recycle"}  # fmt: skip
_LACKS = ("no ", "no:", "no,")


def works_with() -> str:
    """The page; KeyError where a row names a test that does not exist."""
    rows = data("works_with", "feature")
    if missing := [test for row in rows for test in row.get("tests", ()) if not exists(test)]:
        raise KeyError(f"works_with.toml names tests that do not exist: {missing}")
    shown = [[row["what"], code(row.get("tests", ())) or "-", _notes(row)] for row in rows]
    return page(
        "What works with what",
        "Each row is a feature of vLLM. *tested*: the tests named below run a server with it on vLLM's CPU build. "
        "*with limits*: the same, without some parts of Headway. *in parts*: tests without such a server. *refused*: "
        "a server with it does not start, with the reason in one line. *not tested*: no test. No row was tried on a "
        "GPU.",
        table(["feature", "how", "state", *PARTS.values()], [_row(row) for row in rows]),
        "## The tests, and what else is known",
        "The tests of `tests/engine/test_features.py` and some others run every night only (`make test-long`).",
        table(["feature", "shown by", "notes"], shown),
    )


def state(row: dict[str, Any]) -> str:
    """The state of a feature, which follows from its tests."""
    if not row.get("tests"):
        return "not tested"
    if row.get("refused"):
        return "refused"
    if row.get("parts"):
        return "in parts"
    return "with limits" if any(row.get(part, "").startswith(_LACKS) for part in PARTS) else "tested"


def exists(test: str) -> bool:
    """Whether the file of a test has a function of that name."""
    path, _, name = test.partition("::")
    file = ROOT / path
    tree = ast.parse(file.read_text(encoding="utf-8")) if file.is_file() else ast.Module([], [])
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return any(isinstance(node, functions) and node.name == name for node in tree.body)


def _row(row: dict[str, Any]) -> list[str]:
    found = state(row)
    usual = "-" if found in ("refused", "not tested") else "not tested"
    cells = [row.get(part, "yes" if part in row.get("holds", ()) else usual) for part in PARTS]
    return [row["what"], code(row.get("flags", ())) or "-", found, *cells]


def _notes(row: dict[str, Any]) -> str:
    said = f"vLLM on the CPU: `{row['engine']}`" if "engine" in row else ""
    return "; ".join(filter(None, (row.get("note"), said))) or "-"
