"""Estimators of output length, queue wait and time to first token.

Length: the history of similar requests, those of the same class, tenant and requested size (``max_tokens`` to the power
of two), else of the class, else of all, else what the request asks for. The expected value is a mean and not a median,
because it is summed: charges to tenants, tokens in a batch. A request that used all it asked for only gives a lower
bound of its length, so

    expected = min(max_tokens, (capped * max_tokens + sum of the lengths of the others) / samples)

with ``capped`` of the samples having used all: exact where every request does (benchmarks), a mean where none does.

Wait: Little's law. ``limit`` seats, each occupied for a mean residence, become free at limit / residence a second,
so with ``ahead`` seats requested before and ``free`` free ones the wait is (ahead - free) * residence / limit. First
token: linear in the prompt's tokens. In doubt both are optimistic, since a false refusal is worse than a time-out in
the queue: None until ``MIN_SAMPLES``, no allowance for urgent requests yet to come, a first token earlier by its mean
error.

Weak spots: lengths of one tenant that follow its prompts look like noise here; a change of traffic takes some hundred
requests to learn; after a start short requests end first, so the first waits are underestimated.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass

from headway_policies.prediction.linear_fit import LinearFit
from headway_policies.request import DEFAULT_MAX_TOKENS, Ticket, Usage

#: A history with fewer samples is not used.
MIN_SAMPLES = 8
_HISTORY = 256  # lengths for each key
_KEYS = 512  # at about 5 KB, when all are full
_SCORED = 256
_SEATS = 64
_HORIZON_S = 600.0
_MIN_RESIDENCE_S = 1e-6
_FIRST_TOKENS = 128
_EARLY_RATIO = 0.5
_EARLY_IN_A_ROW = 3


@dataclass(frozen=True, slots=True)
class Accuracy:
    """The recent accuracy of a prediction: over ``samples`` cases, in the unit of what is predicted.

    ``error_ratio`` is the mean of |predicted - actual| over the mean of actual.
    """

    samples: int = 0
    error_ratio: float = 0.0


class LengthEstimate:
    """Predicts from the last lengths of similar requests; the history unused for longest is dropped first."""

    def __init__(self) -> None:
        self._histories: OrderedDict[_Key, _History] = OrderedDict()
        self._score = _Score(_SCORED)
        self._longest_tokens = float(DEFAULT_MAX_TOKENS)

    def output_tokens(self, ticket: Ticket) -> float:
        """The expected mean of each sequence, at most ``max_tokens``.

        The estimate never exceeds the longest answer seen: a client can request any number at no cost.
        """
        return min(self._mean_tokens(ticket), self._longest_tokens)

    def _mean_tokens(self, ticket: Ticket) -> float:
        asked_tokens = ticket.max_tokens
        for key in _keys(ticket):
            history = self._histories.get(key)
            if history is not None and len(history.lengths) >= MIN_SAMPLES:
                mean_tokens = history.mean_tokens(asked_tokens or 0)
                return mean_tokens if asked_tokens is None else min(mean_tokens, asked_tokens)
        return DEFAULT_MAX_TOKENS if asked_tokens is None else asked_tokens

    def ended(self, ticket: Ticket, usage: Usage) -> None:
        """Score the prediction for a request that ran to its end, then learn from it."""
        tokens = usage.output_tokens / ticket.seats
        self._longest_tokens = max(self._longest_tokens, tokens)
        self._score.add(self.output_tokens(ticket), tokens)
        capped = ticket.max_tokens is not None and tokens >= ticket.max_tokens
        for key in _keys(ticket):
            history = self._histories.get(key)
            if history is None:
                history = self._histories[key] = _History()
            else:
                self._histories.move_to_end(key)
            history.add(tokens, capped)
        while len(self._histories) > _KEYS:
            self._histories.popitem(last=False)

    def accuracy(self) -> Accuracy:
        """The accuracy of the predictions, in tokens a sequence."""
        return self._score.accuracy()


class WaitEstimate:
    """Predicts waits from how long seats were occupied, and first tokens from how long they took."""

    def __init__(self) -> None:
        self._weight = 0.0
        self._residence_s = 0.0
        self._last_s = 0.0
        self._first_tokens: dict[str, LinearFit] = {}
        self._early: dict[str, int] = {}  # by class: how many in a row came far earlier than was predicted
        self._score = _Score(_SCORED)
        self._first_score = _Score(_SCORED)

    def ended(self, seats: int, residence_s: float, now_s: float) -> None:
        """Learn how long so many seats were occupied. About the last 64 count; older ones fade with time."""
        quiet_s = max(0.0, now_s - self._last_s)
        self._weight = min(self._weight, _SEATS) * math.exp(-quiet_s / _HORIZON_S) + seats
        self._residence_s += (residence_s - self._residence_s) * seats / self._weight
        self._last_s = now_s

    def wait_s(self, seats_ahead: int, free: int, limit: int) -> float | None:
        """The expected wait for the seat after ``seats_ahead`` others; None while too little is known."""
        if seats_ahead <= free:
            return 0.0
        if self._weight < MIN_SAMPLES:
            return None
        return (seats_ahead - free) * self._residence_s / max(limit, 1)

    def freed_per_s(self, limit: int) -> float:
        """The seats that come free in a second while ``limit`` are taken; 0 while too little is known."""
        return limit / self._residence_s if self._weight >= MIN_SAMPLES and self._residence_s > 0 else 0.0

    def turnover_per_s(self, limit: int) -> float | None:
        """The seats that come free in a second, from the first that did; None before."""
        return limit / max(self._residence_s, _MIN_RESIDENCE_S) if self._weight else None

    def waited(self, predicted_s: float, actual_s: float) -> None:
        """Learn how good a predicted wait was."""
        self._score.add(predicted_s, actual_s)

    def learn_first_token(self, class_name: str, prompt_tokens: int, delay_s: float) -> None:
        """Learn how long after its dispatch a prompt of this size had its first token.

        Each class has its own fit: an engine with priorities computes the first tokens of one class before another's.
        Where several in a row come in less than half of what was predicted, the engine is another than it was, and what
        was learnt of it is dropped: a prediction that is too long refuses requests that would be served in time.
        """
        fit = self._first_tokens.get(class_name)
        if fit is None:
            fit = self._first_tokens[class_name] = LinearFit(_FIRST_TOKENS)
        if fit.samples >= MIN_SAMPLES:
            expected_s = fit.at(prompt_tokens)
            self._first_score.add(expected_s, delay_s)
            early = delay_s < _EARLY_RATIO * expected_s
            self._early[class_name] = self._early.get(class_name, 0) + 1 if early else 0
            if self._early[class_name] >= _EARLY_IN_A_ROW:
                fit.fade(1)
        fit.add(prompt_tokens, delay_s)

    def first_token_s(self, class_name: str, prompt_tokens: int) -> float | None:
        """An optimistic delay from dispatch to first token for a prompt of this size; None while unknown."""
        fit = self._learnt(class_name)
        return None if fit is None else max(0.0, fit.at(prompt_tokens) - fit.error)

    def likely_first_token_s(self, class_name: str, prompt_tokens: int) -> float | None:
        """A delay within which the first token of a prompt of this size probably comes; None while unknown."""
        fit = self._learnt(class_name)
        return None if fit is None else fit.at(prompt_tokens) + fit.error

    def fade(self) -> None:
        """Give the learnt figures of another limit the weight of the fewest used samples, until corrected."""
        self._weight = min(self._weight, MIN_SAMPLES)
        for fit in self._first_tokens.values():
            fit.fade(MIN_SAMPLES)

    def accuracy(self) -> Accuracy:
        """The accuracy of the predicted waits, in seconds."""
        return self._score.accuracy()

    def first_token_accuracy(self) -> Accuracy:
        """The accuracy of the predicted delays of first tokens, in seconds."""
        return self._first_score.accuracy()

    def _learnt(self, class_name: str) -> LinearFit | None:
        fit = self._first_tokens.get(class_name)
        return None if fit is None or fit.samples < MIN_SAMPLES else fit


#: Class, tenant, and the bit length of ``max_tokens`` (0: not set); None: any.
_Key = tuple[str | None, str | None, int]


def _keys(ticket: Ticket) -> Iterator[_Key]:
    """The keys of a request's histories, the most specific first."""
    size = 0 if ticket.max_tokens is None else ticket.max_tokens.bit_length()
    yield ticket.class_name, ticket.tenant, size
    yield ticket.class_name, None, size
    yield None, None, size


