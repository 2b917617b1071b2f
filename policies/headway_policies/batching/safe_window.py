"""Protection against a custom window that fails, and the window that a preset names.

A custom window proposes how long a batch gathers; it cannot hold a batch up. ``SafeWindow`` cuts what it returns to the
preset's ``window_ms``. When it raises, or returns a negative number or none at all, it is disabled: batches gather for
the fixed window from then on, until a preset with other ``[batching]`` settings is in force. So no request waits longer
than ``window_ms`` for a batch, whatever a custom window does, except that it never returns.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real

from headway_policies.batching.window import (
    AdaptiveWindow,
    FixedWindow,
    Gathered,
    ReportingWindow,
    Window,
    WindowReason,
)
from headway_policies.import_path import FAILURES, find_class


class SafeWindow:
    """``window`` until its first error, and from then on the fixed window of ``longest_s``.

    ``failed`` describes the error in a few words; None: none.
    """

    def __init__(self, window: Window, longest_s: float) -> None:
        self.failed: str | None = None
        self._window: Window = window
        self._longest_s = longest_s

    def length_s(self, gathered: Gathered, now_s: float) -> float:
        """The length that the window in force returns, at most ``longest_s``."""
        if self.failed is None:
            try:
                length_s = self._window.length_s(gathered, now_s)
                if isinstance(length_s, Real) and length_s >= 0:
                    return min(float(length_s), self._longest_s)
                self._disable("length_s gave a wrong answer")
            except FAILURES as error:  # a custom policy may raise anything
                self._disable(f"length_s raised {type(error).__name__}")
        return self._longest_s

    def arrived(self, seats: int, now_s: float) -> None:
        self._notify("arrived", lambda window: window.arrived(seats, now_s))

    def batch_done(self, seats: int, duration_s: float, now_s: float) -> None:
        self._notify("batch_done", lambda window: window.batch_done(seats, duration_s, now_s))

    def reason(self, gathered: Gathered, now_s: float) -> WindowReason:
        """The custom window, or the fixed one in its place."""
        return WindowReason.CUSTOM if self.failed is None else WindowReason.FIXED

    def first_token(self, slo_ratio: float) -> None:
        """A custom window does not learn from first tokens."""

    def _notify(self, what: str, message: Callable[[Window], None]) -> None:
        try:
            message(self._window)
        except FAILURES as error:  # a custom policy may raise anything
            self._disable(f"{what} raised {type(error).__name__}")

    def _disable(self, why: str) -> None:
        self.failed = why
        self._window = FixedWindow(self._longest_s)


def make_window(kind: str, window_ms: float) -> ReportingWindow:
    """The window a preset names. ``window_ms`` may have any fraction: 0.001 is a microsecond.

    Raises ValueError for an import path that names no class.
    """
    longest_s = window_ms / 1000
    match kind:
        case "fixed":
            return FixedWindow(longest_s)
        case "adaptive":
            return AdaptiveWindow(longest_s)
    return SafeWindow(find_class(kind)(longest_s), longest_s)
