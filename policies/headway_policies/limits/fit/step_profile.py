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

_Load = tuple[float, int, int, float]
_Costs = tuple[float, float, float, float]
#: The upper half, by rows.
_Covariance = tuple[float, ...]


class StepProfile:
    """Learns single steps. ``samples`` counts those that were learnt."""

    def __init__(self) -> None:
        self.samples = 0
        self._costs: _Costs = (0.0, 0.0, 0.0, 0.0)
        self._covariance: _Covariance = (0.0,) * 10
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
            base, sequence, prefill_token, context = _SHAPE
            size = step_s / _dot(_SHAPE, load)
            self._take((size * base, size * sequence, size * prefill_token, size * context), _UNSURE)
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
        self._take((costs.base_s, costs.sequence_s, costs.prefill_token_s, 0.0), _UNSURE_RECALLED)

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

    def _take(self, costs: _Costs, unsure: float) -> None:
        """Take these costs, each unsure by so large a share of it."""
        base, sequence, prefill_token = ((unsure * cost) ** 2 for cost in costs[:3])
        context = (_UNSURE_CONTEXT * costs[0]) ** 2
        self._costs, self._covariance = costs, (base, 0, 0, 0, sequence, 0, 0, prefill_token, 0, context)

    def _expected_s(self, load: _Load, step_s: float) -> float:
        """The time of a step by the costs, and at least a part of its real time."""
        return max(_dot(self._costs, load), step_s / _UNEXPECTED)

    def _learn(self, load: _Load, step_s: float) -> None:
        """Move the costs by what this step took longer than they say. Written out, since both processes do this at each
        step: ``s`` is the covariance times the load, and the noise of the speed and of the drift is added to both.
        """
        _, running, tokens, usage = load
        c0, c1, c2, c3 = self._costs
        p00, p01, p02, p03, p11, p12, p13, p22, p23, p33 = self._covariance
        told_s = c0 + c1 * running + c2 * tokens + c3 * usage
        expected_s = max(told_s, step_s / _UNEXPECTED)
        s0 = p00 + p01 * running + p02 * tokens + p03 * usage
        s1 = p01 + p11 * running + p12 * tokens + p13 * usage
        s2 = p02 + p12 * running + p22 * tokens + p23 * usage
        s3 = p03 + p13 * running + p23 * tokens + p33 * usage
        noise = (self._noise * expected_s) ** 2
        variance = s0 + s1 * running + s2 * tokens + s3 * usage + noise
        changing = self._changing(step_s / expected_s - 1, expected_s / sqrt(variance))
        least_s = _LEAST_PART * expected_s
        d0 = (_DRIFT * max(c0, least_s)) ** 2
        d1 = (_DRIFT * max(c1, least_s / running)) ** 2
        d2 = (_DRIFT * (max(c2, least_s / tokens) if tokens else c2)) ** 2
        d3 = (_DRIFT * (max(c3, least_s / usage) if usage else c3)) ** 2
        speed = changing * told_s
        s0 += speed * c0 + d0
        s1 += speed * c1 + d1 * running
        s2 += speed * c2 + d2 * tokens
        s3 += speed * c3 + d3 * usage
        missing_s, most_s = step_s - told_s, _MOST_MOVE * expected_s
        trusted = most_s / abs(missing_s) if abs(missing_s) > most_s else 1.0
        weight = trusted / (s0 + s1 * running + s2 * tokens + s3 * usage + noise)
        v0, v1, v2, v3 = changing * c0, changing * c1, changing * c2, changing * c3
        g0, g1, g2, g3 = weight * s0, weight * s1, weight * s2, weight * s3
        self._covariance = (
            p00 + v0 * c0 - g0 * s0 + d0,
            p01 + v0 * c1 - g0 * s1,
            p02 + v0 * c2 - g0 * s2,
            p03 + v0 * c3 - g0 * s3,
            p11 + v1 * c1 - g1 * s1 + d1,
            p12 + v1 * c2 - g1 * s2,
            p13 + v1 * c3 - g1 * s3,
            p22 + v2 * c2 - g2 * s2 + d2,
            p23 + v2 * c3 - g2 * s3,
            p33 + v3 * c3 - g3 * s3 + d3,
        )
        self._costs = (
            max(0.0, c0 + g0 * missing_s),
            max(0.0, c1 + g1 * missing_s),
            max(0.0, c2 + g2 * missing_s),
            max(0.0, c3 + g3 * missing_s),
        )

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


def _dot(one: _Costs, other: _Load) -> float:
    return one[0] * other[0] + one[1] * other[1] + one[2] * other[2] + one[3] * other[3]
