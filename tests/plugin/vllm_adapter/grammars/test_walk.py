"""The walk through a grammar: what costs too much at each token is found, on a clock that the grammar moves itself.

torch and xgrammar take seconds to import: only the test worker that runs these tests does it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest

from headway.vllm_adapter.grammars.frames import MOST_MEAN_S
from headway.vllm_adapter.grammars.walk import MOST_STEP_S, STEPS, TooSlowError, walk

if TYPE_CHECKING:
    import torch

VOCABULARY = 96


def bitmask() -> torch.Tensor:
    """The allowed tokens of one sequence."""
    import xgrammar

    return xgrammar.allocate_token_bitmask(1, VOCABULARY)


class Costly:
    """A grammar of letters that takes ``cost_s(step)`` for each step, and ends after so many."""

    def __init__(
        self, cost_s: Callable[[int], float], steps: int = 10**6, allowed: tuple[int, ...] = (5, 6, 7)
    ) -> None:
        self.now_s = 0.0
        self.taken: list[list[int]] = [[]]
        self._cost_s, self._steps, self._allowed = cost_s, steps, allowed

    def clock(self) -> float:
        return self.now_s

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        import torch

        self.now_s += self._cost_s(len(self.taken[-1]))
        bits = np.zeros(VOCABULARY, dtype=np.uint8)
        bits[[*self._allowed]] = 1
        bitmask[batch_index] = torch.from_numpy(np.packbits(bits, bitorder="little").view(np.int32).copy())

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        self.taken[-1] += tokens
        return True

    def is_terminated(self) -> bool:
        return len(self.taken[-1]) >= self._steps

    def reset(self) -> None:
        self.taken.append([])

    def walk(self, special: tuple[int, ...] = (), opening: tuple[int, ...] = ()) -> None:
        import torch

        walk(self, torch.zeros((1, VOCABULARY // 32), dtype=torch.int32), special, opening, clock=self.clock)


def test_a_grammar_with_a_usual_cost_is_walked_through_in_four_ways() -> None:
    """The first token, the one before again, brackets, any; one long step is the making of something that is kept."""
    grammar = Costly(lambda step: 2 * MOST_STEP_S if step == 1 else 0.0002)
    grammar.walk(opening=(1, 6))
    first, same, brackets, any_ = grammar.taken[:4]
    assert set(first) == {5}
    assert len(set(same)) == 1
    assert set(brackets) == {6}
    assert set(any_) == {5, 6, 7}
    assert len(first) <= STEPS


def test_a_long_step_among_the_last_is_no_growth() -> None:
    """A choice between many tools is read once in a while, and costs nothing between; nor is one that takes all of a
    walk's time."""
    Costly(lambda step: 0.02 if step % 40 == 39 else 0.00001).walk()
    Costly(lambda step: 0.4 if step == 3 else 0.00001).walk()


@pytest.mark.parametrize(
    "cost_s",
    [
        lambda step: 1.1 * MOST_MEAN_S,
        lambda step: 3.0 * MOST_MEAN_S,
        lambda step: 0.6 * MOST_STEP_S,
        lambda step: 1.1 * MOST_STEP_S if step in (40, 50) else 0.0001,
        lambda step: 2e-9 * step**3 if step < 200 else 0.0,
        lambda step: 0.0001 + 3e-6 * max(0, step - 100),
    ],
    ids=["each token", "cut before a window", "cut at once", "some tokens", "cubic", "linear"],
)
def test_a_grammar_that_takes_too_long_is_refused(cost_s: Callable[[int], float]) -> None:
    """On the mean, at once, or ever more."""
    with pytest.raises(TooSlowError):
        Costly(cost_s).walk()


def test_a_grammar_that_ends_is_walked_to_its_end() -> None:
    """Special tokens are taken only where nothing else may come; nothing to take ends a walk as well."""
    grammar = Costly(lambda step: 0.0, steps=7)
    grammar.walk(special=(5,))
    assert [len(tokens) for tokens in grammar.taken] == [7, 7, 7, 7, 0]
    assert 5 not in {token for tokens in grammar.taken for token in tokens}
    only = Costly(lambda step: 0.0, steps=3, allowed=(5,))
    only.walk(special=(5,))
    assert only.taken == [[5, 5, 5]] * 4 + [[]]
    nothing = Costly(lambda step: 0.0, allowed=())
    nothing.walk()
    assert nothing.taken == [[]] * 5


class Matched:
    """A grammar of the library that vLLM uses, over single letters."""

    def __init__(self, text: str) -> None:
        letters = [chr(32 + at) for at in range(VOCABULARY)]
        from xgrammar import Grammar, GrammarCompiler, GrammarMatcher, TokenizerInfo

        compiler = GrammarCompiler(TokenizerInfo(letters), max_threads=1)
        self._matcher = GrammarMatcher(compiler.compile_grammar(Grammar.from_ebnf(text)))

    def fill_bitmask(self, bitmask: torch.Tensor, batch_index: int) -> None:
        self._matcher.fill_next_token_bitmask(bitmask, batch_index)

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        return all(self._matcher.accept_token(token) for token in tokens)

    def is_terminated(self) -> bool:
        return bool(self._matcher.is_terminated())

    def reset(self) -> None:
        self._matcher.reset()


@pytest.mark.parametrize(
    "text",
    ['root ::= s\ns ::= "a" | s s', 'root ::= s\ns ::= "" | "a" s s | "a" s | s "a"'],
)
def test_ambiguous_grammars_are_refused(text: str) -> None:
    """Each keeps all the ways in which the text so far can be read."""
    with pytest.raises(TooSlowError):
        walk(Matched(text), bitmask())


@pytest.mark.parametrize(
    "text",
    [
        'root ::= [a-z]* "."',
        'root ::= "a" root "a" | "b"',
        'root ::= e\ne ::= t ("+" t)*\nt ::= [0-9]+ | "(" e ")"',
    ],
)
def test_usual_grammars_pass(text: str) -> None:
    """Lists, brackets, a calculator."""
    walk(Matched(text), bitmask())
