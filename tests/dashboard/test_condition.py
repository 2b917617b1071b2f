"""Six conditions that must never be taken for each other, and the sentence that judges a live server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_dashboard.condition import Activity, State, condition
from headway_dashboard.sources.reading import Health
from headway_dashboard.verdict import Facts, verdict

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


def test_down_says_since_when_and_why() -> None:
    """The banner names the reason and the age of what is still shown."""
    found = condition(failing("refused", 5, 991), BUSY, NOW_S, interval_s=2)
    assert "nothing answers" in found.sentence
    assert "10\u00a0s ago" in found.sentence
    assert not found.current


@pytest.mark.parametrize(
    ("facts", "opening"),
    [
        (Facts(), "Batch size and limit are not measured"),
        (
            Facts(seats_taken=5, limit=32, queued=0, ttft_p95_s=0.12),
            "Plenty of room: 5 of 32 seats taken, nobody waits.",
        ),
        (Facts(seats_taken=20, limit=32, queued=0), "Room to spare"),
        (Facts(seats_taken=32, limit=32, queued=0), "Full but not late"),
        (
            Facts(seats_taken=32, limit=32, queued=41, oldest_wait_s=3.2),
            "Limited by seats: 32 of 32 seats taken, 41 waiting",
        ),
        (Facts(seats_taken=10, limit=32, queued=4), "Requests wait although seats are free"),
        (Facts(seats_taken=20, limit=32, queued=9, kv_ratio=0.97), "Limited by memory"),
        (
            Facts(seats_taken=32, limit=32, error_share=0.2, main_cause="queue full"),
            "20\u00a0% of requests end without",
        ),
        (Facts(seats_taken=32, limit=32, queued=0, error_share=0.001), "Full but not late"),
    ],
)
def test_verdict(facts: Facts, opening: str) -> None:
    """The first rule that holds speaks, and brings its evidence."""
    assert verdict(facts).startswith(opening)


maybe = st.none() | st.floats(0, 1000)


@given(maybe, maybe, maybe, maybe, maybe, st.none() | st.floats(0, 1), st.none() | st.floats(0, 1))
def test_verdict_always_is_one_paragraph(
    batch: float | None,
    seats: float | None,
    limit: float | None,
    queued: float | None,
    oldest_s: float | None,
    kv: float | None,
    errors: float | None,
) -> None:
    """Whatever is missing, there is a sentence, and it never says None or nan."""
    text = verdict(Facts(batch, seats, limit, queued, oldest_s, kv, errors))
    assert text.endswith(".")
    assert "None" not in text
    assert "nan" not in text
