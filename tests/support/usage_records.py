"""Records of requests, as an accounting gets them, and the sums in its database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from headway.usage import UsageLog, UsageStore
from headway_policies.usage import Figures, Group, Period, UsageRecord, total

NOW_S = 1_800_000_000.0
_NAMES = {"key": "k", "class_name": "normal", "model": "m", "adapter": "", "outcome": "completed", "reason": ""}


def usage_record(tenant: str = "a", ended_s: float = NOW_S, **given: Any) -> UsageRecord:
    """A request of a tenant; ``given`` are other names of its group, and its figures."""
    group = Group(tenant, **{name: given.pop(name, usual) for name, usual in _NAMES.items()})
    return UsageRecord(ended_s, group, Figures(1, int(group.reason != ""), **given))


def record(tenant: str = "a", ended_s: float = NOW_S, tokens: int = 10, **given: Any) -> UsageRecord:
    """A request of a tenant."""
    return usage_record(tenant, ended_s, prompt_tokens=tokens, output_tokens=2, seat_s=0.5, **given)


def sums(path: Path, period: Period) -> Figures:
    """The sum over all rows of one kind of period."""
    with closing(sqlite3.connect(path)) as connection:
        names = ", ".join(Figures._fields)
        rows = connection.execute(f"SELECT {names} FROM usage WHERE period = ?", (period,)).fetchall()
    return total(map(Figures._make, rows))


def requests(path: Path) -> Figures:
    """The sum over the table of requests."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT reason, requests.* FROM requests").fetchall()
    return total(Figures(1, int(reason != ""), *row[1 + len(Group._fields) :]) for reason, *row in rows)


@contextmanager
def opened(path: Path, every_s: float = 0.01) -> Iterator[UsageLog]:
    """An accounting that writes at once, and is closed at the end."""
    usage = UsageLog(UsageStore(path), every_s=every_s)
    try:
        yield usage
    finally:
        usage.close()
