"""The other model as the fallback controller knows it: behind HTTP, an engine of the program, or a fixed reply."""

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
        """The degradation under which its answers count."""
        ...

    async def close(self) -> None:
        """Release its connections."""
        ...
