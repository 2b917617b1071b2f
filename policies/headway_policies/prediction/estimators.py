"""How long will it run, and how long will it wait?

Length: the history of like requests, those of the same class, tenant and size asked for (``max_tokens`` to the power of
two), else of the class, else of all, else what it asks for. The expected value is a mean and not a median, because it
is summed: charges to tenants, tokens in a batch. A request that used all it asked for only says "at least so much", so

    expected = min(max_tokens, (whole * max_tokens + sum of the lengths of the others) / samples)

with ``whole`` of the samples having used all: exact where every request does (benchmarks), a mean where none does.

Wait: Little's law. ``limit`` seats that are held for a mean residence each come free at limit / residence a second, so
a seat with ``ahead`` before it and ``free`` free ones comes in (ahead - free) * residence / limit. First token: a line
in the prompt's tokens. Both lean to optimism where in doubt, since a false refusal is worse than a time-out in the
queue: None until ``MIN_SAMPLES``, no allowance for urgent ones yet to come, a first token sooner by its mean error.

Weak spots: lengths of one tenant that follow its prompts look like noise here; after a change of traffic it takes some
hundred requests to forget; the first to end after a start are the short ones, so the first waits are guessed too short.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from headway_policies.prediction.linear_fit import LinearFit
from headway_policies.request import USUAL_MAX_TOKENS, Ticket, Usage

#: From so many samples on a history is believed.
MIN_SAMPLES = 8
_HISTORY = 256  # lengths of one kind of request
_KINDS = 512  # at about 5 KB, when all are full
_SCORED = 256
_SEATS = 64
_HORIZON_S = 600.0
_FIRST_TOKENS = 128


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How good a prediction has been lately: over ``samples`` cases, in the unit of what is predicted.

    ``error_ratio`` is the mean of |predicted - actual| over the mean of actual, ``bias_ratio`` the same with its sign.
    """

    samples: int = 0
    error_ratio: float = 0.0
    bias_ratio: float = 0.0


class LengthPredictor(Protocol):
    """Anything that guesses how many tokens a request will generate in each of its sequences."""

    def output_tokens(self, ticket: Ticket) -> float:
        """The expected number, at most what the request allows itself."""
        ...

    def ended(self, ticket: Ticket, usage: Usage) -> None:
        """Learn from a request that ran to its end."""
        ...

    def accuracy(self) -> Accuracy:
        """How good the guesses have been."""
        ...


class AskedLength:
    """Takes each request at its word: ``max_tokens``."""

    def output_tokens(self, ticket: Ticket) -> float:
        """``max_tokens``, or what is usual."""
        return USUAL_MAX_TOKENS if ticket.max_tokens is None else ticket.max_tokens

    def ended(self, ticket: Ticket, usage: Usage) -> None:
        """Learns nothing."""

    def accuracy(self) -> Accuracy:
        """It claims none."""
        return Accuracy()


class QuantileLengths:
    """Guesses from the last lengths of like requests; the kind of request that ended longest ago is forgotten first."""

    def __init__(self) -> None:
        self._histories: OrderedDict[_Kind, _History] = OrderedDict()
        self._score = _Score(_SCORED)
        self._longest_tokens = float(USUAL_MAX_TOKENS)

    def output_tokens(self, ticket: Ticket) -> float:
        """The mean to expect of each sequence, at most ``max_tokens``.

        Nobody is believed beyond the longest answer seen: what a client writes there costs it nothing.
        """
        return min(self._mean_tokens(ticket), self._longest_tokens)

    def _mean_tokens(self, ticket: Ticket) -> float:
        asked_tokens = ticket.max_tokens
        for kind in _kinds(ticket):
            history = self._histories.get(kind)
            if history is not None and len(history.lengths) >= MIN_SAMPLES:
                mean_tokens = history.mean_tokens(asked_tokens or 0)
                return mean_tokens if asked_tokens is None else min(mean_tokens, asked_tokens)
        return USUAL_MAX_TOKENS if asked_tokens is None else asked_tokens

    def quantile(self, ticket: Ticket, q: float) -> float:
        """The length that a share ``q`` of like requests did not exceed, at most ``max_tokens``. Sorts the history."""
        asked_tokens = USUAL_MAX_TOKENS if ticket.max_tokens is None else ticket.max_tokens
        for kind in _kinds(ticket):
            history = self._histories.get(kind)
            if history is not None and len(history.lengths) >= MIN_SAMPLES:
                tokens = history.quantile_tokens(q, asked_tokens)
                return tokens if ticket.max_tokens is None else min(tokens, asked_tokens)
        return asked_tokens

    def ended(self, ticket: Ticket, usage: Usage) -> None:
        """Learn from a request that ran to its end; first see how good the guess about it would have been."""
        tokens = usage.output_tokens / ticket.seats
        self._longest_tokens = max(self._longest_tokens, tokens)
        self._score.add(self.output_tokens(ticket), tokens)
        whole = ticket.max_tokens is not None and tokens >= ticket.max_tokens
        for kind in _kinds(ticket):
            history = self._histories.get(kind)
            if history is None:
                history = self._histories[kind] = _History()
            else:
                self._histories.move_to_end(kind)
            history.add(tokens, whole)
        while len(self._histories) > _KINDS:
            self._histories.popitem(last=False)

    def accuracy(self) -> Accuracy:
        """How good the guesses have been, in tokens a sequence."""
        return self._score.accuracy()


