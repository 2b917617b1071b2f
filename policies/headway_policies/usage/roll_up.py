"""The sums of records: by minute, hour and day in UTC, and by group.

Each record is in exactly one minute, one hour and one day: the rows of any period sum up to the records.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Set
from enum import IntEnum
from math import floor
from typing import Final

from headway_policies.usage.record import Figures, Group, UsageRecord

#: The tenant of the groups for which a period has no more rows.
OTHER: Final = "(other)"


class Period(IntEnum):
    """The length of a period in seconds."""

    MINUTE = 60
    HOUR = 3600
    DAY = 86_400

    def start_of(self, time_s: float) -> int:
        """The start of the period that a time is in, both in seconds since 1970."""
        return floor(time_s / self) * self


def folded(group: Group, named: Container[str] = ()) -> Group:
    """The group that replaces a group where a period has no more rows; the ``named`` tenants keep their names."""
    return group._replace(tenant=group.tenant if group.tenant in named else OTHER, key="", adapter="")


def roll_up(records: Iterable[UsageRecord]) -> Mapping[tuple[Period, int], Mapping[Group, Figures]]:
    """The sums of these records, by period, its start, and group."""
    minutes: dict[int, dict[Group, Figures]] = {}
    for record in records:
        _add(minutes.setdefault(Period.MINUTE.start_of(record.ended_s), {}), record.group, record.figures)
    rows: dict[tuple[Period, int], dict[Group, Figures]] = {}
    for start_s, groups in minutes.items():
        for period in Period:
            into = rows.setdefault((period, period.start_of(start_s)), {})
            for group, figures in groups.items():
                _add(into, group, figures)
    return rows


def bounded(
    groups: Mapping[Group, Figures], known: Set[Group], most: int, named: Container[str] = ()
) -> Mapping[Group, Figures]:
    """The sums of one period that has rows of these ``known`` groups, so that it has at most ``most`` rows beside those
    of ``OTHER`` and of the ``named`` tenants: groups beyond that are ``folded``.
    """
    room, kept = most - len(known), dict[Group, Figures]()
    for group, figures in groups.items():
        new = group not in known
        _add(kept, folded(group, named) if new and room <= 0 else group, figures)
        room -= new
    return kept


def total(figures: Iterable[Figures]) -> Figures:
    """The sum of all."""
    summed = Figures()
    for each in figures:
        summed = summed.plus(each)
    return summed


def _add(into: dict[Group, Figures], group: Group, figures: Figures) -> None:
    known = into.get(group)
    into[group] = figures if known is None else known.plus(figures)
