"""The table of environment variables: complete, and each kind read as it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import headway
import headway_dashboard
import headway_tools
from headway.errors import HeadwayError
from headway.settings import PREFIX, VARIABLES, Environment, Variable

SOURCES = [
    path.read_text(encoding="utf-8")
    for package in (headway, headway_dashboard, headway_tools)
    for path in Path(str(package.__file__)).parent.rglob("*.py")
]


def test_every_variable_that_the_source_names_is_known() -> None:
    """Else the doctor would warn of one that works."""
    named = set(re.findall(r"\bHEADWAY_[A-Z][A-Z0-9_]*[A-Z0-9]\b", " ".join(SOURCES)))
    assert named - {name for variable in VARIABLES for name in variable.names} == set()


@pytest.mark.parametrize("variable", VARIABLES, ids=lambda one: one.name)
def test_every_known_variable_is_read(variable: Variable[Any]) -> None:
    """Else the doctor would propose one that does nothing: the dashboard has the name, all else the attribute."""
    attribute = rf"\.{variable.name.removeprefix(PREFIX).lower()}\b"
    assert any(re.search(rf'{attribute}|"{variable.name}"', text) for text in SOURCES)


@pytest.mark.parametrize(
    ("attribute", "text", "expected"),
    [
        ("keys_file", None, None),
        ("keys_file", " ", None),
        ("keys_file", " /etc/keys.toml\n", "/etc/keys.toml"),
        ("cache_dir", None, None),
        ("cache_dir", "", ""),
        ("trusted_proxies", None, ()),
        ("trusted_proxies", " 10.0.0.5,, ::1 ", ("10.0.0.5", "::1")),
        ("log_format", "", "text"),
        ("log_format", "json", "json"),
        ("log_content", None, False),
        ("log_content", "0", False),
        ("log_content", "1", True),
        ("warmup", "", True),
        ("warmup", "0", False),
        ("max_request_seats", None, None),
        ("max_request_seats", "7", 7),
        ("max_grammar_seconds", "0", 0),
        ("body_timeout_s", "2.5", 2.5),
    ],
)
def test_each_kind_is_read(attribute: str, text: str | None, expected: object) -> None:
    """A variable not set, or blank, has the usual value; only a text as it stands may be empty."""
    name = f"HEADWAY_{attribute.upper()}"
    assert getattr(Environment({} if text is None else {name: text}), attribute) == expected


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("LOG_CONTENT", "yes", "1 or 0"),
        ("LOG_FORMAT", "JSON\n", "text or json"),
        ("REQUIRE_REASON", "yes", "1 or 0"),
        ("MAX_GRAMMAR_SECONDS", "-1", "a whole number of at least 0"),
        ("MAX_TOOLS", "0", "a positive whole number"),
        ("MAX_TOOLS", "1e3", "a positive whole number"),
        ("BODY_TIMEOUT_S", "inf", "a number of seconds above 0, at most 3600,"),
        ("SCALE_HOURS_A_DAY", "many", "a number of hours"),
    ],
)
def test_a_wrong_value_is_one_line(name: str, value: str, wanted: str) -> None:
    """The line names the variable, the value and what would be right."""
    with pytest.raises(HeadwayError, match=f"^HEADWAY_{name}: {wanted} is needed, not {re.escape(repr(value))}$"):
        getattr(Environment({f"HEADWAY_{name}": value}), name.lower())


def test_the_environment_of_the_process_is_read_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by one that was made before."""
    found = Environment()
    monkeypatch.setenv("HEADWAY_MAX_TOOLS", "3")
    assert found.max_tools == 3
