"""The state of the fallback ladder: the current rung, and the trigger that caused it.

A trigger that has held for ``enter_s`` moves up one of its rungs at a time; after each ``leave_s`` of quiet it moves
one down. Between the two thresholds it does not move (hysteresis). The triggers move independently; the worst of them
determines the rung.

Bound: a trigger that stays quiet returns to the bottom of its N rungs after at most N * ``leave_s``, provided that the
ladder is updated often enough.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from headway_policies.fallback.rungs import RUNG_TRIGGERS, Fallback, FallbackSignals, Rung, Trigger, strength

_NOTHING: frozenset[Rung] = frozenset()


@dataclass(slots=True)
class TriggerState:
    """The rungs of one trigger, and how many of them are in force (``height``)."""

    rungs: tuple[Rung, ...]
    height: int = 0
    _since_s: float | None = None
    _rising: bool = False

    @property
    def rung(self) -> Rung:
        """The current rung."""
        return self.rungs[self.height - 1] if self.height else Rung.NORMAL

    @property
    def in_force(self) -> tuple[Rung, ...]:
        """All rungs up to the current one."""
        return self.rungs[: self.height]

    def update(self, strong: float, config: Fallback, now_s: float) -> None:
        """Move one rung up or down, where the condition has held for long enough."""
        rising, falling = strong >= 1.0, strong < config.leave_ratio
        if not (rising and self.height < len(self.rungs)) and not (falling and self.height):
            self._since_s = None
            return
        if self._since_s is None or rising != self._rising:
            self._since_s, self._rising = now_s, rising
        if now_s - self._since_s >= (config.enter_s if rising else config.leave_s):
            self.height += 1 if rising else -1
            self._since_s = now_s  # the next move needs its own time

    def refitted(self, rungs: tuple[Rung, ...]) -> TriggerState:
        """The state with these rungs instead; the current rung becomes no worse."""
        return TriggerState(rungs, height=sum(rung <= self.rung for rung in rungs))


class Ladder:
    """The states of all triggers, and the operator's override. ``rungs`` are those that have an effect."""

    def __init__(self, config: Fallback, rungs: Collection[Rung]) -> None:
        self._config = config
        self._usable = frozenset(rungs)
        self._states = {trigger: TriggerState(_rungs_of(trigger, self._usable)) for trigger in Trigger}
        self._ordered: Rung | None = None
        self.steps: Counter[tuple[Rung, Trigger]] = Counter()
        self.since_s = 0.0

    @property
    def rung(self) -> Rung:
        """The worst rung in force."""
        return self._worst() if self._ordered is None else self._ordered

    @property
    def in_force(self) -> frozenset[Rung]:
        """All rungs in force; a rung that every trigger skips is not."""
        if self._ordered is not None:
            return frozenset(rung for rung in self._usable | {self._ordered} if Rung.NORMAL < rung <= self._ordered)
        return _NOTHING.union(*(state.in_force for state in self._states.values()))

    @property
    def ordered(self) -> Rung | None:
        """The rung that the operator set; None in automatic mode."""
        return self._ordered

    @property
    def usable(self) -> tuple[Rung, ...]:
        """The rungs that have an effect under this preset, mildest first."""
        return tuple(sorted(self._usable))

    @property
    def why(self) -> Trigger | None:
        """The trigger of the current rung; None at ``normal``."""
        if self._ordered is not None:
            return Trigger.OPERATOR
        worst = self._worst()
        return next((trigger for trigger, state in self._states.items() if state.height and state.rung is worst), None)

    def update(self, signals: FallbackSignals, now_s: float) -> Rung:
        """Update all triggers; returns the rung from now on. Must be called a few times within ``enter_s``."""
        before, reason = self.rung, self.why
        for trigger, state in self._states.items():
            state.update(strength(trigger, signals, self._config), self._config, now_s)
        return self._moved(before, reason, now_s)

    def operator(self, rung: Rung | None, now_s: float) -> Rung:
        """Set the rung; None: automatic mode. Raises ValueError for a rung without effect."""
        if rung is not None and not self._may_be_ordered(rung):
            raise ValueError(f"{rung.word} has no effect: no class allows it, or what it needs is not configured")
        before, reason = self.rung, self.why
        self._ordered = rung
        return self._moved(before, reason or Trigger.OPERATOR, now_s)

    def under(self, config: Fallback, rungs: Collection[Rung], now_s: float) -> Ladder:
        """The ladder under another preset, with the counts of this one, which does not change.

        No rung gets worse; an operator's rung without effect there is dropped.
        """
        after = Ladder(config, rungs)
        after._states = {
            trigger: self._states[trigger].refitted(state.rungs) for trigger, state in after._states.items()
        }
        after._ordered = self._ordered if after._may_be_ordered(self._ordered) else None
        after.steps, after.since_s = self.steps.copy(), self.since_s
        after._moved(self.rung, self.why, now_s)
        return after

    def _may_be_ordered(self, rung: Rung | None) -> bool:
        return rung in (None, Rung.NORMAL, Rung.PAUSE, *self._usable)

    def _worst(self) -> Rung:
        return max(state.rung for state in self._states.values())

    def _moved(self, before: Rung, reason: Trigger | None, now_s: float) -> Rung:
        """Count a move, under the trigger that caused it or that became quiet."""
        after = self.rung
        if after is not before:
            cause = self.why if after > before or reason is None else reason
            self.steps[after, cause or Trigger.OPERATOR] += 1
            self.since_s = now_s
        return after


def _rungs_of(trigger: Trigger, usable: frozenset[Rung]) -> tuple[Rung, ...]:
    return tuple(rung for rung, triggers in RUNG_TRIGGERS.items() if trigger in triggers and rung in usable)
