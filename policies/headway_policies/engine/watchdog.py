"""The hang watchdog: detects an engine that has stopped.

Every engine step is a response, and so is the answer to a query that the engine answers between two steps. An idle
engine is watched as well as a busy one. An engine without a response for ``hang_after_s`` counts as hung, with one
exception: a step that is only slow (a long prefill, a compilation).

An engine that can reports its progress from a separate thread, which runs on during a step:

    hung after            when
    hang_after_s          no response, and no report that a step is under way
    hang_after_s          its reports stop: the process was stopped, or its interpreter is blocked
    hang_after_s          one of its workers is stopped, also while it is idle
    hang_after_s          a step is under way, but its workers use no CPU time (only where they must: on a CPU)
    slow_step_after_s     a step is under way and none of that: a GPU that waits for ever looks like one that computes

The last bound is never less than ``hang_after_s``. Several engines behind one client are healthy only together: the
responses of one say nothing of another, so that each is judged by its own reports as well.

When the watchdog itself was not called for a while (a stopped process, a blocked event loop), it has no evidence. The
watchdog starts over and reports no hang; an engine that already counts as hung stays so until it responds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headway_policies.engine.restart_policy import Recovery


@dataclass(frozen=True, slots=True)
class Progress:
    """The report of one engine. The counts ``beats``, ``works`` and ``cpu_s`` only grow; a change is the
    information.

    ``compiling_s`` is the age of the grammar that has been compiling for longest, ``compilations_held_s`` for how long
    grammars have waited while none began or ended.
    """

    engine: int
    beats: int
    works: int
    stopped: int = 0
    cpu_s: float | None = None
    compiling_s: float = 0.0
    compilations_held_s: float = 0.0

    @property
    def at_work(self) -> bool:
        """Whether a step or a call is under way: ``works`` grows by one when it begins and when it ends."""
        return self.works % 2 == 1


class Watchdog:
    """Remembers the last response and the last report of each engine."""

    def __init__(self, now_s: float) -> None:
        self._heard_s = self._looked_s = now_s
        self._hung = False
        self._reports: dict[int, _EngineReport] = {}

    def heard(self, now_s: float) -> None:
        """The engine responded."""
        self._heard_s = now_s

    def reported(self, reports: Sequence[Progress], now_s: float) -> None:
        """The current reports of all engines. A step or call that began or ended since counts as a response."""
        known, self._reports = self._reports, {}
        for report in reports:
            before = known.get(report.engine)
            if before is None:
                self._reports[report.engine] = _EngineReport(report, now_s)
                continue
            if report.works != before.progress.works:
                self.heard(now_s)
            before.update(report, now_s)
            self._reports[report.engine] = before

    def silent_s(self, now_s: float) -> float:
        """The time since the last response."""
        return now_s - self._heard_s

    def slow(self, now_s: float, config: Recovery) -> bool:
        """Whether the engine is silent, but reports a slow step."""
        return self.silent_s(now_s) > config.hang_after_s and self._busy(now_s, config)

    def hung(self, now_s: float, config: Recovery) -> bool:
        """Whether the engine has been silent for too long. Must be called several times within ``hang_after_s``."""
        if not self._hung and now_s - self._looked_s > config.hang_after_s / 2:
            self._reset(now_s)
        self._looked_s = now_s
        reports = self._reports.values()
        stopped = any(report.stopped_s(now_s) > config.hang_after_s for report in reports)
        one_of_several = len(reports) > 1 and any(report.hung(now_s, config) for report in reports)
        silent = self.silent_s(now_s) > config.hang_after_s and not self._busy(now_s, config)
        self._hung = stopped or one_of_several or silent
        return self._hung

    def _busy(self, now_s: float, config: Recovery) -> bool:
        """Whether a slow step explains the silence."""
        reports = self._reports.values()
        return (
            self.silent_s(now_s) <= _most_step_s(config)
            and all(report.alive(now_s, config.hang_after_s) for report in reports)
            and any(report.computes(now_s, config.hang_after_s) for report in reports)
        )

    def _reset(self, now_s: float) -> None:
        self._heard_s = now_s
        self._reports = {engine: _EngineReport(report.progress, now_s) for engine, report in self._reports.items()}


class _EngineReport:
    """The last report of one engine, and when each part of it last changed."""

    def __init__(self, progress: Progress, now_s: float) -> None:
        self.progress = progress
        self._beat_s = self._running_s = self._computed_s = self._worked_s = now_s
        self._began = False

    def update(self, progress: Progress, now_s: float) -> None:
        before, self.progress = self.progress, progress
        if progress.beats != before.beats:
            self._beat_s = now_s
            self._began = True
        if progress.works != before.works:
            self._worked_s = now_s
        if not progress.stopped:
            self._running_s = now_s
        if progress.works != before.works or progress.cpu_s != before.cpu_s or progress.cpu_s is None:
            self._computed_s = now_s

    def stopped_s(self, now_s: float) -> float:
        """The seconds for which one of its workers has been stopped."""
        return now_s - self._running_s if self.progress.stopped else 0.0

    def alive(self, now_s: float, hang_after_s: float) -> bool:
        """Whether its reports still arrive."""
        return now_s - self._beat_s <= hang_after_s

    def computes(self, now_s: float, hang_after_s: float) -> bool:
        """Whether a step is under way with visible progress."""
        return self.progress.at_work and now_s - self._computed_s <= hang_after_s

    def hung(self, now_s: float, config: Recovery) -> bool:
        """Whether these reports alone show a hang: they stopped, or a step in them does. A report that never changed is
        that of a process which has ended, and shows nothing."""
        slow = now_s - self._worked_s > _most_step_s(config)
        stuck = self.progress.at_work and (slow or not self.computes(now_s, config.hang_after_s))
        return self._began and (stuck or not self.alive(now_s, config.hang_after_s))


def _most_step_s(config: Recovery) -> float:
    """The longest time of a step that makes progress."""
    return max(config.hang_after_s, config.slow_step_after_s)
