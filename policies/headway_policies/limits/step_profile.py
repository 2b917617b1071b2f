"""The step time of an engine over its whole range: single steps, remembered by the number of running sequences.

A fit that forgets by time knows, after a minute at a hundred sequences, no longer what one sequence costs: the fixed
cost of a step and that of its sequences can be told apart only by steps with few and with many. So the steps are kept
in octaves of the number running, 1, 2 to 3, 4 to 7 and so on (stratified sampling): each octave has the normal
equations of about its last ``_MEMORY`` steps, however long ago they were, and the costs are the least squares over all
octaves. Each is weighted by the inverse square of the time expected of it: steps vary by a share of their length, and
a few with long prompts would else outweigh all others.

The first steps of an engine may be made at another speed than the later ones, and too few are known then to tell. So a
young octave forgets quickly: the n-th step takes 2 / (n + 2) of its weight (polynomial-decay averaging; Shamir and
Zhang, ICML 2013), until that is one in ``_MEMORY``. One of a few steps, all long ago, is dropped.

An octave that is not visited has to follow when the engine becomes slower or faster. So steps are kept in units of a
*speed*, common to all octaves. A step is compared with what its own octave has shown so far, never with another one,
so that a cost that is not linear is no change of speed. Where the ratio, averaged over ``_AVERAGED`` steps, leaves the
band around 1, the speed has changed: for the next ``_TRACKED`` steps it follows, and nothing is learnt meanwhile. Where
these show one within the band of the speed before, there was no change; within that of the octaves, 1, a spell is over.
The few steps of a change tell its end to some per cent only, and an error would stay: it is too small to be found.

An octave keeps what it knew before a change, and forgets slowly. On a machine that others use the speed changes every
few seconds, and each time it is found to some ten per cent only. An octave that began anew at each of them would take
those errors for its own, and after some dozens of changes the octaves would differ by a factor of two; one that
remembers many changes draws the speed back to what all octaves agree on.

Weak spots: a change within the band is learnt as one of the octave alone; an octave that is seen for the first time
just after a small change of speed is learnt at the old one; and where the costs change other than in proportion, the
speed takes the difference at first, and the octaves learn it within some ``_MEMORY`` steps of theirs.
"""

from __future__ import annotations

from collections import deque
from math import exp, inf, log
from statistics import median

from headway_policies.limits.step_time import StepTime, StepTimeFit

_MEMORY = 512
_LATELY = 3
_SOLVE_STEPS = 8
_LEAST_SAMPLES = 8
_KEPT_STEPS = 128
_UNEXPECTED = 4.0  # what is expected of a step is at least this part of its time
_AVERAGED = 8
_TRACKED = 32
_FEW_SAMPLES = 2
_SURE_SAMPLES = 40
#: The deviation of single steps is a mean over so many; averages beyond these multiples of it are changes of speed.
_NOISE_STEPS = 64
_USUAL_NOISE = 0.1
_NOISES = 2.5
_NOISES_AT_ONCE = 5.0
#: Of the logarithm of measured / expected.
_BAND = 0.15
_WIDE_BAND = 0.6
_PAUSE = 1.1  # a single step so much longer is not learnt
_FAR = 2.0  # more counts as this


class StepProfile:
    """Learns single steps. ``samples`` counts those that were learnt; ``costs`` is the fit over all octaves."""

    def __init__(self) -> None:
        self.samples = 0
        self._speed = self._before = 1.0  # seconds a unit; the one before the last change
        self._octaves: dict[int, StepTimeFit] = {}
        self._visited: dict[int, int] = {}  # when each was seen last, in samples
        self._all = StepTimeFit()
        self._solved = StepTime(0.0, 0.0, 0.0)
        self._lately: deque[float] = deque(maxlen=_LATELY)
        self._unsure: deque[tuple[int, int, float]] = deque()
        self._ratio = 0.0  # the mean logarithm of measured / expected
        self._noise = _USUAL_NOISE  # the mean of its deviations
        self._tracking = 0

    def add(self, running: int, prefill_tokens: int, step_s: float) -> None:
        """Add a step with so many running sequences, at least 1, and so many prompt tokens.

        A time that is not finite and positive is ignored.
        """
        if not 0 < step_s < inf:
            return
        like, band = self._like(running.bit_length())
        if like is None:
            if self._tracking:
                return
        elif self._follows(like.near(self._solved, running, prefill_tokens), step_s, band):
            return
        self._unsure.append((running, prefill_tokens, step_s / self._speed))
        if len(self._unsure) == _LATELY or self.samples < _LATELY:
            self._learn(*self._unsure.popleft())

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
        """Learn a step that the next ones have not shown to be the first at another speed."""
        number = running.bit_length()
        octave = self._octaves.get(number)
        if octave is None:
            octave = self._octaves[number] = StepTimeFit()
        octave.forgetting = 1 - max(1 / _MEMORY, 2 / (octave.samples + 2))
        expected = max(self._solved.step_s(running, prefill_tokens), units / _UNEXPECTED)
        octave.add(running, prefill_tokens, units, expected**-2)
        self.samples += 1
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

    def _like(self, number: int) -> tuple[StepTimeFit | None, float]:
        """The steps that a step of this octave is compared with, and how far apart they may be: those of the octave,
        else of its neighbour, which tells a large change only.
        """
        own = self._octaves.get(number)
        if own is not None and own.samples >= _LEAST_SAMPLES:
            return own, _BAND
        near = (self._octaves.get(number + 1), self._octaves.get(number - 1), own)
        known = [one for one in near if one is not None and one.samples >= _FEW_SAMPLES]
        return max(known, key=lambda one: one.samples, default=None), _WIDE_BAND

    def _known_speed(self) -> float:
        """After a change: the speed before it or that of the octaves, where the one found is within the band of it."""
        known = min((self._before, 1.0), key=lambda one: abs(log(self._speed / one)))
        return known if abs(log(self._speed / known)) < _BAND else self._speed

    def _follows(self, expected: float, step_s: float, band: float) -> bool:
        """Compare a step with what is expected of it. Whether the speed is changing: then the step is not learnt."""
        if expected <= 0 or self.samples < _SURE_SAMPLES:
            return False
        self._lately.append(max(-_FAR, min(log(step_s / (expected * self._speed)), _FAR)))
        usual = median(self._lately)  # a single pause is no change
        if self._tracking:
            self._speed *= exp(usual / (_TRACKED - self._tracking + 2))  # the mean of those seen so far
            self._tracking -= 1
            if not self._tracking:
                self._speed = self._known_speed()
            return True
        self._noise += (abs(self._lately[-1] - self._ratio) - self._noise) / _NOISE_STEPS
        self._ratio += (usual - self._ratio) / _AVERAGED
        at_once = len(self._lately) == _LATELY and abs(usual) > max(_WIDE_BAND, _NOISES_AT_ONCE * self._noise)
        if abs(self._ratio) <= max(band, _NOISES * self._noise) and not at_once:
            return self._lately[-1] > max(_PAUSE, _NOISES_AT_ONCE * self._noise)
        self._before = self._speed
        self._speed *= exp(usual)
        self._ratio, self._tracking = 0.0, _TRACKED
        self._lately.clear()
        self._unsure.clear()
        return True
