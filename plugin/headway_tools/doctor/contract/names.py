"""The names of the contract, and what of them a release lacks.

A name is ``module:name``, ``module:Class.member`` or ``module:Class.method(parameter)``; ``a | b`` are alternatives, of
which a release has at least one.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headway_tools.doctor.contract.source import VllmSource

FILE: Final = Path(__file__).with_name("vllm.toml")
_NAME = re.compile(r"(?P<module>[\w.]+):(?P<owner>\w+)(?:\.(?P<member>\w+))?(?:\((?P<parameter>\w+)\))?")


@dataclass(frozen=True, slots=True)
class Name:
    """A name of vLLM. ``used_by`` are files of the adapter; without a ``needed`` one the adapter does without it."""

    text: str
    needed: bool
    used_by: tuple[str, ...]
    seen: tuple[str, ...] = ()

    @property
    def seen_words(self) -> str:
        """The first and the last release that has it."""
        return " to ".join(dict.fromkeys((self.seen[0], self.seen[-1]))) if self.seen else "no release"

    def is_in(self, source: VllmSource) -> bool:
        """Whether a release has it."""
        return any(_is_in(source, text) for text in self.text.split(" | "))


@dataclass(frozen=True, slots=True)
class Break:
    """A name that a release lacks, though the newest known one has it."""

    name: Name
    release: str

    def __str__(self) -> str:
        name = self.name
        effect = "needed by" if name.needed else "left out by"
        return f"vLLM {self.release} lacks {name.text} (seen in {name.seen_words}), {effect} {', '.join(name.used_by)}"


@dataclass(frozen=True, slots=True)
class Contract:
    """The contract's names, and the releases in which they were looked up, oldest first."""

    releases: tuple[str, ...]
    names: tuple[Name, ...]

    @classmethod
    def read(cls) -> Contract:
        """The committed contract."""
        found = tomllib.loads(FILE.read_text(encoding="utf-8"))
        releases = tuple(found["releases"])
        names = (
            Name(
                text,
                needed,
                tuple(row["by"]),
                tuple(release for release in releases if release not in row.get("not_in", ())),
            )
            for needed, rows in ((True, found["needed"]), (False, found["optional"]))
            for text, row in rows.items()
        )
        return cls(releases, tuple(names))


def breaks(contract: Contract, source: VllmSource) -> Iterator[Break]:
    """The names that this release lacks: the needed ones, then others that the newest known release has."""
    newest = contract.releases[-1]
    for name in sorted(contract.names, key=lambda name: not name.needed):
        if (name.needed or newest in name.seen) and not name.is_in(source):
            yield Break(name, source.version or "of an unknown version")


def _is_in(source: VllmSource, text: str) -> bool:
    found = _NAME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no name of the contract")
    module, owner, member, parameter = found["module"], found["owner"], found["member"], found["parameter"]
    if member is None:
        return owner in source.names(module)
    members = source.members(module, owner)
    return member in members and (parameter is None or parameter in (members[member] or ()))
