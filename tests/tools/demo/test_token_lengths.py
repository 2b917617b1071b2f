"""The lengths of the demo's prompts and answers."""

from __future__ import annotations

from headway_simulator import Request
from headway_tools.demo.token_lengths import TokenLengths
from headway_tools.demo.traffic import Arrival

HELLO = Arrival(2.0, "normal", "Hello there.", 30)


def test_an_answer_is_as_long_as_those_to_the_same_prompt_were() -> None:
    """The share of the tokens that they might have had, over all of them."""
    lengths = TokenLengths()
    lengths.learn(HELLO, 41, 10)
    lengths.learn(HELLO, 41, 20)
    assert lengths.request(HELLO) == Request(2.0, "normal", 41, 15, 30)


def test_a_prompt_that_was_never_answered_has_an_estimate() -> None:
    """More for a longer prompt, and the whole answer."""
    short, long = TokenLengths().request(HELLO), TokenLengths().request(Arrival(2.0, "normal", "word " * 100, 30))
    assert 0 < short.prompt_tokens < long.prompt_tokens
    assert short.output_tokens == 30


def test_an_empty_answer_is_still_a_token() -> None:
    """The simulated engine makes one at least."""
    lengths = TokenLengths()
    lengths.learn(HELLO, 41, 0)
    assert lengths.request(HELLO).output_tokens == 1
