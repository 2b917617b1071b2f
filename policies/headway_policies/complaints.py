"""What is the author of a wrong preset file told? One line: the key, what is wrong with it, what is allowed."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

#: A line is for a person: of what is wrong, so much is told.
MAX_COMPLAINTS = 20
_MAX_KEY_CHARS = 80

_IN_TOML = {"tuple_type": "must be a list", "dict_type": "must be a table", "model_type": "must be a table"}


class PresetError(ValueError):
    """A preset that cannot be used. Its text is one line for the person who wrote the file."""


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """Every complaint about a table that was to become a ``model``, in one line; of very many the first."""
    details = error.errors()
    told = [_complaint(one["loc"], one["msg"], one["type"], model) for one in details[:MAX_COMPLAINTS]]
    more = [f"and {len(details) - len(told)} more"] if len(details) > len(told) else []
    return one_line("; ".join([*told, *more]))


def one_line(text: str) -> str:
    """Any text without its line breaks."""
    return " ".join(text.split())


def _complaint(where: tuple[int | str, ...], message: str, kind: str, model: type[BaseModel]) -> str:
    key = ".".join(str(part)[:_MAX_KEY_CHARS] for part in where if part != "[key]")
    if kind == "extra_forbidden":
        return f"{key}: unknown key; allowed here: {', '.join(_allowed(where, model))}"
    if kind == "missing":
        return f"{key}: missing"
    text = _IN_TOML.get(kind, message.removeprefix("Value error, "))
    text = text.replace("Input should be", "must be").replace("String should", "must")
    return f"{key}: {text}" if key else text


def _allowed(where: tuple[int | str, ...], model: type[BaseModel]) -> list[str]:
    """The keys of the table in which the last of ``where`` stands."""
    if len(where) == 1:
        return sorted([*model.model_fields, "extends"])
    section: Any = model.model_fields[str(where[0])].annotation
    table = getattr(section, "__args__", (section,))[-1]  # a section, or the tables of dict[str, ...]
    return sorted(table.model_fields)
