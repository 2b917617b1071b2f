"""The other model, as far as the fallback controller knows it: behind HTTP, an engine of the same program,
or a fixed reply in its place."""

from __future__ import annotations

from typing import Protocol

from headway_policies.fallback import CircuitBreaker


class OtherModel(Protocol):
    """Another model that answers diverted requests."""

    breaker: CircuitBreaker
    in_flight: int

    @property
    def model(self) -> str:
        """Its name, for operators."""
        ...

    async def close(self) -> None:
        """Release what it holds."""
        ...
