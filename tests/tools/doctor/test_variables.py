"""Variables of Headway: the list of them is complete, and a misspelt one is noticed."""

from __future__ import annotations

import re
from pathlib import Path

import headway
import headway_dashboard
import headway_tools
from headway_tools.doctor.finding import Severity
from headway_tools.doctor.variables import INTERNAL, KNOWN, check_variables

_NAME = re.compile(r"[\"'`(\s]HEADWAY_([A-Z][A-Z0-9_]*[A-Z0-9])\b")


def test_every_variable_that_the_source_names_is_known_and_no_other() -> None:
    """Else the doctor would warn of one that works, or propose one that does not."""
    found = set[str]()
    for package in (headway, headway_dashboard, headway_tools):
        for file in Path(str(package.__file__)).parent.rglob("*.py"):
            found.update(_NAME.findall(file.read_text(encoding="utf-8")))
    assert found - KNOWN - INTERNAL == set()
    assert (KNOWN | INTERNAL) - found == set()


def test_a_misspelt_variable_is_named_with_the_right_one() -> None:
    """One like none is named, too; what is not Headway's is not looked at."""
    given = {"HEADWAY_KEY_FILE": "x", "HEADWAY_ZZZZZZZZZ": "x", "HEADWAY_PRESET": "x", "PATH": "x"}
    first, second = check_variables(given)
    assert (first.severity, first.remedy) == (Severity.WARN, "did you mean HEADWAY_KEYS_FILE?")
    assert first.what.startswith("HEADWAY_KEY_FILE: ")
    assert second.remedy == "remove it, or correct its name"


def test_known_variables_are_counted() -> None:
    """Those that Headway sets for its own processes as well."""
    (found,) = check_variables({"HEADWAY_PRESET": "x", "HEADWAY_ENGINE_PROGRESS": "x"})
    assert (found.severity, found.what) == (Severity.OK, "2 variables with the prefix HEADWAY_, all known")
