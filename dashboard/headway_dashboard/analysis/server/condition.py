"""The condition of the server and of its figures: connecting, down, stale, not ready, no traffic, live.

The six must never be mistaken for each other.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from headway_dashboard.analysis.queries.reading import Health, stale_after_s
from headway_dashboard.analysis.units import duration

_FAILURES_UNTIL_DOWN = 2
_SILENT_UNTIL_DOWN_S = 30.0


class State(StrEnum):
    """The statement of the banner."""

    CONNECTING = "connecting"
    DOWN = "down"
    STALE = "stale"
    NOT_READY = "not ready"
    NO_TRAFFIC = "no traffic"
    LIVE = "live"


@dataclass(frozen=True, slots=True)
class Activity:
    """The activity in the newest points; None for what was not measured."""

    ready: float | None = None
    arrivals_per_s: float | None = None
    queued: float | None = None
    in_flight: float | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """A state and one sentence about it."""

    state: State
    sentence: str

    @property
    def current(self) -> bool:
        """Whether the newest points describe the server as it is now."""
        return self.state in (State.NOT_READY, State.NO_TRAFFIC, State.LIVE)


def condition(health: Health, activity: Activity, now_s: float, interval_s: float) -> Condition:
    """The condition that holds.

    Refusals make a server *down* after two in a row. Silence first makes the numbers *stale*; after half a minute of it
    the server counts as down as well.
    """
    if health.last_ok_s is None:
        if health.failures < _FAILURES_UNTIL_DOWN:
            return Condition(State.CONNECTING, "Waiting for the first figures.")
        return Condition(State.DOWN, f"Not reached since this page started: {health.detail}.")
    age_s = max(0.0, now_s - health.last_ok_s)
    if _is_down(health, now_s):
        down_s = max(0.0, now_s - (now_s if health.failing_since_s is None else health.failing_since_s))
        sentence = f"Down for {duration(round(down_s))}: {health.detail}. {_last_known(age_s)}"
        return Condition(State.DOWN, sentence)
    if age_s > stale_after_s(interval_s):
        reason = f": {health.detail}" if health.detail else ""
        return Condition(State.STALE, f"No new figures{reason}. {_last_known(age_s)}")
    if activity.ready == 0:
        return Condition(State.NOT_READY, "The server runs but takes no traffic (it is warming up or draining).")
    if activity.arrivals_per_s == 0 and activity.queued == 0 and activity.in_flight == 0:
        return Condition(State.NO_TRAFFIC, "The server is ready; no requests have come in the last 30 s.")
    return Condition(State.LIVE, f"Figures are {duration(round(age_s))} old." if age_s >= 1 else "Figures are current.")


def _is_down(health: Health, now_s: float) -> bool:
    if health.trouble == "refused":
        return health.failures >= _FAILURES_UNTIL_DOWN
    since_s = health.failing_since_s
    return health.trouble == "silent" and since_s is not None and now_s - since_s >= _SILENT_UNTIL_DOWN_S


def _last_known(age_s: float) -> str:
    return f"The tiles show the last known values, from {duration(round(age_s))} ago."
