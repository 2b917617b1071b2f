"""When an engine counts as hung, and when the watch itself was not awake."""

from __future__ import annotations

import pytest

from headway_policies import Watchdog

HANG_AFTER_S = 30.0


def looks(watchdog: Watchdog, *times_s: float) -> list[bool]:
    """What it says at each of these times."""
    return [watchdog.hung(now_s, HANG_AFTER_S) for now_s in times_s]


@pytest.mark.parametrize(
    ("silent_s", "hung"),
    [(0.0, False), (16.0, False), (30.0, False), (30.001, True), (45.0, True)],
    ids=["just heard", "half of it", "all of it", "longer", "much longer"],
)
def test_an_engine_is_hung_after_so_long_a_silence_and_not_before(silent_s: float, hung: bool) -> None:
    """Looked at every second, only the whole ``hang_after_s`` counts."""
    watchdog = Watchdog(100.0)
    times_s = [100.0 + step for step in range(int(silent_s) + 1)]
    assert looks(watchdog, *times_s, 100.0 + silent_s)[-1] is hung
    assert watchdog.silent_s(100.0 + silent_s) == pytest.approx(silent_s)


def test_a_sign_of_life_starts_the_time_anew() -> None:
    """Also that of an engine which was taken for hung."""
    watchdog = Watchdog(0.0)
    assert looks(watchdog, 10, 20, 29) == [False] * 3
    watchdog.heard(29.0)
    assert looks(watchdog, 40, 50, 59, 60) == [False, False, False, True]
    watchdog.heard(61.0)
    assert looks(watchdog, 62, 75, 90, 92) == [False, False, False, True]


def test_an_engine_that_stays_silent_stays_hung() -> None:
    """As long as it is looked at."""
    assert looks(Watchdog(0.0), *range(0, 100, 10)) == [False] * 4 + [True] * 6


@pytest.mark.parametrize(
    ("looks_s", "said"),
    [
        ([15.0, 30.0, 31.0], [False, False, True]),
        ([15.001, 30.0, 45.0, 45.002], [False, False, False, True]),
        ([1e6, 1e6 + 15, 1e6 + 30, 1e6 + 31], [False, False, False, True]),
        ([10, 20, 29, 60, 75, 90, 91], [False, False, False, False, False, False, True]),
    ],
    ids=["half the time is often enough", "a little too seldom", "asleep for days", "asleep just before"],
)
def test_a_watch_that_was_not_looked_at_begins_anew(looks_s: list[float], said: list[bool]) -> None:
    """It saw nothing for more than half of ``hang_after_s``: it accuses nobody until it has watched for all of it."""
    assert looks(Watchdog(0.0), *looks_s) == said
