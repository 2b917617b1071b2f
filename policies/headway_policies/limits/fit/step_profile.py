"""The step time of an engine over its whole range, from single steps: a Kalman filter of the four costs of a step.

step = base + sequence * running + prefill_token * prefill_tokens + context * kv_usage_ratio, with the costs of
``step_time`` and what attention takes to read the KV cache where it is full. Without the last one, contexts that grow
while requests run would count as an engine that becomes slower. A fit that forgets by time knows, after a minute at a
hundred sequences, no longer what one sequence costs, since steps of one size cannot tell the costs apart. So nothing is
forgotten by time here. Two things move the costs (Kalman, J. Basic Engineering 1960; a covariance says how sure each
is, and which of them could make up for another):

* the engine becomes slower or faster: all costs grow by one factor. This noise is rank one, along the costs themselves,
  so the proportions between them stay as they were learnt, for a load that was not seen for hours too;
* each cost drifts by itself, a thousandth a step.

A step that takes longer than expected is attributed to the costs in proportion to how unsure each is. Of a load that
was never seen the cost of a sequence or of a prompt token is less sure than the speed, which was right at the last
step: so less of an overload that follows a start is taken for an engine that became slower.

The noise of the speed adapts (Trigg and Leach, Operational Research Quarterly 1967): the more alike the signs of the
recent errors are, the more of each is a change of speed. A change of half is followed within some ten steps. The noise
of the steps themselves is measured. Up to two of five reports that take three times as long as expected are ignored, as
a pause.

Weak spots: the model is linear, and prompts cost what they cost on average, whatever their length. Where sequences and
contexts only grew together, which of them costs is a guess. Before the second load the costs have the proportions of
``_SHAPE``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import inf, sqrt
from statistics import median

from headway_policies.limits.fit.step_time import StepTime

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
_PAUSE, _LATELY = 2.0, 5
_UNEXPECTED = 4.0  # what is expected of a step is at least this part of its time
_MOST_MOVE = 1.5  # a step moves what is expected by at most this share of it
_LEAST_PART = 0.01  # a cost drifts as if it were at least this part of the step
#: The proportions before the second load is seen, and how unsure they are, as a share; a full KV cache in bases.
_SHAPE = (16.0, 1.0, 1.0, 0.0)
_UNSURE, _UNSURE_RECALLED, _UNSURE_CONTEXT = 6.0, 1.0, 2.0
_CONTEXT_STEPS = 64  # the context of a sequence is the mean of about so many
_FOUR = range(4)

_Load = tuple[float, int, int, float]


class StepProfile:
    """Learns single steps. ``samples`` counts those that were learnt."""

    def __init__(self) -> None:
        self.samples = 0
        self._costs = [0.0] * 4
        self._covariance = [[0.0] * 4 for _ in _FOUR]
        self._prompts = False
        self._context = 0.0  # of a sequence lately, as a share of the KV cache
        self._noise = _FIRST_NOISE
        self._lately: deque[float] = deque(maxlen=_LATELY)
        self._error = 0.0  # the mean of the recent errors in standard deviations, and that of their sizes
        self._error_size = 1.0

    def add(
        self, running: int, prefill_tokens: int, step_s: float, kv_usage_ratio: float = 0.0, *, times: int = 1
    ) -> None:
        """Add a step with so many running sequences, at least 1, so many prompt tokens and so much of the KV cache in
        use, 0 where that is not known; or a few equal ones.

        A time that is not finite and positive is ignored, and so is a pause.
        """
        if not 0 < step_s < inf:
            return
        load = (1.0, running, prefill_tokens, kv_usage_ratio)
        if not any(self._costs):
            size = step_s / _dot(_SHAPE, load)
            self._take([size * part for part in _SHAPE], _UNSURE)
        self._lately.append(step_s / self._expected_s(load, step_s) - 1)
        if self._lately[-1] > _PAUSE > median(self._lately):
            return
        self._prompts = self._prompts or prefill_tokens > 0
        for _ in range(times):
            self.samples += 1
            self._context += (kv_usage_ratio / running - self._context) / min(self.samples, _CONTEXT_STEPS)
            self._learn(load, step_s)

    def start_from(self, costs: StepTime) -> None:
        """Take these costs for the first ones."""
        self._prompts = True
        self._take([costs.base_s, costs.sequence_s, costs.prefill_token_s, 0.0], _UNSURE_RECALLED)

    @property
    def costs(self) -> StepTime:
        """The costs of a step at the present speed, a sequence with the mean context of the last steps; a prompt token
        costs nothing until one was computed.
        """
        base_s, sequence_s, prefill_token_s, context_s = self._costs
        return StepTime(base_s, sequence_s + context_s * self._context, prefill_token_s if self._prompts else 0.0)

    @property
    def token_s(self) -> float:
        """The time between tokens of a single sequence at the present speed."""
        base_s, sequence_s, _, context_s = self._costs
        return base_s + sequence_s + context_s * self._context

    def _take(self, costs: list[float], unsure: float) -> None:
        """Take these costs, each unsure by so large a share of it."""
        self._costs = costs
        doubts = [unsure * cost for cost in costs[:3]] + [_UNSURE_CONTEXT * costs[0]]
        self._covariance = [[doubts[i] ** 2 if i == j else 0.0 for j in _FOUR] for i in _FOUR]

    def _expected_s(self, load: _Load, step_s: float) -> float:
        """The time of a step by the costs; at least a part of what it took."""
        return max(_dot(self._costs, load), step_s / _UNEXPECTED)

    def _learn(self, load: _Load, step_s: float) -> None:
        """Move the costs by what this step took longer than they say."""
        costs, covariance = self._costs, self._covariance
        expected_s, missing_s = self._expected_s(load, step_s), step_s - _dot(costs, load)
        spread = [_dot(row, load) for row in covariance]
        noise = (self._noise * expected_s) ** 2
        changing = self._changing(step_s / expected_s - 1, expected_s / sqrt(_dot(spread, load) + noise))
        for i in _FOUR:
            row, part = covariance[i], changing * costs[i]
            for j in _FOUR:
                row[j] += part * costs[j]
            least = _LEAST_PART * expected_s / load[i] if load[i] else 0.0
            row[i] += (_DRIFT * max(costs[i], least)) ** 2
        spread = [_dot(row, load) for row in covariance]
        most_s = _MOST_MOVE * expected_s
        trusted = min(1.0, most_s / abs(missing_s)) if missing_s else 1.0
        weight = trusted / (_dot(spread, load) + noise)
        for i in _FOUR:
            row, gain = covariance[i], weight * spread[i]
            costs[i] = max(0.0, costs[i] + gain * missing_s)
            for j in _FOUR:
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


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return one[0] * other[0] + one[1] * other[1] + one[2] * other[2] + one[3] * other[3]
