"""What does a preset file take from the one it extends?

Tables are merged key by key, to any depth; everything else, lists too, is replaced. ``false`` in place of a table drops
it: ``classes.batch = false``. ``name`` and ``description`` are never taken over: they would speak of another preset.
Only the result has to be a whole preset, so the file that is extended may leave out what each of its heirs sets.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

from headway_policies.complaints import Complaint, PresetError, one_line

Table = dict[str, Any]

#: Finds the text a bundled name stands for: (its source, its text). Raises PresetError for a name it does not know.
Bundled = Callable[[str], tuple[str, str]]

_OWN = ("name", "description")
_PLACE = re.compile(r" \(at line (?P<line>\d+), column (?P<column>\d+)\)$")


def merged(parent: Mapping[str, Any], child: Mapping[str, Any]) -> Table:
    """The child's table laid over the parent's."""
    result = dict(parent)
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
    """The table of a preset's text laid over all that it extends, and all texts by their sources, its own first.

    ``extends`` is a bundled preset's name or a file relative to the one that names it. Raises PresetError.
    """
    tables, sources, texts = [_parsed(text, source)], [source], [text]
    while (parent := tables[-1].pop("extends", None)) is not None:
        parent_source, parent_text = _found(parent, sources[-1], bundled)
        if Path(parent_source).resolve() in [Path(one).resolve() for one in sources]:
            raise PresetError(f"{source}: extends: goes round in a circle: {' -> '.join([*sources, parent_source])}")
        sources.append(parent_source)
        texts.append(parent_text)
        inherited = _parsed(parent_text, parent_source)
        tables.append({key: value for key, value in inherited.items() if key not in _OWN})
    return reduce(merged, reversed(tables)), list(zip(sources, texts, strict=True))


def read_text(path: str | Path) -> str:
    """The text of a preset file. Raises PresetError in one line."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")  # some editors mark their files
    except OSError as error:
        raise PresetError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PresetError(f"{path}: cannot be read: not UTF-8 text") from None
    except ValueError:
        raise PresetError(f"{str(path)!r}: cannot be the name of a file") from None


def _parsed(text: str, source: str) -> Table:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also a number of more digits than Python reads
        complaint = _not_toml(str(error), source)
        raise PresetError(f"{one_line(source)}: {complaint}", [complaint]) from None


def _not_toml(error: str, source: str) -> Complaint:
    """tomllib says where in its text only."""
    place = _PLACE.search(error)
    if place is None:
        return Complaint("", one_line(f"not valid TOML: {error}"), file=source)
    what, line, column = error[: place.start()], int(place["line"]), place["column"]
    return Complaint("", one_line(f"not valid TOML: {what}, column {column}"), file=source, line=line)


def _found(parent: object, heir: str, bundled: Bundled) -> tuple[str, str]:
    try:
        if not isinstance(parent, str) or not parent:
            raise PresetError("must be the name of a bundled preset, or a file")
        if "/" not in parent and not parent.endswith(".toml"):
            return bundled(parent)
        path = str(Path(heir).parent / parent)
        return path, read_text(path)
    except PresetError as error:
        raise PresetError(one_line(f"{heir}: extends: {error}")) from None
