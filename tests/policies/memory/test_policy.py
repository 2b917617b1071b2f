"""The memory policy: actions on seats, caches and the engine when memory is short."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway_policies.memory.policy import CapSeats, Clear, MemoryPolicy, MemoryReading, Recycle, Remedy
from headway_policies.memory.settings import Cache, Memory

MIB, GIB = 2**20, 2**30
USUAL = MemoryReading(running=4, kv_usage_ratio=0.5, gpu_usage_ratio=0.90, server_bytes=2 * GIB, engine_bytes=8 * GIB)
WORKER = (Cache.WORKER,)


def seen(**changed: Any) -> MemoryReading:
    """The usual reading, with a difference."""
    return replace(USUAL, **changed)


def walk(config: Memory, *times: tuple[float, MemoryReading]) -> list[tuple[float, Remedy]]:
    """What is done, and when, after a first reading at 0 that shows nothing unusual."""
    supervisor = MemoryPolicy(0.0)
    assert supervisor.update(USUAL, config, 0.0) == []
    return [(now_s, one) for now_s, reading in times for one in supervisor.update(reading, config, now_s)]


def often(reading: MemoryReading, until_s: int = 60, every_s: int = 5) -> list[tuple[float, MemoryReading]]:
    """The same reading again and again."""
    return [(float(now_s), reading) for now_s in range(every_s, until_s + 1, every_s)]


def test_caches_are_cleared_after_so_many_requests_where_the_preset_says_so() -> None:
    """Off by default; else after each so many, as soon as none runs, and never more often than clear_every_s allows."""
    busy = [(float(now_s), seen(running=4, requests=now_s)) for now_s in range(1, 100)]
    idle = [(float(now_s), seen(running=0, requests=now_s)) for now_s in range(100, 400)]
    assert walk(Memory(), *busy, *idle) == []
    every = Memory(clear_every_requests=50, clear_every_s=1)
    times_s = [100.0, 150.0, 200.0, 250.0, 300.0, 350.0]
    assert walk(every, *busy, *idle) == [(now_s, Clear(WORKER, "requests")) for now_s in times_s]
    rarely = Memory(clear_every_requests=50, clear_every_s=200)
    assert [now_s for now_s, _ in walk(rarely, *busy, *idle)] == [100.0, 300.0]


NOTHING_WRONG: dict[str, MemoryReading] = {
    "the usual": USUAL,
    "no GPU": seen(gpu_usage_ratio=None),
    "a card nearly full, and no fuller than it began": seen(gpu_usage_ratio=0.94),
    "the KV cache at its threshold": seen(kv_usage_ratio=0.98),
    "a server as much larger as its queue": seen(server_bytes=9 * GIB, queue_bytes=7 * GIB),
    "a server grown a little": seen(server_bytes=2 * GIB + 900 * MIB),
    "a server grown much, while others run": seen(server_bytes=9 * GIB),
    "an engine grown out of all proportion": seen(engine_bytes=64 * GIB),
    "a job of the usual size": seen(running=0, largest_job_tokens=32_767),
    "a large job while others run": seen(running=1, largest_job_tokens=32_768),
}


@pytest.mark.parametrize("reading", NOTHING_WRONG.values(), ids=NOTHING_WRONG)
def test_by_default_it_leaves_well_alone(reading: MemoryReading) -> None:
    """Nothing is done about what is usual, and no engine is replaced unasked."""
    assert walk(Memory(), *often(reading, 3600)) == []


def test_a_full_kv_cache_takes_seats_and_clears_nothing() -> None:
    """Cached prefixes give way by themselves: only fewer sequences help."""
    full = walk(Memory(), *often(seen(kv_usage_ratio=0.99), 30))
    assert full == [(15.0, CapSeats(0.8)), (25.0, CapSeats(0.64))]


def test_a_full_card_takes_seats_and_clears_the_caches_at_once() -> None:
    """The caches first, whatever runs; the seats when that has not helped within ``lower_after_s``."""
    full = walk(Memory(), *often(seen(gpu_usage_ratio=0.99), 20))
    assert full == [(5.0, Clear(WORKER, "GPU memory")), (15.0, CapSeats(0.8))]


def test_a_card_that_the_engine_fills_for_good_does_not_press() -> None:
    """An engine started with 0.985 of the card is at home there; half of what it left free is its threshold."""
    supervisor, at_home = MemoryPolicy(0.0), seen(gpu_usage_ratio=0.985)
    assert [one for now_s, reading in often(at_home, 600) for one in supervisor.update(reading, Memory(), now_s)] == []
    assert supervisor.update(seen(gpu_usage_ratio=0.993), Memory(), 605.0) == [Clear(WORKER, "GPU memory")]


def test_seats_come_back_below_the_lower_threshold_only() -> None:
    """The hysteresis of a card at 0.90 with a threshold of 0.98: quiet begins at 0.972."""
    config = Memory(lower_after_s=0.0, raise_after_s=10.0, min_ratio=0.8, clear_every_s=10_000.0)
    supervisor = MemoryPolicy(0.0)
    supervisor.update(USUAL, config, 0.0)
    assert CapSeats(0.8) in supervisor.update(seen(gpu_usage_ratio=0.99), config, 1.0)
    for now_s in range(2, 100):
        assert supervisor.update(seen(gpu_usage_ratio=0.975), config, float(now_s)) == []
    quiet = seen(gpu_usage_ratio=0.97)
    back = [(now_s, one) for now_s in range(100, 130) for one in supervisor.update(quiet, config, float(now_s))]
    assert back == [(110, CapSeats(0.9)), (120, CapSeats(1.0))]


def test_a_large_job_is_cleared_away_once_it_is_quiet() -> None:
    """Not while others run; then once, and not again for the same job."""
    large = seen(running=3, largest_job_tokens=100_000)
    times = [(5.0, large), (10.0, seen(running=2)), (15.0, seen(running=0)), (400.0, seen(running=0))]
    assert walk(Memory(), *times) == [(15.0, Clear(WORKER, "large job"))]
    both = Memory(caches=(Cache.WORKER, Cache.PREFIX), clear_max_running=3)
    assert walk(both, *times) == [(5.0, Clear((Cache.WORKER, Cache.PREFIX), "large job"))]
    assert walk(Memory(caches=()), *times) == []


def test_a_server_that_has_grown_tidies_its_heap_and_counts_anew() -> None:
    """Once for each further ``server_growth_bytes``, so that a leak does not stop the loop every few minutes."""
    config = Memory(clear_every_s=10.0)
    grown = [(float(now_s), seen(running=0, server_bytes=2 * GIB + now_s * MIB)) for now_s in range(5, 4001, 5)]
    done = walk(config, *grown)
    assert [one for _, one in done] == [Clear((Cache.HEAP,), "growth")] * 3
    assert [now_s for now_s, _ in done] == [1025.0, 2055.0, 3085.0]


def test_an_engine_is_replaced_by_schedule_or_growth_where_the_preset_says_so() -> None:
    """Each once for its period; growth not more often than every ten minutes."""
    by_schedule = walk(Memory(recycle_every_s=3600.0), *often(USUAL, 4 * 3600))
    assert by_schedule == [(3600.0 * turn, Recycle("schedule")) for turn in range(1, 5)]
    grown = often(seen(engine_bytes=10 * GIB), 1300)
    assert walk(Memory(recycle_growth_bytes=GIB), *grown) == [(600.0, Recycle("growth")), (1200.0, Recycle("growth"))]


def test_another_engine_begins_with_a_clean_slate() -> None:
    """Its age and its size count from when it came."""
    config = Memory(recycle_every_s=1000.0, recycle_growth_bytes=GIB)
    supervisor = MemoryPolicy(0.0)
    supervisor.update(USUAL, config, 0.0)
    supervisor.replaced(900.0)
    larger = seen(engine_bytes=10 * GIB)
    assert [one for now_s in range(905, 1900, 5) for one in supervisor.update(larger, config, float(now_s))] == []
    assert supervisor.update(larger, config, 1900.0) == [Recycle("schedule")]


readings = st.builds(
    MemoryReading,
    running=st.integers(0, 8),
    kv_usage_ratio=st.floats(0, 1),
    gpu_usage_ratio=st.none() | st.floats(0, 1),
    server_bytes=st.integers(0, 16 * GIB),
    engine_bytes=st.integers(0, 16 * GIB),
    queue_bytes=st.integers(0, GIB),
    largest_job_tokens=st.integers(0, 70_000),
)
configs = st.builds(
    Memory,
    lower_after_s=st.floats(0, 30),
    raise_after_s=st.floats(0, 30),
    min_ratio=st.floats(0.01, 1),
    clear_every_s=st.floats(1, 600),
    clear_max_running=st.integers(0, 8),
    recycle_every_s=st.none() | st.floats(60, 600),
    recycle_growth_bytes=st.none() | st.integers(2**20, GIB),
)


@given(st.lists(st.tuples(st.floats(0.1, 120.0), readings), max_size=60), configs)
def test_whatever_the_readings_it_stays_gentle(history: list[tuple[float, MemoryReading]], config: Memory) -> None:
    """Clears keep their distance, and happen only when few run or memory presses; the share stays in its bounds."""
    supervisor, now_s, cleared_s, cap_ratio = MemoryPolicy(0.0), 0.0, None, 1.0
    for gap_s, reading in history:
        now_s += gap_s
        for one in supervisor.update(reading, config, now_s):
            match one:
                case Clear(caches, why):
                    assert cleared_s is None or now_s >= cleared_s + config.clear_every_s
                    assert caches
                    assert why == "GPU memory" or reading.running <= config.clear_max_running
                    cleared_s = now_s
                case CapSeats(ratio):
                    cap_ratio = ratio
                    assert config.min_ratio <= ratio <= 1
                case Recycle(why):
                    assert config.recycle_every_s is not None or config.recycle_growth_bytes is not None
    calm = MemoryReading()
    for step in range(15):
        for effect in supervisor.update(calm, config, now_s + 1 + step * (config.raise_after_s + 1)):
            cap_ratio = effect.ratio if isinstance(effect, CapSeats) else cap_ratio
    assert cap_ratio == 1.0


def test_all_caches_are_cleared_once_for_a_job_also_where_the_heap_is_one_of_them() -> None:
    """Not every few minutes from then on."""
    config = Memory(caches=(Cache.WORKER, Cache.HEAP), large_job_tokens=30_000, clear_every_s=300.0)
    large = [(10.0, seen(running=0, largest_job_tokens=40_000))]
    later = [(float(now_s), seen(running=0)) for now_s in range(20, 3600, 10)]
    assert [at_s for at_s, one in walk(config, *large, *later) if isinstance(one, Clear)] == [10.0]


@pytest.mark.parametrize("rule", ["kv_usage_ratio", "gpu_usage_ratio"])
def test_a_rule_that_is_switched_off_gives_the_seats_back(rule: str) -> None:
    """Under the same load."""
    usage = {rule: 0.96}
    policy, on = MemoryPolicy(0.0), Memory(**{rule: 0.9}, min_ratio=0.25)
    policy.update(seen(gpu_usage_ratio=0.5), on, 0.0)
    capped = [one for now_s in range(5, 300, 5) for one in policy.update(seen(**usage), on, float(now_s))]
    assert CapSeats(0.25) in capped
    off = on.model_copy(update={rule: 1.0})
    freed = [one for now_s in range(300, 9000, 5) for one in policy.update(seen(**usage), off, float(now_s))]
    assert freed[-1] == CapSeats(1.0)


def test_a_share_below_a_raised_bound_is_raised() -> None:
    """At the next reading."""
    policy, low = MemoryPolicy(0.0), Memory(kv_usage_ratio=0.9, min_ratio=0.25)
    for now_s in range(5, 300, 5):
        policy.update(seen(kv_usage_ratio=0.96), low, float(now_s))
    raised = low.model_copy(update={"min_ratio": 0.75})
    assert policy.update(seen(kv_usage_ratio=0.96), raised, 300.0) == [CapSeats(0.75)]
