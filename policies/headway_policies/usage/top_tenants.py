"""The tenants that have a label of their own in the metrics: a bounded number, those with the most recent tokens.

All others share the label of ``OTHER``. Counters must not decrease: a tenant that gets a label begins at 0, and its
earlier use stays with the others; when a tenant loses its label, its series ends. So the sum over all labels is the sum
over all tenants as long as no label was given away, and the sum of their rates is always that of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headway_policies.usage.record import Figures
from headway_policies.usage.roll_up import OTHER

#: A tenant gets the label of another one when its recent use is this many times as large.
_CLEARLY: Final = 2.0
#: The weight of earlier use falls by this factor at each review.
_KEPT: Final = 0.5
#: The tenants without a label that are compared at a review, for each label.
_CANDIDATES: Final = 32


@dataclass(slots=True)
class TenantCounts:
    """The counts behind one label."""

    figures: Figures = field(default_factory=Figures)
    recent: float = 0.0


class TopTenants:
    """The counts of the labelled tenants and of all others. ``review`` assigns the labels anew; called regularly."""

    def __init__(self, most: int = 32) -> None:
        self._most = most
        self._named: dict[str, TenantCounts] = {}
        self._other = Figures()
        self._candidates: dict[str, float] = {}

    def add(self, tenant: str, figures: Figures) -> None:
        """Count what a tenant has used."""
        used = figures.requests + figures.prompt_tokens + figures.output_tokens
        counts = self._named.get(tenant)
        if counts is None and tenant != OTHER and len(self._named) < self._most:
            counts = self._named[tenant] = TenantCounts()
        if counts is not None:
            counts.figures = counts.figures.plus(figures)
            counts.recent += used
            return
        self._other = self._other.plus(figures)
        if tenant == OTHER:
            return
        if tenant in self._candidates or len(self._candidates) < _CANDIDATES * self._most:
            self._candidates[tenant] = self._candidates.get(tenant, 0.0) + used

    def review(self) -> None:
        """Move the labels of tenants with little use to tenants with clearly more."""
        for tenant in sorted(self._candidates, key=self._candidates.__getitem__, reverse=True)[: self._most]:
            least = min(self._named, key=lambda name: self._named[name].recent)
            if self._candidates[tenant] <= _CLEARLY * self._named[least].recent:
                continue
            del self._named[least]
            self._named[tenant] = TenantCounts(recent=self._candidates[tenant])
        self._candidates.clear()
        for counts in self._named.values():
            counts.recent *= _KEPT

    def counts(self) -> Mapping[str, Figures]:
        """The figures of each label."""
        return {**{tenant: counts.figures for tenant, counts in self._named.items()}, OTHER: self._other}
