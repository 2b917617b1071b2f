"""How many seats a preset asks of the engine: those it starts with, and how far its limit may go.

The ceiling is the engine's (vLLM's ``--max-num-seqs``). A preset whose adaptive limit states no ``max_seats`` follows
the engine up to there. In words: ``headway_policies.preset.seat_words``.
"""

from __future__ import annotations

from headway_policies import Preset


def stated_seats(preset: Preset) -> int:
    """The largest number of seats that the preset states: its bound, or its first limit where it follows the engine."""
    bound = preset.max_seats()
    return preset.batching.seats + preset.bypass_seats() if bound is None else bound


def follows_engine(preset: Preset) -> bool:
    """Whether the limit may grow to whatever the engine has."""
    return preset.max_seats() is None
