"""The other model, as far as the fallback controller knows it.

The model is behind HTTP, an engine of the same program, or a fixed reply in its place.
"""

from __future__ import annotations

from typing import Protocol

from headway_policies.fallback import CircuitBreaker, Degradation


class OtherModel(Protocol):
    """Another model that answers diverted requests."""

    breaker: CircuitBreaker
    in_flight: int

    @property
    def model(self) -> str:
        """The name of the model, for operators."""
        ...

    @property
    def degradation(self) -> Degradation:
        """The kind of degradation as which its answers are counted."""
        ...

    async def close(self) -> None:
        """Release its connections."""
        ...
