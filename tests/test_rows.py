"""Tests of the page with each row of the reference texts: what it names exists, and a miss is called one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from headway_site import works_with
from running_server import ROOT

import headway
from headway_policies import bundled_presets

DOCS = ROOT / "deploy" / "site" / "docs"
PAGE = DOCS / "measured" / "rows.md"
SETTINGS = (ROOT / "plugin" / "examples" / "every_setting.toml").read_text(encoding="utf-8")
REFERENCE = {name: (DOCS / "reference" / f"{name}.md").read_text(encoding="utf-8") for name in ("commands", "metrics")}
NUMBERS = {"N": 23, "A": 45, "C": 12, "M": 8, "F": 22, "B": 12}
FAULTS = "abcdefghij"
STATES = ("held", "measured", "missed", "simulated", "documented", "not copied")


class Row(NamedTuple):
    """The cells of a line."""

    number: str
    what: str
    state: str
    seen_by: str
    kept_by: str


def _rows() -> Iterator[Row]:
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = line.removeprefix("| ").removesuffix(" |").split(" | ")
        if len(cells) == len(Row._fields) and cells[0] not in ("row", "---"):
            yield Row(*cells)


ROWS = list(_rows())


def test_each_row_of_the_texts_is_there_once() -> None:
    """Numbers, algorithms, what has no row of its own, metrics, failures, faults of the sample code, practices."""
    expected = [f"{letter}{number + 1}" for letter, most in NUMBERS.items() for number in range(most)]
    assert sorted(row.number for row in ROWS) == sorted([*expected, *FAULTS])
    assert [row.number for row in ROWS if not row.state.startswith(STATES)] == []


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.number)
def test_what_a_row_names_exists(row: Row) -> None:
    """Its test, and each command, target, metric, variable, setting, class and preset by which it is seen."""
    assert works_with.exists(f"tests/{row.kept_by.strip('`')}")
    assert row.seen_by
    names = re.findall(r"`([^`]+)`", row.seen_by)
    table = ""
    for name in names:
        assert known(name, table), name
        table = name.strip("[]") if name.startswith("[") else ""


def known(name: str, table: str) -> bool:
    """Whether the code has something of that name; ``table`` is the one of a preset that a setting belongs to."""
    if table:
        inside = SETTINGS.partition(f"\n[{table}")[2].partition("\n[")[0]
        return re.search(rf"^#? ?{name} =", inside, re.MULTILINE) is not None
    if name.startswith("["):
        return f"\n{name[:-1]}" in SETTINGS
    if name.startswith("headway."):
        return name.removeprefix("headway.") in headway.__all__
    if name.startswith("headway "):
        return re.search(rf"^##+ {name}$", REFERENCE["commands"], re.MULTILINE) is not None
    if name.startswith("--"):
        return name in REFERENCE["commands"]
    if name.startswith("headway_"):
        return f"`{name}`" in REFERENCE["metrics"]
    if name.startswith("HEADWAY_"):
        return f"`{name}`" in (DOCS / "reference" / "environment.md").read_text(encoding="utf-8")
    if name.startswith("make "):
        return f"\n{name.removeprefix('make ')}:" in (ROOT / "Makefile").read_text(encoding="utf-8")
    return name in bundled_presets()


@pytest.mark.parametrize(
    "name", ["[batching]", "headway bank", "headway_no_such", "HEADWAY_NO_SUCH", "make rows", "headway.Rows", "--rows"]
)
def test_a_name_that_does_not_exist_is_found(name: str) -> None:
    """But for the first, which has no such setting."""
    assert known(name, "") is (name == "[batching]")
    assert not known("rows", "batching")


def test_what_a_page_calls_missed_is_missed_here() -> None:
    """A row whose goal stands as missed on a page of the measurements says so in its state."""
    missed = set[str]()
    for path in (DOCS / "measured").glob("*.md"):
        lines = path.read_text(encoding="utf-8").splitlines()
        missed |= {name for line in lines if "| **missed** " in line for name in line.split(" | ")[0][2:].split(", ")}
    assert missed & {"N3", "N12"} == {"N3", "N12"}
    assert {row.number for row in ROWS if row.number in missed and not row.state.startswith("missed")} == set()


def test_the_systems_of_the_texts_are_on_the_page_of_neighbours() -> None:
    """Each by its name, with what comes closest to it here."""
    text = (DOCS / "explain" / "neighbours.md").read_text(encoding="utf-8")
    systems = """NVIDIA Triton, TensorRT-LLM, TorchScript, HF TGI, vLLM, SGLang, LMDeploy, PyTorch, BentoML,
        Kubernetes HPA, service meshes, Anyscale, DCGM, nvidia-smi, Databricks"""
    assert [name for name in re.split(r",\s+", systems) if name not in text] == []
