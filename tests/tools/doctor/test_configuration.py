"""The doctor's checks of the configuration."""

from __future__ import annotations

import hashlib
from argparse import Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from headway_tools.doctor import Finding, Severity, check_configuration, worst
from headway_tools.doctor.configuration import check_keys_file, check_presets, check_readers, check_start, check_tokens

TOKEN = "t" * 32
LOOPBACK = Namespace(host="127.0.0.1")

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
    return [str(one.severity) for one in findings]


def test_a_good_configuration_has_nothing_to_complain_of(tmp_path: Path) -> None:
    """Keys, a token, the bundled presets."""
    environment = keys_file(tmp_path) | {"HEADWAY_ADMIN_TOKEN": TOKEN}
    found = list(check_configuration(LOOPBACK, environment, None))
    assert worst(found) is Severity.OK
    assert len(found) > 5
    assert all(one.remedy == "" for one in found)


def test_what_forbids_a_start_fails_and_a_warning_warns(tmp_path: Path) -> None:
    """The same words as those of the server."""
    bad = keys_file(tmp_path) | {"VLLM_ALLOW_INSECURE_SERIALIZATION": "1"}
    (found,) = check_start(LOOPBACK, bad)
    assert (found.severity, found.remedy) == (Severity.FAIL, "unset VLLM_ALLOW_INSECURE_SERIALIZATION")
    (found,) = check_start(LOOPBACK, {})
    assert found.severity is Severity.WARN
    assert "HEADWAY_KEYS_FILE is not set" in found.what


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


def test_presets_are_read(tmp_path: Path) -> None:
    """A broken file and an unknown name fail, with the way to check them."""
    (found,) = check_presets({}, None)
    assert found.severity is Severity.OK
    assert "balanced at the start (bundled)" in found.what
    (found,) = check_presets({"HEADWAY_PRESET": "none"}, None)
    assert found.severity is Severity.FAIL
    (tmp_path / "mine.toml").write_text("broken")
    (found,) = check_presets({}, tmp_path)
    assert found.severity is Severity.FAIL
    assert "headway preset validate" in found.remedy


@pytest.mark.parametrize(
    "variable",
    [
        "HEADWAY_MAX_BODY_BYTES", "HEADWAY_OPEN_ROUTES", "HEADWAY_TRUSTED_PROXIES", "HEADWAY_FALLBACK_URL",
        "HEADWAY_VALIDATOR", "HEADWAY_REQUIRE_REASON", "HEADWAY_LOG_FORMAT",
    ],
)  # fmt: skip
def test_a_variable_that_a_server_cannot_read_fails(variable: str) -> None:
    """The others are read all the same."""
    found = list(check_readers({variable: "wrong"}))
    assert sorted(severities(found)) == ["fail"] + ["ok"] * (len(found) - 1)
    assert any(one.what.startswith(variable) for one in found)
