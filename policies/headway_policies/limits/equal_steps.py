"""Steps that are alike are reported as one: the mean of a few says as much to a fit as each of them.

A small engine makes hundreds of steps a second, and most of them run the same sequences once more. Steps are alike
where none computed a prompt, preempted a sequence or left one waiting, the same number of sequences ran, and a step
took between 1 / ``_FACTOR`` and ``_FACTOR`` times the mean of those before it: a pause, or another speed, is not
averaged away.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from headway_policies.limits.limit import Load

_MOST, _MOST_S = 8, 0.25
_FACTOR = 1.5


class StepReport(NamedTuple):
    """A step, or several that were alike, and the time of the last one."""

    load: Load
    at_s: float


class EqualSteps:
    """Collects at most ``_MOST`` steps within ``_MOST_S`` seconds."""

    def __init__(self) -> None:
        self._last: Load | None = None
        self._steps = 0
        self._step_s = self._first_s = self._last_s = 0.0

    def add(self, load: Load, now_s: float) -> list[StepReport]:
        """Add a step. Returns the reports that are complete by that, in their order."""
        plain = _plain(load) and load.steps < _MOST
        complete = [] if plain and self._continues(load, now_s) else self.take()
        if not plain:
            return [*complete, StepReport(load, now_s)]
        if self._last is None:
            self._first_s, self._step_s, self._steps = now_s, 0.0, 0
        self._last, self._last_s = load, now_s
        self._steps += load.steps
        self._step_s += ((load.inter_token_s or 0.0) - self._step_s) * load.steps / self._steps
        return complete if self._steps < _MOST else [*complete, *self.take()]

    def take(self) -> list[StepReport]:
        """The report of the steps so far, None without steps; the next step begins another report."""
        last, self._last = self._last, None
        if last is None:
            return []
        load = last if self._steps == last.steps else replace(last, inter_token_s=self._step_s, steps=self._steps)
        return [StepReport(load, self._last_s)]

    def _continues(self, load: Load, now_s: float) -> bool:
        """Whether a plain step is like those so far, and they are not too many with it."""
        last, step_s = self._last, load.inter_token_s
        return (
            last is not None
            and step_s is not None
            and load.running == last.running
            and load.rank == last.rank
            and load.gpu_busy_ratio == last.gpu_busy_ratio
            and self._step_s / _FACTOR < step_s < self._step_s * _FACTOR
            and self._steps + load.steps <= _MOST
            and now_s <= self._first_s + _MOST_S
        )


def _plain(load: Load) -> bool:
    """Whether a step gave each running sequence a token, and did nothing else."""
    return bool(load.inter_token_s) and not (
        load.prefill_tokens
        or load.first_tokens
        or load.preemptions
        or load.waiting
        or load.prefix_queried_tokens
        or load.prefix_cleared
    )
