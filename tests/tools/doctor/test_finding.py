"""Findings and what is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway.checks.finding import Severity, fail, info, ok, warn, worst
from headway_tools.doctor import check_versions, versions
from headway_tools.doctor.contract import Contract, Name, VllmSource


def test_the_worst_of_several_findings_counts() -> None:
    """None at all is well."""
    assert worst([]) is Severity.OK
    assert worst([ok("a"), info("b", "c")]) is Severity.INFO
    assert worst([info("a", "b"), warn("b", "c")]) is Severity.WARN
    assert worst([fail("a", "b"), ok("c"), warn("d", "e")]) is Severity.FAIL


def test_a_missing_vllm_fails_and_a_missing_dashboard_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """The dashboard is optional."""
    monkeypatch.setattr(versions, "has_vllm", lambda: False)
    monkeypatch.setattr(versions, "missing_dashboard_packages", lambda: ["streamlit"])
    assert [one.severity for one in check_versions()] == ["ok", "fail", "ok"]


def test_what_is_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its version, as far as it is known."""
    monkeypatch.setattr(versions, "has_vllm", lambda: True)
    monkeypatch.setattr(versions, "vllm_version", lambda: "")
    monkeypatch.setattr(versions, "missing_dashboard_packages", list)
    monkeypatch.setattr(versions.VllmSource, "installed", lambda: None)
    assert [one.what for one in check_versions()][1:] == [
        "vLLM of an unknown version", "the dashboard's packages are installed",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("release", "severities", "words"),
    [
        ("0.33.0", [], ""),
        ("0.34.0", ["fail", "info"], "vLLM 0.34.0 lacks vllm.a:Engine.run (seen in 0.33.0), needed by adapter"),
        (
            "0.35.0",
            ["ok"],
            "vLLM 0.35.0 is not among the tried releases (0.33.0 to 0.33.0), and has all 2 names",
        ),
    ],
    ids=["tried", "lacks two", "has all"],
)
def test_what_differs_in_a_vllm_that_was_not_tried_is_named(
    release: str, severities: list[str], words: str, tmp_path: Path
) -> None:
    """A needed name that is gone fails, an optional one informs; a release that was tried is not read."""
    (package := tmp_path / "vllm").mkdir()
    (package / "_version.py").write_text(f"__version__ = '{release}'\n")
    has_all = "class Engine:\n    def run(self): ...\n    def rest(self): ...\n"
    (package / "a.py").write_text(has_all if release == "0.35.0" else "class Engine: ...\n")
    tried = ("0.33.0",)
    names = (Name("vllm.a:Engine.rest", False, ("stats",), tried), Name("vllm.a:Engine.run", True, ("adapter",), tried))
    found = list(versions.check_contract(Contract(tried, names), VllmSource(package)))
    assert [one.severity for one in found] == severities
    assert not words or found[0].what.startswith(words)
