"""How many tokens the demo's prompts and answers have, as seen in its own traffic: for the simulation of the same."""

from __future__ import annotations

from dataclasses import dataclass

from headway_simulator import Request
from headway_tools.demo.traffic import Arrival

_CHARS_A_TOKEN = 4.0
_TEMPLATE_TOKENS = 20  # what a chat template adds to a short prompt


@dataclass(frozen=True, slots=True)
class _Answered:
    """Totals of the completed requests of one prompt: ``made_tokens`` of the ``asked_tokens`` that they might have."""

    prompt_tokens: int
    made_tokens: int
    asked_tokens: int


class TokenLengths:
    """The lengths seen so far, by prompt. A prompt that was not answered yet has an estimate by its characters."""

    def __init__(self) -> None:
        self._seen: dict[str, _Answered] = {}

    def learn(self, arrival: Arrival, prompt_tokens: int, output_tokens: int) -> None:
        """Take in one completed request."""
        before = self._seen.get(arrival.prompt, _Answered(0, 0, 0))
        made, asked = before.made_tokens + output_tokens, before.asked_tokens + arrival.max_tokens
        self._seen[arrival.prompt] = _Answered(prompt_tokens, made, asked)

    def request(self, arrival: Arrival) -> Request:
        """The arrival as the simulator takes it, with an answer as long as those to its prompt were."""
        known = self._seen.get(arrival.prompt)
        if known is None:
            prompt, made = _TEMPLATE_TOKENS + round(len(arrival.prompt) / _CHARS_A_TOKEN), arrival.max_tokens
        else:
            prompt, made = known.prompt_tokens, round(arrival.max_tokens * known.made_tokens / known.asked_tokens)
        return Request(arrival.at_s, arrival.class_name, max(1, prompt), max(1, made), arrival.max_tokens)
