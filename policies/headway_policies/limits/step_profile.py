"""The step time of an engine over its whole range, from single steps: a Kalman filter of the three costs of a step.

step = base + sequence * running + prefill_token * prefill_tokens, with the costs of ``step_time``. A fit that forgets
by time knows, after a minute at a hundred sequences, no longer what one sequence costs, since steps of one size cannot
tell the costs apart. So nothing is forgotten by time here. Two things move the costs (Kalman, J. Basic Engineering
1960; a covariance says how sure each is, and which of them could make up for another):

* the engine becomes slower or faster: all costs grow by one factor. This noise is rank one, along the costs themselves,
  so the proportions between them stay as they were learnt, for a load that was not seen for hours too;
* each cost drifts by itself, a thousandth a step.

A step that takes longer than expected is attributed to the costs in proportion to how unsure each is. Of a load that
was never seen the cost of a sequence or of a prompt token is less sure than the speed, which was right at the last
step: so less of an overload that follows a start is taken for an engine that became slower.

The noise of the speed adapts (Trigg and Leach, Operational Research Quarterly 1967): the more alike the signs of the
recent errors are, the more of each is a change of speed. A change of half is followed within some ten steps. The noise
of the steps themselves is measured. A step alone that takes three times as long as expected is a pause, and ignored.

Weak spots: the model is linear, and attention grows with the context: where that is much of a step, and contexts are
longer than those that were seen, part of it counts as speed until other loads are seen. Before the second load the
costs have the proportions of ``_SHAPE``.
"""

from __future__ import annotations

from collections import deque
from math import inf, sqrt
from statistics import median

from headway_policies.limits.step_time import StepTime

_STEADY, _CHANGING = 7e-5, 0.12  # the variance of the speed a step, as a share of it
_DRIFT = 1e-3  # of each cost a step, as a share
_AVERAGED = 6  # recent errors
_USUAL_ALIKE = 0.7  # noise alone makes recent errors so alike
_LEAST_ERRORS = 0.4  # the mean size of the errors is taken for at least this, in standard deviations
_CHANGE = 4.0  # the square of a mean error that is a change of speed for sure
_MOST_ERROR = 10.0
#: The noise of a step as a share of its time: at first, and the least; followed over so many steps.
_FIRST_NOISE, _LEAST_NOISE, _NOISE_STEPS = 0.08, 0.06, 32
_MOST_NOISE = 0.3
_DEVIATIONS = 1.25  # standard deviations in a mean deviation
_PAUSE, _LATELY = 2.0, 3
_UNEXPECTED = 4.0  # what is expected of a step is at least this part of its time
_MOST_MOVE = 1.5  # a step moves what is expected by at most this share of it
_LEAST_PART = 0.01  # a cost drifts as if it were at least this part of the step
#: The proportions before the second load is seen, and how unsure they are, as a share.
_SHAPE = (16.0, 1.0, 1.0)
_UNSURE, _UNSURE_RECALLED = 6.0, 1.0
_THREE = range(3)


class StepProfile:
    """Learns single steps. ``samples`` counts those that were learnt."""

    def __init__(self) -> None:
        self.samples = 0
        self._costs = [0.0, 0.0, 0.0]
        self._covariance = [[0.0] * 3 for _ in _THREE]
        self._prompts = False
        self._noise = _FIRST_NOISE
        self._lately: deque[float] = deque(maxlen=_LATELY)
        self._error = 0.0  # the mean of the recent errors in standard deviations, and that of their sizes
        self._error_size = 1.0

    def add(self, running: int, prefill_tokens: int, step_s: float) -> None:
        """Add a step with so many running sequences, at least 1, and so many prompt tokens.

        A time that is not finite and positive is ignored, and so is a single pause.
        """
        if not 0 < step_s < inf:
            return
        load = (1.0, running, prefill_tokens)
        if not any(self._costs):
            size = step_s / sum(part * number for part, number in zip(_SHAPE, load, strict=True))
            self._take([size * part for part in _SHAPE], _UNSURE)
        predicted_s = sum(cost * number for cost, number in zip(self._costs, load, strict=True))
        expected_s = max(predicted_s, step_s / _UNEXPECTED)
        error = step_s / expected_s - 1
        self._lately.append(error)
        if error > _PAUSE > median(self._lately):
            return
        self.samples += 1
        self._prompts = self._prompts or prefill_tokens > 0
        self._learn(load, expected_s, error, step_s - predicted_s)

    def start_from(self, costs: StepTime) -> None:
        """Take these costs for the first ones."""
        self._prompts = True
        self._take([costs.base_s, costs.sequence_s, costs.prefill_token_s], _UNSURE_RECALLED)

    @property
    def costs(self) -> StepTime:
        """The costs of a step at the present speed; a prompt token costs nothing until one was computed."""
        base_s, sequence_s, prefill_token_s = self._costs
        return StepTime(base_s, sequence_s, prefill_token_s if self._prompts else 0.0)

    @property
    def token_s(self) -> float:
        """The time between tokens of a single sequence at the present speed."""
        return self._costs[0] + self._costs[1]

    def _take(self, costs: list[float], unsure: float) -> None:
        """Take these costs, each unsure by so large a share of it."""
        self._costs = costs
        self._covariance = [[(unsure * costs[i]) ** 2 if i == j else 0.0 for j in _THREE] for i in _THREE]

    def _learn(self, load: tuple[float, int, int], expected_s: float, error: float, missing_s: float) -> None:
        """Move the costs by a step that took ``missing_s`` longer than they say, a share ``error`` of what was
        expected.
        """
        costs, covariance = self._costs, self._covariance
        spread = [sum(row[j] * load[j] for j in _THREE) for row in covariance]
        noise = (self._noise * expected_s) ** 2
        changing = self._changing(error, expected_s / sqrt(_dot(spread, load) + noise))
        for i in _THREE:
            row, part = covariance[i], changing * costs[i]
            for j in _THREE:
                row[j] += part * costs[j]
            least = _LEAST_PART * expected_s / load[i] if load[i] else 0.0
            row[i] += (_DRIFT * max(costs[i], least)) ** 2
        spread = [sum(row[j] * load[j] for j in _THREE) for row in covariance]
        most_s = _MOST_MOVE * expected_s
        trusted = min(1.0, most_s / abs(missing_s)) if missing_s else 1.0
        weight = trusted / (_dot(spread, load) + noise)
        for i in _THREE:
            row, gain = covariance[i], weight * spread[i]
            costs[i] = max(0.0, costs[i] + gain * missing_s)
            for j in _THREE:
                row[j] -= gain * spread[j]

    def _changing(self, error: float, deviations: float) -> float:
        """The variance of the speed at this step; ``deviations`` is what turns its error into standard deviations."""
        off = min(abs(error - self._error / deviations), _MOST_NOISE)
        surprise = max(-_MOST_ERROR, min(error * deviations, _MOST_ERROR))
        self._noise += (_DEVIATIONS * max(_LEAST_NOISE, off) - self._noise) / _NOISE_STEPS
        self._error += (surprise - self._error) / _AVERAGED
        self._error_size += (abs(surprise) - self._error_size) / _AVERAGED
        alike = min(1.0, abs(self._error) / max(self._error_size, _LEAST_ERRORS))
        sure = min(1.0, self._error**2 / _CHANGE)
        return _STEADY + _CHANGING * sure * max(0.0, (alike - _USUAL_ALIKE) / (1 - _USUAL_ALIKE)) ** 2


def _dot(one: list[float], other: tuple[float, int, int]) -> float:
    return one[0] * other[0] + one[1] * other[1] + one[2] * other[2]