class WaitEstimate:
    """Guesses waits from how long seats have been held, and first tokens from how long they took."""

    def __init__(self) -> None:
        self._weight = 0.0
        self._residence_s = 0.0
        self._last_s = 0.0
        self._first_tokens: dict[str, LinearFit] = {}
        self._score = _Score(_SCORED)
        self._first_score = _Score(_SCORED)

    def ended(self, seats: int, residence_s: float, now_s: float) -> None:
        """Learn how long so many seats were held. About the last 64 count, and none from long ago."""
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

    def waited(self, predicted_s: float, actual_s: float) -> None:
        """Learn how good a predicted wait was."""
        self._score.add(predicted_s, actual_s)

    def learn_first_token(self, class_name: str, prompt_tokens: int, delay_s: float) -> None:
        """Learn how long after its dispatch a prompt of this size had its first token.

        Each class has its own line: an engine that knows priorities serves the first tokens of one before another's.
        """
        fit = self._first_tokens.get(class_name)
        if fit is None:
            fit = self._first_tokens[class_name] = LinearFit(_FIRST_TOKENS)
        if fit.samples >= MIN_SAMPLES:
            self._first_score.add(fit.at(prompt_tokens), delay_s)
        fit.add(prompt_tokens, delay_s)

    def first_token_s(self, class_name: str, prompt_tokens: int) -> float | None:
        """How soon after its dispatch a prompt of this size may well have its first token; None while unknown."""
        fit = self._first_tokens.get(class_name)
        if fit is None or fit.samples < MIN_SAMPLES:
            return None
        return max(0.0, fit.at(prompt_tokens) - fit.error)

    def accuracy(self) -> Accuracy:
        """How good the predicted waits have been, in seconds."""
        return self._score.accuracy()

    def first_token_accuracy(self) -> Accuracy:
        """How good the predicted delays of first tokens have been, in seconds."""
        return self._first_score.accuracy()


#: Class, tenant, and the bits of ``max_tokens`` (0: it did not say); None where it does not matter.
_Kind = tuple[str | None, str | None, int]


def _kinds(ticket: Ticket) -> Iterator[_Kind]:
    """What a request is like, the nearest first."""
    size = 0 if ticket.max_tokens is None else ticket.max_tokens.bit_length()
    yield ticket.class_name, ticket.tenant, size
    yield ticket.class_name, None, size
    yield None, None, size


class _History:
    """The last lengths of one kind of request, and which of them were cut off by what was asked for."""

    __slots__ = ("_others_tokens", "_wholes", "lengths", "whole")

    def __init__(self) -> None:
        self.lengths: deque[float] = deque()
        self.whole: deque[bool] = deque()
        self._wholes = 0
        self._others_tokens = 0.0

    def add(self, tokens: float, whole: bool) -> None:
        """One more; beyond ``_HISTORY`` the oldest goes."""
        self._count(tokens, whole, 1)
        self.lengths.append(tokens)
        self.whole.append(whole)
        if len(self.lengths) > _HISTORY:
            self._count(self.lengths.popleft(), self.whole.popleft(), -1)

    def mean_tokens(self, asked_tokens: int) -> float:
        """The mean, where those that were cut off would have used all that is asked for now."""
        return (self._wholes * asked_tokens + self._others_tokens) / len(self.lengths)

    def quantile_tokens(self, q: float, asked_tokens: int) -> float:
        """The same for a quantile, by nearest rank."""
        pairs = zip(self.lengths, self.whole, strict=True)
        ranked = sorted(asked_tokens if whole else tokens for tokens, whole in pairs)
        return ranked[max(0, min(len(ranked), math.ceil(q * len(ranked))) - 1)]

    def _count(self, tokens: float, whole: bool, sign: int) -> None:
        if whole:
            self._wholes += sign
        else:
            self._others_tokens += sign * tokens


class _Score:
    """Means of prediction and outcome over about the last ``memory`` cases."""

    def __init__(self, memory: int) -> None:
        self._memory = memory
        self._samples = 0
        self._error = self._bias = self._actual = 0.0

    def add(self, predicted: float, actual: float) -> None:
        """One case."""
        self._samples = min(self._samples + 1, self._memory)
        weight, miss = 1 / self._samples, predicted - actual
        self._error += weight * (abs(miss) - self._error)
        self._bias += weight * (miss - self._bias)
        self._actual += weight * (actual - self._actual)

    def accuracy(self) -> Accuracy:
        """The means as ratios; 0 while the outcomes sum to nothing."""
        if self._actual <= 0:
            return Accuracy(self._samples)
        return Accuracy(self._samples, self._error / self._actual, self._bias / self._actual)