class _History:
    """The last lengths under one key, and which of them were capped by ``max_tokens``."""

    __slots__ = ("_capped_count", "_uncapped_tokens", "capped", "lengths")

    def __init__(self) -> None:
        self.lengths: deque[float] = deque()
        self.capped: deque[bool] = deque()
        self._capped_count = 0
        self._uncapped_tokens = 0.0

    def add(self, tokens: float, capped: bool) -> None:
        """Add a length; beyond ``_HISTORY`` the oldest is dropped."""
        self._count(tokens, capped, 1)
        self.lengths.append(tokens)
        self.capped.append(capped)
        if len(self.lengths) > _HISTORY:
            self._count(self.lengths.popleft(), self.capped.popleft(), -1)

    def mean_tokens(self, asked_tokens: int) -> float:
        """The mean, where each capped one counts with the number requested now."""
        return (self._capped_count * asked_tokens + self._uncapped_tokens) / len(self.lengths)

    def _count(self, tokens: float, capped: bool, sign: int) -> None:
        if capped:
            self._capped_count += sign
        else:
            self._uncapped_tokens += sign * tokens


class _Score:
    """Means of prediction and outcome over about the last ``memory`` cases."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._samples = 0
        self._error = self._actual = 0.0

    def add(self, predicted: float, actual: float) -> None:
        """Count one case."""
        self._samples = min(self._samples + 1, self._memory)
        weight = 1 / self._samples
        self._error += weight * (abs(predicted - actual) - self._error)
        self._actual += weight * (actual - self._actual)

    def accuracy(self) -> Accuracy:
        """The means as ratios; 0 while the outcomes sum to nothing."""
        if self._actual <= 0:
            return Accuracy(self._samples)
        return Accuracy(self._samples, self._error / self._actual)
