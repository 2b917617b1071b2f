"""The doctor's checks of the configuration."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path

from headway.checks.finding import Severity, worst
from headway.keys import add_key
from headway_tools.doctor import check_configuration
from headway_tools.doctor.configuration import check_presets

TOKEN = "t" * 32
LOOPBACK = Namespace(host="127.0.0.1")


def test_a_good_configuration_has_nothing_to_complain_of(tmp_path: Path) -> None:
    """Keys, a token, the bundled presets."""
    keys = tmp_path / "keys.toml"
    add_key(str(keys), "acme", now=datetime(2026, 1, 31, tzinfo=UTC))
    environment = {"HEADWAY_KEYS_FILE": str(keys), "HEADWAY_ADMIN_TOKEN": TOKEN}
    found = list(check_configuration(LOOPBACK, environment, None))
    assert worst(found) is Severity.OK
    assert len(found) > 5
    assert all(one.remedy == "" for one in found)


def test_a_class_of_the_fixed_reply_that_no_preset_has_fails() -> None:
    """As the server does not start with it."""
    late = {"HEADWAY_FALLBACK_REPLY": "We are busy.", "HEADWAY_FALLBACK_REPLY_LATE": "batches"}
    *_, found = check_presets(late, None)
    assert (found.severity, found.remedy) == (Severity.FAIL, "did you mean batch?")


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
