"""The log of an adaptive batch window: a line for a move, at most one in ten seconds.

A window that follows the load is a cause of latency that no setting shows. The line has the length before and after,
and what decides it.
"""

from __future__ import annotations

import logging

from headway.admission import Gate
from headway_policies.batching import WindowReason

log = logging.getLogger(__name__)

#: A move is logged when it is at least this part of the longest window.
_MOVE_RATIO = 0.2

_WHY = {
    WindowReason.FIXED: "fixed",
    WindowReason.LEARNING: "too few batches seen yet",
    WindowReason.FILLING: "arrivals are near and batches are not full",
    WindowReason.LOAD: "waiting for another request costs more than it saves",
    WindowReason.IDLE: "idle: no request is expected within the window",
    WindowReason.LATENCY: "first tokens come near their objective, or after it",
    WindowReason.CUSTOM: "a custom window",
}


class WindowLog:
    """The log of the batch window of one gate; nothing under a preset without an adaptive window."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._revision = 0
        self._length_s = 0.0

    def report(self) -> None:
        """Log the move since the last report, if it is large enough."""
        desk, now_s = self._gate.desk, self._gate.now_s()
        batching = desk.preset.batching
        reading = desk.read(now_s)
        reason = reading.window_reason
        if reason is None or batching.window != "adaptive":
            return
        longest_s, length_s = batching.window_ms / 1000, reading.window_s
        if self._revision != desk.mode.revision:
            self._revision, self._length_s = desk.mode.revision, longest_s
        if abs(length_s - self._length_s) < _MOVE_RATIO * longest_s or length_s == self._length_s:
            return
        before_s, self._length_s = self._length_s, length_s
        log.info(
            "batch window: %.3g ms, was %.3g ms, of %.3g ms at most (%s)",
            1000 * length_s,
            1000 * before_s,
            1000 * longest_s,
            _WHY[reason],
        )
