"""The operator's demands on commands beyond a token: from the server's environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from headway.errors import HeadwayError

_REASON = "HEADWAY_REQUIRE_REASON"


@dataclass(frozen=True, slots=True)
class AdminRules:
    """The rules in force. ``require_reason``: whether a command must have a reason and a name."""

    require_reason: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> AdminRules:
        """Read the environment. Raises HeadwayError in one line that names the variable."""
        value = (os.environ if environment is None else environment).get(_REASON) or "0"
        if value not in ("0", "1"):
            raise HeadwayError(f"{_REASON}: 1 or 0 is needed, not {value[:40]!r}")
        return cls(require_reason=value == "1")
