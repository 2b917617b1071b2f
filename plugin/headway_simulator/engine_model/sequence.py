"""A sequence in the engine: what it asks for, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass

#: The step of an event that has not come, or is over.
GONE = -1


@dataclass(slots=True, eq=False)
class Sequence:
    """A sequence in the engine. A smaller ``priority`` is more urgent, as in vLLM. ``made_tokens`` counts its output up
    to the last time it began or ceased to decode; ``Engine.made_tokens`` is exact. Sequences with the same ``prefix``
    have the first ``prefix_tokens`` of their prompts in common; 0 is none. The sequence was submitted at ``sent_s``.
    ``adapter`` is a LoRA adapter; "" is the model itself.
    """

    id: int
    prompt_tokens: int
    output_tokens: int
    priority: int = 0
    made_tokens: int = 0
    prefill_left: int = 0
    turn: int = 0
    began_step: int = GONE
    end_step: int = GONE
    running: bool = False
    dropped: bool = False
    prefix: int = 0
    prefix_tokens: int = 0
    sent_s: float = 0.0
    adapter: str = ""

    @property
    def decoding(self) -> bool:
        """Whether the sequence makes a token in each step."""
        return self.end_step != GONE
