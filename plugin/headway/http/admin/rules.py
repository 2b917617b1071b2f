"""The operator's demands on commands beyond a token."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AdminRules:
    """The rules in force. ``require_reason``: whether a command must have a reason and a name."""

    require_reason: bool = False
