"""The settings of log lines, from the server's environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self, TypeVar

from headway.errors import HeadwayError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LogSettings:
    """``content`` says that log lines may have prompts and outputs in them, ``json`` that each is a JSON object."""

    content: bool = False
    json: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read HEADWAY_LOG_CONTENT and HEADWAY_LOG_FORMAT. Raises HeadwayError in one line that names the variable."""
        return cls(
            content=_one_of(environment, "HEADWAY_LOG_CONTENT", {"0": False, "1": True}, "0"),
            json=_one_of(environment, "HEADWAY_LOG_FORMAT", {"text": False, "json": True}, "text"),
        )


def _one_of(environment: Mapping[str, str], variable: str, allowed: Mapping[str, T], usual: str) -> T:
    value = environment.get(variable) or usual
    if value not in allowed:
        raise HeadwayError(f"{variable}: {' or '.join(allowed)} is needed, not {value[:40]!r}")
    return allowed[value]
