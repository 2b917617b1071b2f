"""The speed of the engine in the last half hour, as sums of its steps over stretches of two seconds.

Nothing is judged when a step is recorded: the sums are compared with a step time that is known later. How unsteady the
engine is has two numbers, both from the logarithm of (measured / predicted) of each stretch: how far it strays, and for
how long at a time. The second is the time for which noise must be constant, before it is drawn anew, to stray over
blocks of ``BLOCK`` stretches as far as was measured (batch means; Conway, Management Science 1963). The block is one
stretch where each strays by itself, and the whole block where the engine is slow for minutes.

Weak spots: what varies within a stretch is averaged out, and what lasts longer than a block counts as if it lasted for
one. A step time that fits badly makes a steady engine look unsteady; a forecast from it is as uncertain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import expm1, log, sqrt
from statistics import fmean, variance

from headway.recorder.ring import Ring
from headway_policies import Load
from headway_policies.limits import StepTime

STRETCH_S = 2.0
BLOCK = 16
_ROWS = 900
_MIN_STEPS, _MIN_STRETCHES, _MIN_BLOCKS = 4, 8, 4
_MOST_RATIO = 2.0


@dataclass(frozen=True, slots=True)
class Unsteadiness:
    """The variation of the time of steps around the predicted one: its coefficient, and its length in time."""

    ratio: float
    hold_s: float


class SpeedLog:
    """The stretches of one engine; times are those of the gate's clock, and only grow. A step costs a microsecond."""

    def __init__(self) -> None:
        self._ring = Ring("dIdQQ", _ROWS)  # begin, steps, their seconds, sequences in them, prompt tokens in them
        self._stretch = 0
        self._steps = self._running = self._prefill_tokens = 0
        self._seconds = 0.0

    def stepped(self, load: Load, now_s: float) -> None:
        """Record a step of the engine. A step with preemptions is left out: its time includes a wait."""
        step_s = load.inter_token_s
        if step_s is None or load.preemptions or load.running <= 0:
            return
        stretch = int(now_s // STRETCH_S)
        if stretch != self._stretch:
            self._close()
            self._stretch = stretch
        self._steps += load.steps
        self._seconds += load.steps * step_s
        self._running += load.steps * load.running
        self._prefill_tokens += load.prefill_tokens

    def unsteadiness(self, costs: StepTime, since_s: float) -> Unsteadiness:
        """The unsteadiness of the engine since then, against these costs; a ratio of 0 while too little is known."""
        strays = self._strays(costs, since_s)
        if len(strays) < _MIN_STRETCHES:
            return Unsteadiness(0.0, STRETCH_S)
        spread = variance(strays)
        return Unsteadiness(min(sqrt(expm1(spread)), _MOST_RATIO), _hold_s(strays, spread))

    def _close(self) -> None:
        """Keep the open stretch, where it has steps enough for a mean."""
        if self._steps >= _MIN_STEPS:
            begin_s = self._stretch * STRETCH_S
            self._ring.add(begin_s, self._steps, self._seconds, self._running, self._prefill_tokens)
        self._steps = self._running = self._prefill_tokens = 0
        self._seconds = 0.0

    def _strays(self, costs: StepTime, since_s: float) -> list[float]:
        """The logarithm of measured / predicted, of each stretch since then."""
        _, steps, seconds, running, prefill_tokens = self._ring.copy(self._ring.before(since_s))
        base_s, sequence_s, token_s = costs.base_s, costs.sequence_s, costs.prefill_token_s
        rows = zip(seconds, steps, running, prefill_tokens, strict=True)
        predicted = [
            (took_s, base_s * count + sequence_s * ran + token_s * tokens) for took_s, count, ran, tokens in rows
        ]
        return [log(took_s / predicted_s) for took_s, predicted_s in predicted if took_s > 0 and predicted_s > 0]


def _hold_s(strays: Sequence[float], spread: float) -> float:
    """The time for which noise holds: the variance of block means is that of the stretches times (hold / block)."""
    means = [fmean(strays[at : at + BLOCK]) for at in range(0, len(strays) - BLOCK + 1, BLOCK)]
    if len(means) < _MIN_BLOCKS or not spread:
        return STRETCH_S
    return STRETCH_S * min(max(BLOCK * variance(means) / spread, 1.0), BLOCK)
