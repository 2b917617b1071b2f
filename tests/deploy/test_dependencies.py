"""What the packages import is declared in pyproject.toml, where it is imported."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from running_server import ROOT
from uvicorn.protocols.http import httptools_impl

OWN = {"headway", "headway_dashboard", "headway_policies", "headway_simulator", "headway_tools"}
IMPORTED_AS = {"prometheus-client": "prometheus_client", "prometheus-api-client": "prometheus_api_client"}
#: What comes with vLLM, and the only folders that may import it.
WITH_VLLM = {"numpy", "openai", "torch", "vllm"}
BESIDE_VLLM = ("plugin/headway/vllm_adapter", "plugin/headway_tools/demo")
#: What imports httptools, through a module of uvicorn.
PROTOCOL = "plugin/headway/api_server/protocol.py"
WITH_PYDANTIC = {"pydantic_core"}


def _declared(lines: list[str]) -> set[str]:
    names = [match[0] for line in lines if (match := re.match(r"[\w.-]+", line))]
    return {IMPORTED_AS.get(name, name.replace("-", "_")) for name in names}


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BASE = _declared(PROJECT["dependencies"])
TOOLS = _declared(PROJECT["optional-dependencies"]["tools"])
DASHBOARD = _declared(PROJECT["optional-dependencies"]["dashboard"]) | TOOLS


def _imported(folder: str) -> Iterator[tuple[str, str]]:
    """(file, top-level module) of every import of a package that is neither Python's nor Headway's."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [str(node.module)]
            for name in names:
                top = name.partition(".")[0]
                if top not in sys.stdlib_module_names and top not in OWN:
                    yield str(path.relative_to(ROOT)), top


@pytest.mark.parametrize(
    ("folder", "allowed"),
    [
        ("plugin/headway", BASE),
        ("plugin/headway_simulator", BASE),
        ("plugin/headway_tools", BASE | TOOLS),
        ("policies/headway_policies", BASE),
        ("dashboard/headway_dashboard", BASE | DASHBOARD),
    ],
)
def test_every_import_is_declared(folder: str, allowed: set[str]) -> None:
    """A program that installs Headway alone lacks nothing that a module of it imports, except what needs vLLM."""
    undeclared = [
        (file, name)
        for file, name in _imported(folder)
        if name not in allowed | WITH_PYDANTIC and not (name in WITH_VLLM and file.startswith(BESIDE_VLLM))
    ]
    assert undeclared == []


def test_every_declared_package_is_imported() -> None:
    """Nothing is installed for nothing: each base dependency is imported by one of the packages, or by a module of
    another one that they import."""
    folders = ("plugin", "policies/headway_policies", "dashboard/headway_dashboard")
    assert BASE - {name for folder in folders for _, name in _imported(folder)} == {"httptools"}
    assert httptools_impl.httptools
    assert "from uvicorn.protocols.http.httptools_impl import" in (ROOT / PROTOCOL).read_text(encoding="utf-8")


def test_every_base_dependency_is_pinned() -> None:
    """Two fresh installs are the same: constraints.txt has each of them."""
    lines = Path(ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert BASE - _declared([line for line in lines if not line.startswith("#")]) == set()
