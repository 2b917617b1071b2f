"""The shares of one machine's seats between its models, by their demand.

    1. one seat for each model, with or without demand
    2. urgent models that are late, up to their demand
    3. all models, up to their demand
    4. what is left, as headroom for arrivals, up to the most that each engine can have

Each step fills by weight (``max_min``). The sum of the shares is never above ``total``, and no model is without a seat.

Others are paused for an urgent model while it is late, or at its peak of memory: seats do not help there, but its work
ends sooner, and with it what it holds. It is at that peak where it closes seats for its KV cache or its GPU, or where
its host's memory is more than ``_FULL_RATIO`` in use, and half of what was free at the best of times is gone.

An urgent model is late from ``_LATE_AT`` of its objective on, until it has been below ``_ON_TIME_AT`` for ``_CALM_S``.
The demand of a model falls only when it was lower for ``_CALM_S``; a share stays as it is until a share would change by
more than ``_BAND_RATIO``, and ``_HOLD_S`` have passed. A model that becomes late, comes or goes does not wait for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headway_policies.sharing.max_min import fill
from headway_policies.sharing.model_load import ModelLoad, Share
from headway_policies.sharing.pauses import ModelPause, PauseTerms
from headway_policies.sharing.recent_demand import RecentDemand

_LATE_AT: Final = 0.5
_ON_TIME_AT: Final = 0.25
_FULL_RATIO: Final = 0.9
_CALM_S: Final = 10.0
_HOLD_S: Final = 5.0
_BAND_RATIO: Final = 0.1


class _Model:
    """The memory of one model: its recent demand, whether it is late, and its pause."""

    def __init__(self, pauses: PauseTerms) -> None:
        self.pause = ModelPause(pauses)
        self.late = False
        self._late_s = 0.0
        self._least_usage_ratio = 1.0
        self.demand = RecentDemand()

    def lateness(self, load: ModelLoad, now_s: float) -> bool:
        """Whether the model is late; only urgent models are."""
        if not load.urgent:
            self.late = False
        elif load.late_ratio >= _LATE_AT or (self.late and load.late_ratio >= _ON_TIME_AT):
            self.late, self._late_s = True, now_s
        elif self.late and now_s - self._late_s >= _CALM_S:
            self.late = False
        return self.late

    def lacks_memory(self, load: ModelLoad) -> bool:
        """Whether the model is at its peak of memory."""
        self._least_usage_ratio = min(self._least_usage_ratio, load.host_usage_ratio)
        full_ratio = max(_FULL_RATIO, (1 + self._least_usage_ratio) / 2)
        return load.lacks_memory or load.host_usage_ratio > full_ratio


class SeatShares:
    """The decision, updated every second or so. ``now_s`` never runs backwards. Every name is remembered for good."""

    def __init__(self, pauses: PauseTerms | None = None) -> None:
        self._pauses = pauses or PauseTerms()
        self._models: dict[str, _Model] = {}
        self._seats: dict[str, int] = {}
        self._late: frozenset[str] = frozenset()
        self._changed_s = 0.0

    @property
    def late(self) -> frozenset[str]:
        """The urgent models that were late at the last update."""
        return self._late

    def update(self, loads: Mapping[str, ModelLoad], total: int, now_s: float) -> dict[str, Share]:
        """The share of each model. Raises ValueError where there are more models than seats; nothing changes then."""
        if len(loads) > total:
            raise ValueError(f"{len(loads)} models need a seat each, and there are {total}")
        for name in loads:  # one that is gone for a while is remembered: its pause goes on
            self._models.setdefault(name, _Model(self._pauses))
        demands = {
            name: int(self._models[name].demand.update(load.demand_seats, now_s, _CALM_S))
            for name, load in loads.items()
        }
        late = frozenset(name for name, load in loads.items() if self._models[name].lateness(load, now_s))
        short = {name for name, load in loads.items() if self._models[name].lacks_memory(load)}
        peaks = late | {name for name in short if loads[name].urgent}
        paused = {
            name
            for name, load in loads.items()
            if self._models[name].pause.update(bool(peaks) and load.may_pause and name not in peaks, now_s)
        }
        self._follow(self._ideal(loads, demands, late, paused, total), total, late, now_s)
        self._late = late
        return {name: Share(seats, name in paused) for name, seats in self._seats.items()}

    def _ideal(
        self,
        loads: Mapping[str, ModelLoad],
        demands: Mapping[str, int],
        late: frozenset[str],
        paused: set[str],
        total: int,
    ) -> dict[str, int]:
        """The shares without steadiness; a paused model has one seat."""
        weights = {name: load.weight for name, load in loads.items()}
        most = {name: 1 if name in paused else load.most_seats for name, load in loads.items()}
        wanted = {name: min(demands[name], most[name]) for name in loads}
        seats = dict.fromkeys(loads, 1)
        for caps in ({name: wanted[name] if name in late else 1 for name in loads}, wanted, most):
            seats = fill(seats, caps, weights, total - sum(seats.values()))
        return seats

    def _follow(self, ideal: dict[str, int], total: int, late: frozenset[str], now_s: float) -> None:
        """Adopt the ideal shares where they differ enough, or must."""
        seats = self._seats
        must = ideal.keys() != seats.keys() or sum(seats.values()) > total or bool(late - self._late)
        moved = must or any(abs(ideal[name] - seats[name]) > _BAND_RATIO * seats[name] for name in ideal)
        if must or (moved and now_s - self._changed_s >= _HOLD_S):
            if ideal != seats:
                self._changed_s = now_s
            self._seats = ideal
