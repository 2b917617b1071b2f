"""The spare engine of a recycle: the new engine, started beside the old one, which serves until the new one is up.

Two engines need the memory of two. Where that is not free, or not known, the old engine ends before the new one starts.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

#: How the new engine of a recycle was started.
BESIDE = "beside the old engine"
AFTER = "after the old engine ended"
#: Why a new engine is not started beside the old one, where the replacer knows no spare.
NO_SPARE = "this server cannot start two engines at a time"


@runtime_checkable
class SpareStarter(Protocol):
    """The methods that a ``Replacer`` has in addition where it can start an engine beside the running one.

    ``start`` takes a spare that exists, also one that is still starting; ``kill`` does not end it.
    """

    async def why_no_spare(self) -> str:
        """The reason why a second engine cannot run beside the present one now; empty where it can."""
        ...

    async def start_spare(self) -> None:
        """Start another engine, to which no request goes. Raises NoEngineError where it does not start."""
        ...

    def spare_up(self) -> bool:
        """Whether a spare has started and still lives."""
        ...

    def end_spare(self) -> None:
        """End the spare at once, also while it starts; do nothing without a spare, or where it is in use."""
        ...
