"""A finding: how bad it is, what was found, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """The severity of a finding: a server with a failing one does not start, or is not safe."""

    OK = "ok"
    INFO = "info"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """The finding in one line, and the remedy; the remedy is empty where all is well."""

    severity: Severity
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}" if self.remedy else self.what


def ok(what: str) -> Finding:
    """A finding that all is well."""
    return Finding(Severity.OK, what)


def info(what: str, remedy: str) -> Finding:
    """A finding that a choice of the user's has a price, and is right if that is wanted."""
    return Finding(Severity.INFO, what, remedy)


def warn(what: str, remedy: str) -> Finding:
    """A finding of something that works, but not as well or as safely as it could."""
    return Finding(Severity.WARN, what, remedy)


def fail(what: str, remedy: str) -> Finding:
    """A finding of something that does not work, or is not safe."""
    return Finding(Severity.FAIL, what, remedy)


def wrong(error: Exception, advice: str = "correct the variable, or unset it for the usual value") -> Finding:
    """A failing finding from an error of one line, with the error's own advice where it ends with one."""
    what, _, remedy = str(error).rpartition("; ")
    return fail(what, remedy) if what else fail(remedy, advice)


def failures(findings: Iterable[Finding]) -> list[str]:
    """The failing findings, a line each."""
    return [str(finding) for finding in findings if finding.severity is Severity.FAIL]


def worst(findings: Iterable[Finding]) -> Severity:
    """The highest severity of the findings; OK without findings."""
    ranked = list(Severity)
    return max((finding.severity for finding in findings), key=ranked.index, default=Severity.OK)
