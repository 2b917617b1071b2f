"""The errors of a preset file: the key, what is wrong with it, where, and the value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ValidationError

from headway_policies.close_name import did_you_mean
from headway_policies.preset.toml_line import toml_line
from headway_policies.preset.toml_text import toml_text

#: The most errors that are reported.
MAX_ISSUES = 20
MISSING = "missing"
_MAX_KEY_CHARS = 80

_IN_TOML = {"tuple_type": "must be a list", "dict_type": "must be a table", "model_type": "must be a table"}
_QUOTED = re.compile(r"'([^']*)'")
_MAX_VALUE_CHARS = 60
_MAX_LOCATED = 10  # each costs a few readings of the text

#: (source, TOML text): the file itself first, then those that it extends. The source names it in messages.
Sources = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Issue:
    """An error of a preset.

    ``where`` is the dotted key, "" for the whole. ``value`` is the wrong value as TOML text, shortened; None where
    there is none, and for an unknown key, which may hold anything. ``file`` and ``line`` locate the key, where known;
    ``rule`` is the rule of the conformance suite that a policy breaks.
    """

    where: str
    message: str
    value: str | None = None
    file: str | None = None
    line: int | None = None
    rule: str | None = None

    def __str__(self) -> str:
        return one_line(f"{self.where}: {self.message}" if self.where else self.message) + self._place()

    def _place(self) -> str:
        value = None if self.value is None or self.value.strip('"') in self.message else self.value
        if self.line is None:
            return "" if value is None else f" (it is {value})"
        return f" (line {self.line})" if value is None else f" (line {self.line}: {value})"


class PresetError(ValueError):
    """A preset that cannot be used. Its text is one line, for the author of the file, with all ``issues``."""

    def __init__(self, text: str, issues: Iterable[Issue] = ()) -> None:
        super().__init__(text)
        self.issues = tuple(issues) or (Issue("", text),)


class ContradictionError(ValueError):
    """Settings that are valid alone but contradict each other."""

    def __init__(self, issues: Iterable[Issue]) -> None:
        self.issues = tuple(issues)
        super().__init__("; ".join(map(str, self.issues)))


def explain(error: ValidationError, model: type[BaseModel], sources: Sources = ()) -> list[Issue]:
    """The issues of a table that is not a valid ``model``, at most ``MAX_ISSUES``.

    The first ones are located in ``sources``.
    """
    details = error.errors()
    found = [issue for detail in details[:MAX_ISSUES] for issue in _issues(detail, model)]
    located = [_located(issue, sources) if number < _MAX_LOCATED else issue for number, issue in enumerate(found)]
    more = len(details) - MAX_ISSUES
    return [*located, Issue("", f"and {more} more")] if more > 0 else located


def one_line(text: str) -> str:
    """A text without its line breaks."""
    return " ".join(text.split())


def shown(value: object) -> str | None:
    """A wrong value as TOML text, shortened."""
    if isinstance(value, Mapping):
        return "a table"
    try:
        text = toml_text(value) if isinstance(value, str | int | float) else one_line(str(value))
    except ValueError:  # Python writes no number of more than 4,300 digits
        text = "a number of very many digits"
    return text if len(text) <= _MAX_VALUE_CHARS else f"{text[: _MAX_VALUE_CHARS - 3]}..."


def _issues(detail: Any, model: type[BaseModel]) -> Iterable[Issue]:
    where, message, kind = detail["loc"], detail["msg"], detail["type"]
    raised = detail.get("ctx", {}).get("error")
    if isinstance(raised, ContradictionError):
        return raised.issues
    key = one_line(".".join(str(part)[:_MAX_KEY_CHARS] for part in where if part != "[key]"))
    if kind == "extra_forbidden":
        allowed = _allowed(where, model)
        return [Issue(key, f"unknown key; allowed here: {', '.join(allowed)}{did_you_mean(str(where[-1]), allowed)}")]
    if kind == "missing":
        return [Issue(key, 'missing; each file has its own, as in name = "mine"' if key == "name" else MISSING)]
    text = _IN_TOML.get(kind, message.removeprefix("Value error, "))
    text = text.replace("Input should be", "must be").replace("String should", "must")
    if kind == "literal_error":
        text += did_you_mean(str(detail["input"]), _QUOTED.findall(detail["ctx"]["expected"]))
    return [Issue(key, text, None if "[key]" in where else shown(detail["input"]))]


def _located(issue: Issue, sources: Sources) -> Issue:
    """The issue with the first source that sets its key, and the line there."""
    path = issue.where.split(".")
    if issue.message.startswith(MISSING):  # the name that an extended preset has is not meant
        return issue
    for source, text in sources:
        line = toml_line(text, path)
        if line is not None:
            return replace(issue, file=source, line=line)
    return issue


def _allowed(where: tuple[int | str, ...], model: type[BaseModel]) -> list[str]:
    """The keys allowed in the table of the last key in ``where``."""
    if len(where) == 1:
        return sorted([*model.model_fields, "extends"])
    section: Any = model.model_fields[str(where[0])].annotation
    table = getattr(section, "__args__", (section,))[-1]  # a section, or the tables of dict[str, ...]
    return sorted(table.model_fields)
