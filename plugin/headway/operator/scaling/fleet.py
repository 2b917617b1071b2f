"""The number of instances of a whole fleet, all of whose traffic passes one router.

Its history of arrivals is by the time of day in UTC, and is kept in a file between two starts, as are the instance
hours of the day where they are bounded. Known weak spot: between two starts so many are taken to have run as serve at
the second.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path

from headway.api.schema import InstanceStatus
from headway.operator.scaling.arrivals_file import ArrivalsFile
from headway_policies.scaling import ArrivalHistory, Desired, DesiredInstances, Scaling, ScalingSignals

log = logging.getLogger(__name__)

_KEEP_EVERY_S = 300.0


@dataclass(frozen=True, slots=True)
class Fleet:
    """The fleet of a router: its settings, how many instances serve now, the file of its arrivals, and the state of
    each instance. The file is None where there is none, or as long as no instance has said what it serves.
    """

    settings: Scaling
    ready: Callable[[], int]
    arrivals_file: Callable[[], Path | None] = lambda: None
    instances: Callable[[], Sequence[InstanceStatus]] = tuple


class FleetScale:
    """The decision of one router. ``now_s`` is the loop's clock; ``epoch_s`` is read once, at the start."""

    def __init__(self, fleet: Fleet, now_s: Callable[[], float], epoch_s: Callable[[], float] = time.time) -> None:
        self._fleet = fleet
        self._now_s = now_s
        self._epoch_offset_s = epoch_s() - now_s()
        self._history = ArrivalHistory()
        self._file: ArrivalsFile | None = None
        self._policy: DesiredInstances | None = None
        self._last: Desired | None = None
        self._seen_s: float | None = None
        self._kept_s = -inf

    def update(self, seen: ScalingSignals) -> float:
        """The number, logged where it is another one than before."""
        now_s = self._now_s()
        if self._policy is None:
            self._policy = DesiredInstances(self._fleet.settings, self._history, seen.ready)
            self._kept_s = now_s
        if self._file is None:
            self._recall(self._policy, self._epoch_offset_s + now_s)
        gap_s = 0.0 if self._seen_s is None else now_s - self._seen_s
        self._seen_s = now_s
        self._history.observe(seen.offered * gap_s, self._epoch_offset_s + now_s)
        desired = self._policy.update(seen, self._epoch_offset_s + now_s)
        if self._last is None or desired.instances != self._last.instances:
            log.info("desired instances: %d (%s); %d serve", desired.instances, desired.why, seen.ready)
        self._last = desired
        if now_s - self._kept_s >= _KEEP_EVERY_S:
            self._kept_s = now_s
            self.end()
        return float(desired.instances)

    def end(self) -> None:
        """Keep what the next start needs."""
        if self._file is not None and self._policy is not None:
            self._file.spent = self._policy.spent()
            self._file.keep()

    def _recall(self, policy: DesiredInstances, now_s: float) -> None:
        """Continue as the file says, if there is one."""
        path = self._fleet.arrivals_file()
        if path is None:
            return
        self._file = ArrivalsFile(path, self._history)
        self._file.recall()
        if self._file.spent is not None and self._file.spent[0] <= now_s:
            policy.recall_spent(*self._file.spent)
