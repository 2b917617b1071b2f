"""How many seats a preset asks of the engine: those it starts with, and how far its limit may go.

The ceiling is the engine's (vLLM's ``--max-num-seqs``). A preset whose adaptive limit states no ``max_seats`` follows
the engine up to there.
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


def reach(preset: Preset, ceiling: str = "its --max-num-seqs") -> str:
    """The seats of a preset in words; ``ceiling`` names that of the engine."""
    seats, limit = _seats(preset.batching.seats), preset.limit
    if limit.shadow:
        return f"{seats}, fixed; what {limit.policy} would allow is only shown"
    if limit.policy == "fixed":
        return f"{seats}, fewer where KV space is short" if limit.memory_aware else f"{seats}, fixed"
    if limit.max_seats is None:
        return f"starts at {seats}, follows the engine up to {ceiling}"
    return f"starts at {seats}, at most {limit.max_seats}"


def _seats(number: int) -> str:
    return "1 seat" if number == 1 else f"{number} seats"
