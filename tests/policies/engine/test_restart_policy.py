"""The restart policy: the action after each death of the engine, and when the count of deaths is reset."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies import Cause, Recovery, Restart, RestartPolicy

CONFIG = Recovery(max_restarts=3, backoff_s=1.0, healthy_after_s=120.0)
CRASH, OUT_OF_MEMORY, HANG, RECYCLE = Cause


def dies(*causes: Cause, config: Recovery = CONFIG) -> list[Restart | None]:
    """What follows each of these deaths, with an engine that serves for a second in between."""
    record, now_s, followed = RestartPolicy(), 0.0, []
    for cause in causes:
        followed.append(record.died(cause, now_s, config))
        record.back(now_s)
        now_s += 1.0
    return followed


DEATHS: dict[str, tuple[list[Cause], Restart | None]] = {
    "the first": ([CRASH], Restart(0.0, 1.0, admitting=True)),
    "the second": ([CRASH, CRASH], Restart(1.0, 1.0, admitting=True)),
    "the third": ([CRASH, HANG, CRASH], Restart(2.0, 1.0, admitting=True)),
    "one too many": ([CRASH] * 4, None),
    "a hang": ([HANG], Restart(0.0, 1.0, admitting=True)),
    "out of memory": ([OUT_OF_MEMORY], Restart(0.0, 0.5, admitting=True)),
    "out of memory again": ([OUT_OF_MEMORY] * 2, Restart(1.0, 0.25, admitting=False)),
    "out of memory, with a crash between": ([OUT_OF_MEMORY, CRASH, OUT_OF_MEMORY], Restart(2.0, 0.25, admitting=False)),
    "a crash after out of memory": ([OUT_OF_MEMORY, CRASH], Restart(1.0, 0.5, admitting=True)),
    "a crash after out of memory twice": ([OUT_OF_MEMORY] * 2 + [CRASH], Restart(2.0, 0.25, admitting=False)),
    "a recycle": ([RECYCLE], Restart(0.0, 1.0, admitting=True)),
    "a crash after recycles": ([RECYCLE] * 9 + [CRASH], Restart(0.0, 1.0, admitting=True)),
    "a recycle after out of memory": ([OUT_OF_MEMORY, RECYCLE], Restart(0.0, 0.5, admitting=True)),
}


@pytest.mark.parametrize(("causes", "expected"), DEATHS.values(), ids=DEATHS)
def test_what_follows_the_last_of_these_deaths(causes: list[Cause], expected: Restart | None) -> None:
    """Pause, seats and whether requests are admitted meanwhile, as the table in the file says; None gives up."""
    assert dies(*causes)[-1] == expected


@pytest.mark.parametrize("restarts", [0, 1, 3])
def test_exactly_so_many_engines_are_tried_in_a_row(restarts: int) -> None:
    """As many as the preset says, and then no other one."""
    followed = dies(*[CRASH] * (restarts + 1), config=Recovery(max_restarts=restarts))
    assert [one is not None for one in followed] == [True] * restarts + [False]


@pytest.mark.parametrize(
    (("backoff_s", "pauses_s")),
    [(1.0, [0, 1, 2, 4, 8, 16, 32, 60, 60]), (20.0, [0, 20, 40, 60, 60]), (0.0, [0, 0, 0])],
    ids=["the usual", "a long one", "none"],
)
def test_each_pause_is_twice_the_one_before_up_to_a_minute(backoff_s: float, pauses_s: list[float]) -> None:
    """The first death is followed at once, the second after the preset's pause."""
    followed = dies(*[CRASH] * len(pauses_s), config=Recovery(max_restarts=100, backoff_s=backoff_s))
    assert [one.after_s for one in followed if one is not None] == pauses_s


def test_the_pause_stays_a_number() -> None:
    """No overflow, however often it died."""
    last = dies(*[CRASH] * 1000, config=Recovery(max_restarts=1000, backoff_s=0.001))[-1]
    assert last is not None
    assert 0 < last.after_s <= 60.0


@pytest.mark.parametrize(
    ("healthy_s", "cleared"),
    [(0.0, False), (119.999, False), (120.0, True), (1e6, True)],
    ids=["at once", "just before", "at the instant", "much later"],
)
@pytest.mark.parametrize("looked", [True, False], ids=["looked at", "seen at the next death"])
def test_a_healthy_stretch_clears_the_record(healthy_s: float, cleared: bool, looked: bool) -> None:
    """The limit is whole again, and the next death is the first one, whether or not it was updated in between."""
    record = RestartPolicy()
    for _ in range(2):
        record.died(OUT_OF_MEMORY, 0.0, CONFIG)
    record.back(1000.0)
    if looked:
        assert record.update(1000.0 + healthy_s, CONFIG) is cleared
        assert record.seats_ratio == (1.0 if cleared else 0.25)
        assert record.update(1000.0 + healthy_s, CONFIG) is False
    after = Restart(0.0, 1.0, admitting=True) if cleared else Restart(2.0, 0.25, admitting=False)
    assert record.died(CRASH, 1000.0 + healthy_s, CONFIG) == after
    assert record.deaths == 3


def test_time_without_an_engine_is_no_health() -> None:
    """From a death until an engine serves again, nothing is cleared, however long that takes."""
    record = RestartPolicy()
    record.died(OUT_OF_MEMORY, 0.0, CONFIG)
    record.back(10.0)
    record.died(OUT_OF_MEMORY, 20.0, CONFIG)
    assert record.update(1e6, CONFIG) is False
    assert (record.seats_ratio, record.deaths_in_a_row) == (0.25, 2)
    assert record.died(CRASH, 1e6, CONFIG) == Restart(2.0, 0.25, admitting=False)


def test_a_clean_record_needs_no_clearing() -> None:
    """An engine that never died is whole, and stays so."""
    record = RestartPolicy()
    record.back(0.0)
    assert record.update(1e9, CONFIG) is False
    assert (record.seats_ratio, record.deaths) == (1.0, 0)


@given(st.lists(st.tuples(st.sampled_from(Cause), st.floats(0, 300)), max_size=30), st.integers(0, 5))
def test_no_engine_is_tried_for_ever(history: list[tuple[Cause, float]], restarts: int) -> None:
    """Whatever happens, between two healthy stretches there are at most so many tries; a recycle is none of them."""
    config, record, now_s, tries = Recovery(max_restarts=restarts), RestartPolicy(), 0.0, 0
    for cause, served_s in history:
        followed = record.died(cause, now_s, config)
        if cause is not RECYCLE:
            tries += followed is not None
        assert tries <= restarts
        if followed is None:
            return
        assert 0 <= followed.after_s <= 60.0
        assert 0 < followed.seats_ratio <= 1
        now_s += followed.after_s
        record.back(now_s)
        now_s += served_s
        if served_s >= config.healthy_after_s:
            tries = 0
