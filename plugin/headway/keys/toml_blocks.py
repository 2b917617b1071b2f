"""The text of a keys file as blocks: the lines of each [[keys]] table, found without a parser, and changes to them.

Everything else of the text stays as it is, comments too. A text may hide a table from such a search, in a string of
several lines for example: after a change the caller compares what a parser reads with what was wanted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from headway_policies.preset import Setting, toml_text

_KEYS_HEADER = re.compile(r"\s*\[\[\s*keys\s*\]\]\s*(#.*)?")
_HEADER = re.compile(r"\s*\[{1,2}[^\[\],]+\]{1,2}\s*(#.*)?")


def key_lines(text: str) -> list[int]:
    """The number of the line, from 1 on, on which each [[keys]] table begins."""
    return [number for number, line in enumerate(text.split("\n"), start=1) if _KEYS_HEADER.fullmatch(line)]


def with_table(text: str, header: str, values: Mapping[str, Setting | Sequence[str]]) -> str:
    """The text with a table at its end; ``header`` is its line, such as [[keys]]."""
    lines = [header, *(f"{name} = {toml_text(value)}" for name, value in values.items())]
    before = f"{text.rstrip()}\n\n" if text.strip() else ""
    return before + "\n".join(lines) + "\n"


def without_key(text: str, number: int) -> str:
    """The text without the [[keys]] table of this number, from 0 on; comments between its lines go with it."""
    lines = text.split("\n")
    begin, end = _block(lines, text, number)
    if end < len(lines) and not lines[end].strip():
        end += 1  # the blank line behind it
    return "\n".join(lines[:begin] + lines[end:])


def with_key_value(text: str, number: int, name: str, value: Setting) -> str:
    """The text with another value of one field of the [[keys]] table of this number, from 0 on."""
    lines = text.split("\n")
    begin, end = _block(lines, text, number)
    sets = re.compile(rf"\s*{re.escape(name)}\s*=.*")
    kept = [line for line in lines[begin:end] if not sets.fullmatch(line)]
    return "\n".join([*lines[:begin], *kept, f"{name} = {toml_text(value)}", *lines[end:]])


def with_fields(text: str, section: str, name: str, values: Mapping[str, Setting | None]) -> str | None:
    """The text with other values of dotted fields of the table [section.name]; a field of None is removed.

    Returns None where no line is the header of this table.
    """
    lines, quoted = text.split("\n"), re.escape(name)
    header = re.compile(rf'\s*\[\s*{section}\s*\.\s*(?:{quoted}|"{quoted}"|\'{quoted}\')\s*\]\s*(#.*)?')
    place = next((place for place, line in enumerate(lines) if header.fullmatch(line)), None)
    if place is None:
        return None
    begin, end = _block_from(lines, place)
    sets = re.compile(rf"\s*(?:{'|'.join(map(re.escape, values))})\s*=.*")
    kept = [line for line in lines[begin:end] if not sets.fullmatch(line)]
    added = [f"{field} = {toml_text(value)}" for field, value in values.items() if value is not None]
    return "\n".join([*lines[:begin], *kept, *added, *lines[end:]])


def _block(lines: list[str], text: str, number: int) -> tuple[int, int]:
    """The begin and end of a [[keys]] table."""
    return _block_from(lines, key_lines(text)[number] - 1)


def _block_from(lines: list[str], begin: int) -> tuple[int, int]:
    """The begin and end of the table with this header; comments and blank lines before the next one are not of it."""
    end = begin
    for place in range(begin + 1, len(lines)):
        if _HEADER.fullmatch(lines[place]):
            break
        if lines[place].strip() and not lines[place].lstrip().startswith("#"):
            end = place
    return begin, end + 1
