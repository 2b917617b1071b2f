"""Findings and what is installed."""

from __future__ import annotations

import pytest

from headway.checks.finding import Severity, fail, info, ok, warn, worst
from headway_tools.doctor import check_versions, versions


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
    assert [one.what for one in check_versions()][1:] == [
        "vLLM of an unknown version", "the dashboard's packages are installed",
    ]  # fmt: skip
