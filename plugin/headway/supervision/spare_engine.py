"""The spare engine of a recycle: the new engine, started beside the old one, which serves until the new one is up.

Two engines need the memory of two. Where that is not free, or not known, the old engine ends before the new one starts.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

#: How the new engine of a recycle was started.
BESIDE = "beside the old engine"
AFTER = "after the old engine ended"
#: Why not beside the old engine, where the replacer knows no spare.
NO_SPARE = "this server cannot start two engines at a time"


@runtime_checkable
class SpareStarter(Protocol):
    """What a ``Replacer`` has in addition where it can start an engine beside the running one.

    ``start`` takes a spare that is there, also one that is still starting; ``kill`` does not end it.
    """

    async def why_no_spare(self) -> str:
        """Why a second engine cannot run beside the present one now; empty where it can."""
        ...

    async def start_spare(self) -> None:
        """Start another engine, to which no request goes. Raises NoEngineError where it does not start."""
        ...

    def spare_up(self) -> bool:
        """Whether there is a spare that has started and still lives."""
        ...

    def end_spare(self) -> None:
        """End the spare at once, also one that is still starting; nothing where there is none, or it is in use."""
        ...
