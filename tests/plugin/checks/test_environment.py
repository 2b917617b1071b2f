"""What the variables say: findings of a start and of the doctor."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from headway.checks.environment import check_environment, check_keys_file, check_names, check_tokens, check_values
from headway.checks.finding import Finding, Severity

TOKEN = "t" * 32

GOOD_KEYS = f"""\
[tenants.acme]

[[keys]]
id = "acme-1"
sha256 = "{hashlib.sha256(b"hw-secret").hexdigest()}"
tenant = "acme"
created = 2026-01-31T12:00:00Z
"""


def keys_file(folder: Path, text: str = GOOD_KEYS, mode: int = 0o600) -> dict[str, str]:
    """An environment with this keys file."""
    file = folder / "keys.toml"
    file.write_text(text)
    file.chmod(mode)
    return {"HEADWAY_KEYS_FILE": str(file)}


def severities(findings: Iterable[Finding]) -> list[str]:
    """Those of all findings."""
    return [str(finding.severity) for finding in findings]


def test_every_error_of_the_keys_file_is_a_finding(tmp_path: Path) -> None:
    """Each with what to do; no digest is shown."""
    text = GOOD_KEYS.replace('tenant = "acme"', 'tenant = "other"').replace('id = "acme-1"', 'id = ""')
    found = list(check_keys_file(keys_file(tmp_path, text)))
    assert severities(found) == ["fail", "fail"]
    assert all(one.remedy and "sha256" not in one.what for one in found)
    assert {"keys.1.tenant" in one.what for one in found} == {True, False}


@pytest.mark.parametrize(("mode", "severity"), [(0o600, "ok"), (0o640, "ok"), (0o644, "warn"), (0o602, "fail")])
def test_the_mode_of_the_keys_file_counts(mode: int, severity: str, tmp_path: Path) -> None:
    """Others may neither write nor read it."""
    assert severities(check_keys_file(keys_file(tmp_path, mode=mode)))[0] == severity


def test_a_missing_keys_file_fails(tmp_path: Path) -> None:
    """One that is named; without a name there is nothing to check."""
    (found,) = check_keys_file({"HEADWAY_KEYS_FILE": str(tmp_path / "none")})
    assert found.severity is Severity.FAIL
    assert list(check_keys_file({})) == []


@pytest.mark.parametrize(
    ("environment", "severity"),
    [({"HEADWAY_ADMIN_TOKEN": TOKEN}, "ok"), ({}, "warn"), ({"HEADWAY_ADMIN_TOKEN": "short"}, "fail")],
)
def test_tokens(environment: Mapping[str, str], severity: str) -> None:
    """On, off, and too short; the token is not shown."""
    (found,) = check_tokens(environment)
    assert found.severity == severity
    assert TOKEN not in found.what


@pytest.mark.parametrize(
    "variable",
    [
        "HEADWAY_MAX_BODY_BYTES", "HEADWAY_OPEN_ROUTES", "HEADWAY_TRUSTED_PROXIES", "HEADWAY_FALLBACK_URL",
        "HEADWAY_VALIDATOR", "HEADWAY_REQUIRE_REASON", "HEADWAY_LOG_FORMAT", "HEADWAY_AUDIT_FILE_BYTES",
    ],
)  # fmt: skip
def test_a_variable_that_a_server_cannot_read_fails(variable: str) -> None:
    """The others are read all the same."""
    found = list(dict.fromkeys(check_values({variable: "wrong"})))
    assert sorted(severities(found)) == ["fail"] + ["ok"] * (len(found) - 1)
    assert any(one.what.startswith(variable) for one in found)


def test_a_misspelt_variable_is_named_with_the_right_one() -> None:
    """One like none is named, too; what is not Headway's is not looked at."""
    given = {"HEADWAY_KEY_FILE": "x", "HEADWAY_ZZZZZZZZZ": "x", "HEADWAY_PRESET": "x", "PATH": "x"}
    first, second = check_names(given)
    assert (first.severity, first.remedy) == (Severity.WARN, "did you mean HEADWAY_KEYS_FILE?")
    assert first.what.startswith("HEADWAY_KEY_FILE: ")
    assert second.remedy == "remove it, or correct its name"


def test_known_variables_are_counted() -> None:
    """The variables that Headway sets for its own processes are counted as well."""
    (found,) = check_names({"HEADWAY_PRESET": "x", "HEADWAY_ENGINE_PROGRESS": "x"})
    assert (found.severity, found.what) == (Severity.OK, "2 variables with the prefix HEADWAY_, all known")


def test_a_fault_is_found_once() -> None:
    """Of several readers of one variable the first says what is wrong."""
    found = [str(one) for one in check_environment({"HEADWAY_ADMIN_TOKEN": "short", "HEADWAY_MAX_TOOLS": "many"})]
    assert [sum(name in one for one in found) for name in ("HEADWAY_ADMIN_TOKEN", "HEADWAY_MAX_TOOLS")] == [1, 1]


def test_the_variables_of_the_shipped_units_are_known() -> None:
    """Systemd and compose put them into the words of the command line; to follow an advice would break the unit."""
    folder = Path(__file__).resolve().parents[3] / "deploy"
    files = [*folder.glob("systemd/*"), *folder.glob("compose*.yaml")]
    names = {name for file in files for name in re.findall(r"\bHEADWAY_[A-Z_]+\b", file.read_text(encoding="utf-8"))}
    assert {"HEADWAY_MODEL", "HEADWAY_SHARE_SEATS", "HEADWAY_KEYS"} <= names
    (found,) = check_names(dict.fromkeys(names, "x"))
    assert found.severity is Severity.OK
