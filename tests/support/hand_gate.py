"""A gate on a clock and a timer that the test moves by hand."""

from __future__ import annotations

from typing import Any

from headway.admission.gate import Gate
from headway_policies import Preset


class HandGate(Gate):
    """Its clock stands at ``at_s``; each reading moves it on by ``drift_s``. ``wake_s`` is when its timer is due."""

    def __init__(self, preset: Preset, **more: Any) -> None:
        super().__init__(preset, **more)
        self.at_s = self.drift_s = 0.0
        self.wake_s: float | None = None
        self.now_s = self._read

    def _read(self) -> float:
        self.at_s += self.drift_s
        return self.at_s

    def _arm(self, at_s: float) -> None:
        self.wake_s = self._due_s = at_s

    def wait(self, for_s: float) -> None:
        """Let time pass, the timer in time."""
        until_s = self.at_s + for_s
        while self.wake_s is not None and self.wake_s <= until_s:
            self.at_s, self.wake_s = max(self.at_s, self.wake_s), None
            self._tick()
        self.at_s = max(self.at_s, until_s)

    def stand_still(self, for_s: float) -> None:
        """Let time pass in which the timer is not looked at, and then look."""
        self.at_s += for_s
        if self.wake_s is not None and self.wake_s <= self.at_s:
            self.wake_s = None
            self._tick()
