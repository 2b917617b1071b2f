"""The step time of an engine over its whole range: single steps, remembered by the number of running sequences.

A fit that forgets by time knows, after a minute at a hundred sequences, no longer what one sequence costs: the fixed
cost of a step and that of its sequences can be told apart only by steps with few and with many. So the steps are kept
in octaves of the number running, 1, 2 to 3, 4 to 7 and so on (stratified sampling): each octave has the normal
equations of about its last ``_MEMORY`` steps, however long ago they were, and the costs are the least squares over all
octaves. Each is weighted by the inverse square of the time expected of it: steps vary by a share of their length, and
a few with long prompts would else outweigh all others.

The first steps of an engine may be made at another speed than the later ones, and too few are known then to tell. So a
young octave has the mean of its steps, until the weight of each is one in ``_MEMORY``. One of a few steps, all long
ago, is dropped.

An octave that is not visited has to follow when the engine becomes slower or faster. So steps are kept in units of a
*speed*, common to all octaves, which follows the error of each step by exponential smoothing. Its gain adapts (Trigg
and Leach, Operational Research Quarterly 1967): the more alike the signs of the recent errors are, the more of each is
a change of speed, and the less is noise. While they are alike no step is learnt: an octave would take a speed that is
not yet found for its own.

What is expected of a step is what the costs over all octaves say, and the more of its own octave is known, the more
what that one has shown: a cost that is not linear is no change of speed. A young octave must not decide that alone. One
that was seen for the first time during a slow spell would be learnt as slow, and the end of the spell be taken for a
change to a speed that the engine never had.

What prompts cost is not known after a warm-up that computes them apart. Steps with prompts are learnt once steps
without any have shown that the speed is settled: the cost of a prompt and a slow spell look alike.

Weak spots: where few octaves are known, as without a warm-up, a change of speed and a cost of the octave cannot be told
apart; and where the costs change other than in proportion, the speed takes the difference at first, and the octaves
learn it within some ``_MEMORY`` steps of theirs.
"""

from __future__ import annotations

from collections import deque
from math import inf
from statistics import median

from headway_policies.limits.step_time import StepTime, StepTimeFit

_MEMORY = 512
_LATELY = 3
_SOLVE_STEPS = 8
_LEAST_SAMPLES = 8
_KEPT_STEPS = 128
_UNEXPECTED = 4.0  # what is expected of a step is at least this part of its time
_PATIENCE = 8  # so many steps with prompts count as one that shows a settled speed
_OWN_SAMPLES = 256  # with so many, what an octave has shown counts half
_AVERAGED = 6
_GAIN, _MOST_GAIN = 1 / 12, 0.48
_USUAL_ALIKE = 0.7  # noise alone makes recent errors so alike
_USUAL_NOISE = 0.1
_LEAST_NOISE = 0.03
#: Relative errors: so large a mean of the recent ones is a change; a step alone that takes more than a pause is one.
_CHANGE = 0.07
_PAUSE = 2.0
_LEAST_ERROR, _MOST_ERROR = -0.8, 3.0


