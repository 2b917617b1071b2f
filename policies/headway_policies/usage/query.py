"""A query for sums: a range of time, the groups, and the period of each row.

A query without a period sums up minutes, hours or days: the finest that are usually kept for the whole range. A range
begins and ends with a period.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from math import ceil
from typing import Final

from headway_policies.usage.roll_up import Period

#: By their names in a query: the columns by which sums can be grouped.
DIMENSIONS: Final = ("tenant", "key", "class", "model", "adapter", "outcome", "reason")
PERIODS: Final = {"minute": Period.MINUTE, "hour": Period.HOUR, "day": Period.DAY}
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
#: The longest range that is summed up from a period.
_FINEST: Final = ((Period.MINUTE, 2 * 86_400), (Period.HOUR, 60 * 86_400))
_MOST_S: Final = 100 * 366 * 86_400
_LATEST_S: Final = 250 * 366 * 86_400
_MOST_CHARS: Final = 40
_MAX_TENANT_CHARS: Final = 128
USUAL: Final = {"since": "1d", "by": "tenant"}


class QueryError(ValueError):
    """A query that cannot be answered; the text names the parameter and a right value."""


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """The sums from ``since_s`` until ``until_s``, seconds since 1970, from the rows of ``period``.

    ``every``: a row for each period; else one for the whole range. ``by`` are ``DIMENSIONS``. ``tenant`` None: all.
    """

    since_s: int
    until_s: int
    period: Period
    every: bool
    by: tuple[str, ...]
    tenant: str | None = None

    def by_longer(self) -> UsageQuery | None:
        """The same by the next longer periods; None where every row is of a period, or there are none."""
        period = next((longer for longer in Period if longer > self.period), None)
        if period is None or self.every:
            return None
        return replace(
            self, since_s=period.start_of(self.since_s), until_s=ceil(self.until_s / period) * period, period=period
        )


def read_query(given: Mapping[str, str], now_s: float) -> UsageQuery:
    """Read the parameters ``since``, ``until``, ``every``, ``by`` and ``tenant``. Raises QueryError.

    A time is ISO 8601 with a zone, or a length of time before now: ``90s``, ``30m``, ``12h``, ``7d``, ``4w``.
    """
    since_s = _time_s("since", given.get("since", USUAL["since"]), now_s)
    until_s = _time_s("until", given["until"], now_s) if "until" in given else now_s
    if not since_s < until_s:
        raise QueryError("since: a time before until is needed")
    every = given.get("every")
    if every is not None and every not in PERIODS:
        raise QueryError(f"every: one of {', '.join(PERIODS)} is needed")
    period = PERIODS[every] if every is not None else _finest(since_s, now_s)
    tenant = given.get("tenant")
    if tenant is not None and len(tenant) > _MAX_TENANT_CHARS:
        raise QueryError(f"tenant: at most {_MAX_TENANT_CHARS} characters are allowed")
    return UsageQuery(
        period.start_of(since_s), ceil(until_s / period) * period, period, every is not None, _by(given), tenant
    )


def _by(given: Mapping[str, str]) -> tuple[str, ...]:
    names = tuple(name for word in given.get("by", USUAL["by"]).split(",") if (name := word.strip()))
    if any(name not in DIMENSIONS for name in names) or len(set(names)) != len(names):
        raise QueryError(f"by: some of {', '.join(DIMENSIONS)} are needed, each once, with commas")
    return names


def _finest(since_s: float, now_s: float) -> Period:
    """The finest period that is kept for as long as a range goes back."""
    for period, most_s in _FINEST:
        if now_s - since_s <= most_s:
            return period
    return Period.DAY


def _time_s(name: str, text: str, now_s: float) -> float:
    wrong = QueryError(f"{name}: a time such as 2026-01-31T12:00:00Z, or so long ago such as 30m, 12h or 7d is needed")
    if len(text) > _MOST_CHARS:
        raise wrong
    number, unit_s = text[:-1], _UNITS.get(text[-1:])
    if unit_s is not None and number.isascii() and number.isdecimal() and len(number) <= 9:
        ago_s = int(number) * unit_s
        if ago_s > _MOST_S:
            raise wrong
        return now_s - ago_s
    try:
        time = datetime.fromisoformat(text)
        if time.utcoffset() is None or not 0 <= time.timestamp() < _LATEST_S:
            raise wrong
        return time.timestamp()
    except (ValueError, OverflowError):
        raise wrong from None
