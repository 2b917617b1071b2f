"""On which rung does service stand now, and why?

Up at once where a trigger has held for ``enter_s``, one rung of its own stair at a time; down one at a time, each after
``leave_s`` of quiet. Between the two thresholds nothing moves: that is the hysteresis. Several triggers climb and come
down each for itself, and the worst of them names the rung.

Bound: a trigger that falls quiet for good is back at the bottom of a stair of N rungs after at most N * ``leave_s``,
given that somebody looks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from headway_policies.fallback.rungs import CLIMBED_FOR, Fallback, FallbackSignals, Rung, Trigger, strength

_NOTHING: frozenset[Rung] = frozenset()


@dataclass(slots=True)
class TriggerState:
    """The rungs one trigger climbs, and how many of them it has."""

    rungs: tuple[Rung, ...]
    height: int = 0
    _since_s: float | None = None
    _rising: bool = False

    @property
    def rung(self) -> Rung:
        """Where it stands."""
        return self.rungs[self.height - 1] if self.height else Rung.NORMAL

    @property
    def climbed(self) -> tuple[Rung, ...]:
        """All rungs up to where it stands."""
        return self.rungs[: self.height]

    def update(self, strong: float, config: Fallback, now_s: float) -> None:
        """Go one rung up or down, when it has been time for it for long enough."""
        rising, falling = strong >= 1.0, strong < config.leave_ratio
        if not (rising and self.height < len(self.rungs)) and not (falling and self.height):
            self._since_s = None
            return
        if self._since_s is None or rising != self._rising:
            self._since_s, self._rising = now_s, rising
        if now_s - self._since_s >= (config.enter_s if rising else config.leave_s):
            self.height += 1 if rising else -1
            self._since_s = now_s  # the next one needs a time of its own

    def refit(self, rungs: tuple[Rung, ...]) -> None:
        """Other rungs from now on: stand no worse than before."""
        before = self.rung
        self.rungs, self._since_s = rungs, None
        self.height = sum(rung <= before for rung in rungs)


class Ladder:
    """All stairs of a preset, and the operator's word above them. ``rungs`` are those that change anything."""

    def __init__(self, config: Fallback, rungs: Collection[Rung]) -> None:
        self._config = config
        self._usable = frozenset(rungs)
        self._stairs = {trigger: TriggerState(_stair(trigger, self._usable)) for trigger in Trigger}
        self._ordered: Rung | None = None
        self.steps: Counter[tuple[Rung, Trigger]] = Counter()
        self.since_s = 0.0

    @property
    def rung(self) -> Rung:
        """The worst rung in force."""
        return self._worst() if self._ordered is None else self._ordered

    @property
    def in_force(self) -> frozenset[Rung]:
        """All rungs in force; what none of the triggers climbed is not."""
        if self._ordered is not None:
            return frozenset(rung for rung in self._usable | {self._ordered} if Rung.NORMAL < rung <= self._ordered)
        return _NOTHING.union(*(stair.climbed for stair in self._stairs.values()))

    @property
    def ordered(self) -> Rung | None:
        """Where an operator has put it; None while it moves by itself."""
        return self._ordered

    @property
    def usable(self) -> tuple[Rung, ...]:
        """The rungs that change anything under this preset, from the mildest on."""
        return tuple(sorted(self._usable))

    @property
    def why(self) -> Trigger | None:
        """Which trigger has brought it to its rung; None on the ground."""
        if self._ordered is not None:
            return Trigger.OPERATOR
        worst = self._worst()
        return next((one for one, stair in self._stairs.items() if stair.height and stair.rung is worst), None)

    def update(self, signs: FallbackSignals, now_s: float) -> Rung:
        """Weigh the signs; returns the rung from now on. To be asked a few times within ``enter_s``."""
        before, reason = self.rung, self.why
        for trigger, stair in self._stairs.items():
            stair.update(strength(trigger, signs, self._config), self._config, now_s)
        return self._moved(before, reason, now_s)

    def operator(self, rung: Rung | None, now_s: float) -> Rung:
        """Stand on a rung until told otherwise; None: move by itself again. Raises ValueError for a useless rung."""
        if rung is not None and rung not in self._usable | {Rung.NORMAL, Rung.PAUSE}:
            raise ValueError(f"{rung.word} would change nothing: no class allows it, or what it needs is not there")
        before, reason = self.rung, self.why
        self._ordered = rung
        return self._moved(before, reason or Trigger.OPERATOR, now_s)

    def switch(self, config: Fallback, rungs: Collection[Rung], now_s: float) -> Rung:
        """Another preset is in force. Nobody climbs for that; an order that is useless now is dropped."""
        before, reason = self.rung, self.why
        self._config, self._usable = config, frozenset(rungs)
        for trigger, stair in self._stairs.items():
            stair.refit(_stair(trigger, self._usable))
        if self._ordered not in (None, Rung.NORMAL, Rung.PAUSE) and self._ordered not in self._usable:
            self._ordered = None
        return self._moved(before, reason, now_s)

    def _worst(self) -> Rung:
        return max(stair.rung for stair in self._stairs.values())

    def _moved(self, before: Rung, reason: Trigger | None, now_s: float) -> Rung:
        """Count a move: under the trigger that brought it here, or the one that let go."""
        after = self.rung
        if after is not before:
            cause = self.why if after > before or reason is None else reason
            self.steps[after, cause or Trigger.OPERATOR] += 1
            self.since_s = now_s
        return after


def _stair(trigger: Trigger, usable: frozenset[Rung]) -> tuple[Rung, ...]:
    return tuple(rung for rung, triggers in CLIMBED_FOR.items() if trigger in triggers and rung in usable)