class StepProfile:
    """Learns single steps. ``samples`` counts those that were learnt; ``costs`` is the fit over all octaves."""

    def __init__(self) -> None:
        self.samples = 0
        self._with_prompts = 0  # of these
        self._speed = 1.0  # seconds a unit
        self._octaves: dict[int, StepTimeFit] = {}
        self._visited: dict[int, int] = {}  # when each was seen last, in samples
        self._all = StepTimeFit()
        self._solved = StepTime(0.0, 0.0, 0.0)
        self._settled = 0.0  # steps since the speed changed
        self._lately: deque[float] = deque(maxlen=_LATELY)
        self._error = 0.0  # the mean of the recent relative errors, and that of their sizes
        self._error_size = _USUAL_NOISE

    def add(self, running: int, prefill_tokens: int, step_s: float) -> None:
        """Add a step with so many running sequences, at least 1, and so many prompt tokens.

        A time that is not finite and positive is ignored.
        """
        if 0 < step_s < inf and self._follow(running, prefill_tokens, step_s):
            self._learn(running, prefill_tokens, step_s / self._speed)

    def start_from(self, costs: StepTime) -> None:
        """Take these costs for the first solution."""
        self._all.start_from(costs)
        self._solved = costs

    @property
    def costs(self) -> StepTime:
        """The costs of a step at the present speed."""
        return self._solved.times(self._speed)

    @property
    def token_s(self) -> float:
        """The time between tokens of a single sequence: as measured, or by the costs where none has run so far."""
        alone, costs = self._octaves.get(1), self._solved
        if alone is not None and alone.samples >= _LEAST_SAMPLES:
            return self._speed * max(alone.mean_s - costs.prefill_token_s * alone.mean_prefill_tokens, 0.0)
        return self._speed * (costs.base_s + costs.sequence_s)

    def _learn(self, running: int, prefill_tokens: int, units: float) -> None:
        """Learn a step in units of the speed."""
        number = running.bit_length()
        octave = self._octaves.get(number)
        if octave is None:
            octave = self._octaves[number] = StepTimeFit()
        octave.forgetting = 1 - max(1 / _MEMORY, 1 / (octave.samples + 1))
        expected = max(self._solved.step_s(running, prefill_tokens), units / _UNEXPECTED)
        octave.add(running, prefill_tokens, units, expected**-2)
        self.samples += 1
        self._with_prompts += prefill_tokens > 0
        self._visited[number] = self.samples
        if self.samples % _SOLVE_STEPS == 0 or self.samples < _SOLVE_STEPS:
            self._forget()
            self._all.take(self._octaves.values())
            self._solved = self._all.solve()

    def _forget(self) -> None:
        """Drop the octaves of few steps, all long ago: their speed was never compared with another's."""
        for number, octave in list(self._octaves.items()):
            if octave.samples < _LEAST_SAMPLES and self.samples - self._visited[number] > _KEPT_STEPS:
                del self._octaves[number]

    def _follow(self, running: int, prefill_tokens: int, step_s: float) -> bool:
        """Let the speed follow a step. Whether the step may be learnt: no pause, and no change of speed."""
        expected = self._expected(running, prefill_tokens)
        if expected <= 0 or not self._comparable():
            return True
        if prefill_tokens and self._with_prompts < _LEAST_SAMPLES:
            self._settled += 1 / _PATIENCE
            return self._settled >= _LEAST_SAMPLES
        error = step_s / (expected * self._speed) - 1
        self._lately.append(error)
        if error > _PAUSE > median(self._lately):
            return False
        error = max(_LEAST_ERROR, min(error, _MOST_ERROR))
        self._error += (error - self._error) / _AVERAGED
        self._error_size += (abs(error) - self._error_size) / _AVERAGED
        alike = min(1.0, abs(self._error) / max(self._error_size, _LEAST_NOISE))
        change = _GAIN + (_MOST_GAIN - _GAIN) * max(0.0, (alike - _USUAL_ALIKE) / (1 - _USUAL_ALIKE)) ** 2
        self._speed *= 1 + change * error
        steady = abs(self._error) < _CHANGE
        self._settled = self._settled + 1 if steady else 0.0
        return steady

    def _comparable(self) -> bool:
        """Whether enough is known to expect a time of a step: two octaves, to tell the costs by."""
        return sum(octave.samples >= _LEAST_SAMPLES for octave in self._octaves.values()) > 1

    def _expected(self, running: int, prefill_tokens: int) -> float:
        """The units expected of a step: by all octaves, and by its own one as far as that is known."""
        expected = self._solved.step_s(running, prefill_tokens)
        own = self._octaves.get(running.bit_length())
        near = own.near(self._solved, running, prefill_tokens) if own is not None else 0.0
        if own is None or near <= 0 or expected <= 0:
            return expected
        return float(expected * (near / expected) ** (own.samples / (own.samples + _OWN_SAMPLES)))
