"""Inheritance between preset files.

Tables are merged key by key, to any depth; all other values, lists too, are replaced. ``false`` in place of a table
removes it: ``classes.batch = false``. ``name`` and ``description`` are never inherited: they describe another preset;
nor is a ``burst_s`` that was stated for another ``ttft_slo_s``.
Only the result has to be a whole preset, so an extended file may leave out what each of its children sets.

A file has a maximum size, and so has each of its lines: the time of Python's TOML parser for a dotted key grows with
the square of its parts.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

from headway_policies.preset.errors import Issue, PresetError, one_line
from headway_policies.text_file import TextFileError, read_text_file

MAX_FILE_BYTES = 32 * 1024
MAX_LINE_CHARS = 1000
MAX_PARENTS = 8

Table = dict[str, Any]

#: Maps a bundled name to (source, text). Raises PresetError for an unknown name.
Bundled = Callable[[str], tuple[str, str]]

_OWN = ("name", "description")
#: Left out, the second follows from the first: a table that states the first does not inherit the second.
_FOLLOWING = {"ttft_slo_s": "burst_s"}
_PLACE = re.compile(r" \(at line (?P<line>\d+), column (?P<column>\d+)\)$")


def merged(parent: Mapping[str, Any], child: Mapping[str, Any]) -> Table:
    """The parent's table, overridden by the child's."""
    unstated = {second for first, second in _FOLLOWING.items() if first in child}
    result = {key: value for key, value in parent.items() if key not in unstated}
    for key, value in child.items():
        beneath = parent.get(key)
        if isinstance(beneath, Mapping) and isinstance(value, Mapping):
            result[key] = merged(beneath, value)
        elif isinstance(beneath, Mapping) and value is False:
            del result[key]
        else:
            result[key] = value
    return result


def read_table(text: str, source: str, bundled: Bundled) -> tuple[Table, list[tuple[str, str]]]:
    """The table of a preset merged with all that it extends, and all texts by their sources, its own first.

    ``extends`` is a bundled preset's name or a file relative to the one that names it. Raises PresetError.
    """
    tables, sources, texts = [_parsed(text, source)], [source], [text]
    while (parent := tables[-1].pop("extends", None)) is not None:
        parent_source, parent_text = _found(parent, sources[-1], bundled)
        if Path(parent_source).resolve() in [Path(path).resolve() for path in sources]:
            raise PresetError(f"{source}: extends: circular: {' -> '.join([*sources, parent_source])}")
        if len(sources) > MAX_PARENTS:
            raise PresetError(f"{source}: extends: a chain of more than {MAX_PARENTS} presets")
        sources.append(parent_source)
        texts.append(parent_text)
        inherited = _parsed(parent_text, parent_source)
        tables.append({key: value for key, value in inherited.items() if key not in _OWN})
    try:
        return reduce(merged, reversed(tables)), list(zip(sources, texts, strict=True))
    except RecursionError:
        raise PresetError(f"{source}: tables are nested too deeply") from None


def read_text(path: str | Path) -> str:
    """The text of a preset file. Raises PresetError in one line."""
    try:
        return read_text_file(path, MAX_FILE_BYTES)
    except TextFileError as error:
        name = str(path) if str(path).isprintable() else repr(str(path))
        raise PresetError(f"{name}: cannot be read: {error}") from None


def _parsed(text: str, source: str) -> Table:
    if len(text) > MAX_FILE_BYTES:
        raise PresetError(f"{source}: larger than {MAX_FILE_BYTES} bytes")
    for number, line in enumerate(text.split("\n"), start=1):
        if len(line) > MAX_LINE_CHARS:
            raise PresetError(f"{source}: line {number}: longer than {MAX_LINE_CHARS} characters")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also a number with more digits than Python reads
        issue = _not_toml(str(error), source)
        raise PresetError(f"{one_line(source)}: {issue}", [issue]) from None


def _not_toml(error: str, source: str) -> Issue:
    """The issue of a TOML syntax error; tomllib gives the place only in its message."""
    place = _PLACE.search(error)
    if place is None:
        return Issue("", one_line(f"not valid TOML: {error}"), file=source)
    what, line, column = error[: place.start()], int(place["line"]), place["column"]
    return Issue("", one_line(f"not valid TOML: {what}, column {column}"), file=source, line=line)


def _found(parent: object, child: str, bundled: Bundled) -> tuple[str, str]:
    try:
        if not isinstance(parent, str) or not parent:
            raise PresetError("must be the name of a bundled preset, or a file")
        if "/" not in parent and not parent.endswith(".toml"):
            return bundled(parent)
        path = str(Path(child).parent / parent)
        return path, read_text(path)
    except PresetError as error:
        raise PresetError(one_line(f"{child}: extends: {error}")) from None
