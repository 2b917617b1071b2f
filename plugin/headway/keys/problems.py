"""The errors of a keys file: where, what is wrong, and what to do. Of its values they hold names only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headway.errors import HeadwayError

#: The most errors that are reported.
MAX_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class Problem:
    """An error of a keys file.

    ``where`` is the dotted key, "" for the whole file. The tables of keys are counted from 1: ``keys.2.tenant`` is in
    the second. ``line`` is that of the table, where known.
    """

    where: str
    what: str
    remedy: str
    line: int | None = None

    def __str__(self) -> str:
        place = "" if self.line is None else f" (line {self.line})"
        return f"{self.where}{place}: {self.what}; {self.remedy}" if self.where else f"{self.what}; {self.remedy}"


class KeysFileError(HeadwayError):
    """A keys file that cannot be used. Its text is one line that names the file and all ``problems``."""

    def __init__(self, source: str, problems: Iterable[Problem]) -> None:
        self.source = source
        self.problems = tuple(problems)
        super().__init__(f"{_printable(source)}: {'; '.join(map(str, self.problems))}")

    def beginning(self, most: int) -> str:
        """The same with the first problems only, and the number of the others."""
        shown = [str(problem) for problem in self.problems[:most]]
        more = len(self.problems) - most
        return f"{_printable(self.source)}: {'; '.join([*shown, f'and {more} more'] if more > 0 else shown)}"


def bounded(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """At most ``MAX_PROBLEMS`` of them, each once, and how many more there are."""
    found = list(dict.fromkeys(problems))
    more = len(found) - MAX_PROBLEMS
    rest = [Problem("", f"and {more} more errors", "correct these first")] if more > 0 else []
    return (*found[:MAX_PROBLEMS], *rest)


def _printable(source: str) -> str:
    return source if source.isprintable() else repr(source)
