"""Random words, for prompts that no prefix cache has seen."""

from __future__ import annotations

from random import Random

_SYLLABLES = ["ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "ri", "so", "tu", "va", "we"]


def random_words(random: Random, number: int) -> str:
    """So many words of two syllables, most of which are two tokens each."""
    return " ".join("".join(random.choices(_SYLLABLES, k=2)) for _ in range(number))
