"""The cost of a grammar at each token, found by a few walks through it, such as answers take.

Before each step the engine asks the grammar of each request which tokens may come, one after another on one thread. An
ambiguous grammar takes longer with every token, for it keeps all ways in which the text so far can be read: ``s ::= "a"
| s s`` takes 0.1 ms after 50 tokens and 150 ms after 400, and every request of the engine waits for that.

Each walk takes the tokens that a grammar allows in another way: the first token; the token before again where it may
come, or an opening bracket, for repetition and nesting are where grammars are ambiguous; any token. A grammar is too
slow where a window of steps takes longer on the mean than ``MOST_MEAN_S``, two steps in it longer than ``MOST_STEP_S``,
or the last window several times as long as an early one; of a walk that was cut before, all its steps are the window.
Known weak spot: the part of a grammar that no walk reaches is not checked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from random import Random
from statistics import median
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from headway.vllm_adapter.grammars.frames import MOST_MEAN_S

STEPS = 512
MOST_STEP_S = 0.1  # of processor time
_WINDOW = 32
_GROWTH, _GROWN_S = 3.0, 0.0005
_WALK_S = 0.3  # a walk that has taken so long has seen enough

_Tokens = npt.NDArray[np.int64]
#: Picks one of these tokens; the second argument is the token before, where it may come again.
_Pick = Callable[[_Tokens, int | None], int]


class TooSlowError(Exception):
    """The engine would take too long for each token of such a grammar."""


class Grammar(Protocol):
    """The part of vLLM's ``StructuredOutputGrammar`` that a walk needs."""

    def fill_bitmask(self, bitmask: Any, batch_index: int, /) -> None:
        """Set the bits of the tokens that may come."""

    def accept_tokens(self, request_id: str, tokens: list[int], /) -> bool:
        """Take these tokens."""
        ...

    def is_terminated(self) -> bool:
        """Whether no token may come any more."""
        ...

    def reset(self) -> None:
        """Begin anew."""


def walk(
    grammar: Grammar,
    bitmask: Any,
    special: Collection[int] = (),
    opening: Collection[int] = (),
    *,
    clock: Callable[[], float] = time.thread_time,
) -> None:
    """Walk through a grammar from its beginning. Raises TooSlowError.

    ``bitmask`` has room for one request. ``special`` tokens, such as the end of a text, are taken only where no other
    may come; ``opening`` are the tokens of brackets.
    """
    brackets = [*opening]
    random = Random(1)  # noqa: S311 - to be repeatable
    picks: tuple[_Pick, ...] = (
        lambda ids, before: int(ids[0]),
        lambda ids, before: int(random.choice(ids)) if before is None else before,
        lambda ids, before: next(
            (bracket for bracket in brackets if ids[ids.searchsorted(bracket) % ids.size] == bracket), int(ids[-1])
        ),
        lambda ids, before: int(random.choice(ids)),
    )
    for pick in picks:
        _walk(grammar, bitmask, np.array([*special], dtype=np.int64), pick, clock)
        grammar.reset()


def _walk(grammar: Grammar, bitmask: Any, special: _Tokens, pick: _Pick, clock: Callable[[], float]) -> None:
    costs_s: list[float] = []
    before: int | None = None
    while len(costs_s) < STEPS and sum(costs_s) < _WALK_S and not grammar.is_terminated():
        began_s = clock()
        grammar.fill_bitmask(bitmask, 0)
        filled_s = clock() - began_s
        bits = np.unpackbits(bitmask.numpy().view(np.uint8).ravel(), bitorder="little")
        usual = bits.copy()
        usual[special[special < usual.size]] = 0
        ids = np.flatnonzero(usual if usual.any() else bits)
        if not ids.size:
            return
        before = pick(ids, before if before is not None and bits[before] else None)
        began_s = clock()
        taken = grammar.accept_tokens("", [before])
        costs_s.append(filled_s + clock() - began_s)
        _judge(costs_s)
        if not taken:
            return
    if sum(costs_s) >= _WALK_S:  # perhaps before there was a window
        _judge_mean(costs_s[-_WINDOW:])
    early_s, late_s = costs_s[_WINDOW : 2 * _WINDOW], costs_s[-_WINDOW:]
    if len(costs_s) >= 3 * _WINDOW and median(late_s) > max(_GROWN_S, _GROWTH * median(early_s)):
        raise TooSlowError


def _judge(costs_s: list[float]) -> None:
    """Raise TooSlowError for the time of the last steps. A long step may be the making of something that is kept."""
    last_s = costs_s[-_WINDOW:]
    if len([step_s for step_s in last_s if step_s > MOST_STEP_S]) > 1:
        raise TooSlowError
    if len(last_s) == _WINDOW:
        _judge_mean(last_s)


def _judge_mean(last_s: list[float]) -> None:
    if len(last_s) > 1 and (sum(last_s) - max(last_s)) / (len(last_s) - 1) > MOST_MEAN_S:
        raise TooSlowError
