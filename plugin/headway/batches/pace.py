"""The pace of a batch: whether what is left of it fits into what is left of its window.

The lines of a batch run in the least urgent class, in what the others leave. The pace is the mean of the lines done a
second, weighted by exp(-age / T), with T a fiftieth of the window: it forgets a busy hour as a quiet one. A batch is
late where at this pace more than ``_SAFE`` of the time left would pass, and no more where less than ``_EASY`` would. In
the last ``_END`` of the window it stays late: a pace that falls then is seen too late. A pace is believed once it was
measured for half of T.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import exp
from typing import Final

_UNITS_S: Final = {"m": 60, "h": 3600, "d": 86_400}
_WINDOW = re.compile(r"([1-9][0-9]{0,4})([mhd])")
_MAX_WINDOW_S: Final = 14 * 86_400
_SAFE: Final = 0.8
_EASY: Final = 0.5
_END: Final = 0.05
_OF_WINDOW: Final = 50


def window_s(text: str) -> int | None:
    """The seconds of a completion window, such as 24h; None for another text, and above two weeks."""
    found = _WINDOW.fullmatch(text)
    seconds = 0 if found is None else int(found[1]) * _UNITS_S[found[2]]
    return seconds if 0 < seconds <= _MAX_WINDOW_S else None


@dataclass(slots=True)
class Pace:
    """The pace of one batch that runs since ``at_s`` with a window of ``window_s``."""

    window_s: float
    at_s: float
    late: bool = False
    _done: float = 0.0
    _passed_s: float = 0.0

    def done(self, lines: int, now_s: float) -> None:
        """So many lines were done since the last call."""
        passed_s, mean_s = max(0.0, now_s - self.at_s), self.window_s / _OF_WINDOW
        kept = exp(-passed_s / mean_s)
        self._done = self._done * kept + lines
        self._passed_s = self._passed_s * kept + mean_s * (1.0 - kept)
        self.at_s = now_s

    def needed_s(self, left: int) -> float | None:
        """The time that so many lines need; None before the pace is believed."""
        believed = self._passed_s >= self.window_s / _OF_WINDOW * (1.0 - exp(-0.5))
        return left * self._passed_s / max(self._done, 1e-9) if believed else None

    def judge(self, left: int, left_s: float) -> bool:
        """Whether a batch with so many lines left, and so much time, is late: it was, or is now."""
        if left and left_s <= 0:
            self.late = True
        elif (needed_s := self.needed_s(left)) is not None:
            stays = self.late and (left_s < self.window_s * _END or needed_s > left_s * _EASY)
            self.late = stays or needed_s > left_s * _SAFE
        return self.late
