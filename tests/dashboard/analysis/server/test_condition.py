"""The six conditions of a server as the dashboard sees it, which must not be confused."""

from __future__ import annotations

import math

import pytest

from headway_dashboard.analysis.queries.reading import Health
from headway_dashboard.analysis.server.condition import Activity, State, condition

BUSY = Activity(ready=1, arrivals_per_s=3, queued=0, in_flight=2)
IDLE = Activity(ready=1, arrivals_per_s=0, queued=0, in_flight=0)
NOW_S = 1000.0


def failing(trouble: str, failures: int, since_s: float, last_ok_s: float | None = 990.0) -> Health:
    """A target that stopped answering."""
    return Health(last_ok_s, failures, trouble, "nothing answers", since_s)  # type: ignore[arg-type]  # a table's text


@pytest.mark.parametrize(
    ("health", "activity", "expected"),
    [
        (Health(), BUSY, State.CONNECTING),
        (failing("refused", 1, 999, None), BUSY, State.CONNECTING),
        (failing("refused", 2, 998, None), BUSY, State.DOWN),
        (Health(999.0), BUSY, State.LIVE),
        (Health(999.0), IDLE, State.NO_TRAFFIC),
        (Health(999.0), Activity(1, 0, 3, 0), State.LIVE),
        (Health(999.0), Activity(1, 0, 0, 1), State.LIVE),
        (Health(999.0), Activity(0, 0, 0, 0), State.NOT_READY),
        (Health(999.0), Activity(), State.LIVE),
        (Health(999.0), Activity(1, 0, None, 0), State.LIVE),
        (Health(999.0), Activity(1, 0, 0, None), State.LIVE),
        (failing("refused", 1, 999, 998.0), BUSY, State.LIVE),
        (failing("refused", 2, 997), BUSY, State.DOWN),
        (failing("silent", 3, 991), BUSY, State.STALE),
        (failing("silent", 12, 965, 960), BUSY, State.DOWN),
        (Health(980.0), BUSY, State.STALE),
        (Health(1005.0), BUSY, State.LIVE),
    ],
    ids=[
        "nothing yet",
        "one failure is no verdict",
        "never reached",
        "live",
        "no traffic",
        "waiting requests are traffic",
        "running requests are traffic",
        "not ready",
        "nothing measured is not no traffic",
        "an unknown queue is not no traffic",
        "unknown running requests are not no traffic",
        "one refusal",
        "two refusals",
        "silence makes stale",
        "long silence is down",
        "old samples without trouble",
        "a clock ahead of ours",
    ],
)
def test_condition(health: Health, activity: Activity, expected: State) -> None:
    """Each state has its own cause."""
    assert condition(health, activity, NOW_S, interval_s=2).state is expected


@pytest.mark.parametrize(
    ("health", "expected"),
    [
        (Health(NOW_S - 8.0), State.LIVE),
        (Health(math.nextafter(NOW_S - 8.0, 0)), State.STALE),
        (failing("silent", 9, math.nextafter(NOW_S - 30.0, NOW_S), 960.0), State.STALE),
        (failing("silent", 9, NOW_S - 30.0, 960.0), State.DOWN),
        (failing("silent", 9, math.nextafter(NOW_S - 30.0, 0), 960.0), State.DOWN),
    ],
    ids=["three intervals and 2 s", "just older", "just less than half a minute", "half a minute", "just more"],
)
def test_where_one_state_ends_and_the_next_begins(health: Health, expected: State) -> None:
    """The age at its limit, just above and just below."""
    assert condition(health, BUSY, NOW_S, interval_s=2).state is expected


def test_down_says_since_when_and_why() -> None:
    """The banner names the reason and the age of what is still shown."""
    found = condition(failing("refused", 5, 991), BUSY, NOW_S, interval_s=2)
    assert "nothing answers" in found.sentence
    assert "10\u00a0s ago" in found.sentence
    assert not found.current
