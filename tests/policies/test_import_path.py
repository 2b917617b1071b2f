"""Import paths of policies: resolution, and the message where nothing is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from headway_policies import PresetError, parse_preset
from headway_policies.import_path import find_class
from headway_policies.queueing.disciplines import Fifo


def test_a_path_leads_to_its_class() -> None:
    """package.module:Class is the class itself."""
    assert find_class("headway_policies.queueing.disciplines:Fifo") is Fifo


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("headway_policies.queueing.disciplines", "not of the form package.module:Class"),
        ("headway_policies.queueing.disciplines:", "not of the form package.module:Class"),
        (":Fifo", "not of the form package.module:Class"),
        ("headway_policies..lines:Fifo", "not of the form package.module:Class"),
        ("headway_policies.queueing.disciplines:Fifo.Discipline", "not of the form package.module:Class"),
        ("no_such_module:Discipline", "no_such_module cannot be imported: No module named 'no_such_module'"),
        ("headway_policies.queueing.disciplines:Nothing", "headway_policies.queueing.disciplines has no Nothing"),
        ("headway_policies.import_path:find_class", "is not a class but function"),
    ],
)
def test_a_path_that_leads_nowhere_says_why(path: str, message: str) -> None:
    """One line: the form, the module, the name, or what it is instead of a class."""
    with pytest.raises(ValueError, match=r".") as caught:
        find_class(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_module_that_ends_the_program_ends_only_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a check of many files would stop at it, and say that all is well."""
    (tmp_path / "quitting_policy.py").write_text("import sys; sys.exit(0)")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="quitting_policy cannot be imported: SystemExit: 0"):
        find_class("quitting_policy:Discipline")


@pytest.mark.parametrize("key", ["ordering.between", "ordering.inside", "limit.policy"])
def test_a_policy_that_cannot_be_created_is_reported_when_the_preset_is_read(key: str) -> None:
    """In one line with its key, before anything could be switched to it."""
    text = f'name = "mine"\nextends = "balanced"\n{key} = "faulty_policy:Unwilling"\n'
    message = f"{key}: faulty_policy:Unwilling cannot be created: RuntimeError: no licence (line 3)"
    with pytest.raises(PresetError) as caught:
        parse_preset(text, "mine.toml")
    assert str(caught.value).endswith(message)


def test_a_module_that_fails_while_it_is_imported_reports_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The author sees the error of the module, in one line, and its traceback as the cause."""
    (tmp_path / "failing_policy.py").write_text('raise RuntimeError("no\\nlicence")')
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="failing_policy cannot be imported: RuntimeError: no licence") as caught:
        find_class("failing_policy:Discipline")
    assert isinstance(caught.value.__cause__, RuntimeError)
