"""Records of requests, as an accounting gets them."""

from __future__ import annotations

from typing import Any

from headway_policies.usage import Figures, Group, UsageRecord

NOW_S = 1_800_000_000.0
_NAMES = {"key": "k", "class_name": "normal", "model": "m", "adapter": "", "outcome": "completed", "reason": ""}


def usage_record(tenant: str = "a", ended_s: float = NOW_S, **given: Any) -> UsageRecord:
    """A request of a tenant; ``given`` are other names of its group, and its figures."""
    group = Group(tenant, **{name: given.pop(name, usual) for name, usual in _NAMES.items()})
    return UsageRecord(ended_s, group, Figures(1, int(group.reason != ""), **given))
