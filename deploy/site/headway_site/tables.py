"""The common parts of the generated pages: their head, tables in Markdown, and the words that stand in TOML files."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
_MARK = "<!-- Written by `make reference`; change the code, or a table of deploy/site/headway_site, instead. -->"


def page(title: str, about: str, *parts: str) -> str:
    """A generated page: the mark, the heading, a sentence about it, and its parts."""
    return "\n\n".join((_MARK, f"# {title}", about, *parts)) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


def data(name: str, key: str) -> list[dict[str, Any]]:
    """The tables of one kind in a TOML file beside this module."""
    found: list[dict[str, Any]] = words(name)[key]
    return found


def words(name: str) -> dict[str, Any]:
    """A TOML file beside this module."""
    return tomllib.loads((HERE / f"{name}.toml").read_text(encoding="utf-8"))


def code(names: Iterable[str]) -> str:
    """Names as code, each on a line of its cell."""
    return "<br>".join(f"`{name}`" for name in names)
