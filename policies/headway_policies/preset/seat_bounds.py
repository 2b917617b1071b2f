"""The seats of one engine: the sequences that its KV space holds, and the knee of throughput over latency."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from headway_policies.limits import EngineFit
from headway_policies.preset.model import Preset

#: A prompt and an answer of 512 tokens each, where nothing is recorded and the preset bounds no batch.
TYPICAL_TOKENS = 1024
_MOST_SEATS = 65_536


@dataclass(frozen=True, slots=True)
class SeatBounds:
    """``kv_seats`` sequences of ``sequence_tokens`` fill the KV space but for the preset's reserve: the recent mean
    where it is ``recorded``, else the typical length. Beyond ``knee_seats`` 10 % more tokens a second cost over 20
    % more time between tokens (``limits.EngineFit``). ``best_seats`` are what the engine would bear within the
    objective for the time between tokens. None while not known.
    """

    kv_seats: int | None = None
    sequence_tokens: float = 0.0
    recorded: bool = False
    knee_seats: int | None = None
    best_seats: int | None = None

    @property
    def words(self) -> list[str]:
        """The known bounds, a sentence without its full stop each."""
        found = []
        if self.kv_seats is not None:
            length = "the recent mean length" if self.recorded else "a typical length"
            sequences = f"{self.kv_seats} sequences of {self.sequence_tokens:.0f} tokens"
            found.append(f"the KV space has room for {sequences} beside its reserve, {length}")
        if self.knee_seats is not None:
            found.append(
                f"beyond {self.knee_seats} seats 10 % more tokens a second cost over 20 % more time between tokens"
            )
        return found


def best_seats(preset: Preset, engine: EngineFit) -> int | None:
    """The seats with which this engine keeps the objective of a preset for the time between tokens, by its fit; None
    while that is not known, or sequences have cost nothing.
    """
    unloaded = engine.unloaded
    if unloaded is None:
        return None
    set_point_s = preset.limit.set_point_s(0.0, unloaded.token_s)
    seats = engine.seats(set_point_s) if set_point_s < inf else None
    return None if seats is None else max(1, min(round(seats), _MOST_SEATS))


def typical_tokens(preset: Preset, longest_tokens: int | None) -> float:
    """The length of a sequence before any is recorded: its part of the preset's token budget, or a usual one; never
    longer than the engine can hold.
    """
    budget, seats = preset.batching.max_total_tokens, preset.batching.seats
    tokens = TYPICAL_TOKENS if budget is None else min(TYPICAL_TOKENS, budget / seats)
    return tokens if longest_tokens is None else min(tokens, longest_tokens)
