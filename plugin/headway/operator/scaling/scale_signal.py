"""The number of instances that one server asks for, renewed every few seconds by a background task.

A server behind no router of Headway asks for what its own traffic needs, in parts of an instance: the parts of several
servers add up, and what reads the sum rounds it up, holds and bounds it. A router asks for its whole fleet.
"""

from __future__ import annotations

import logging
from typing import Protocol

from headway.background_tasks import sleep_until_turn
from headway.operator.scaling.load_reader import LoadReader
from headway_policies.scaling import Scaling, ScalingSignals, own_need

log = logging.getLogger(__name__)

EVERY_S = 5.0


class Decision(Protocol):
    """Decides by the load."""

    def update(self, seen: ScalingSignals) -> float:
        """How many instances there should be."""
        ...

    def end(self) -> None:
        """The server ends."""
        ...


class OwnNeed:
    """The decision of one server among others, or alone."""

    _settings = Scaling()

    def update(self, seen: ScalingSignals) -> float:
        """Update the signal, in parts of an instance."""
        return own_need(self._settings, seen).instances

    def end(self) -> None:
        """There is nothing to keep."""


class ScaleSignal:
    """``instances`` is the number; before the first reading the least there can be. Call it on the event loop only."""

    def __init__(self, reader: LoadReader, decision: Decision, instances: float = 0.0) -> None:
        self.instances = instances
        self._reader = reader
        self._decision = decision

    async def run(self) -> None:
        """Renew the number for as long as the server runs."""
        try:
            while True:
                try:
                    self.update()
                except Exception:  # an error here must not end the signal: the last number stands until the next look
                    log.exception("scale signal: iteration failed")
                await sleep_until_turn(EVERY_S)
        finally:
            self._decision.end()

    def update(self) -> None:
        """Decide anew by the load as it is now."""
        seen = self._reader.read()
        if seen is not None:
            self.instances = self._decision.update(seen)
