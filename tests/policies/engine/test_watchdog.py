"""The watchdog: when an engine counts as hung, and when the watchdog itself was delayed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headway_policies import Progress, Recovery, Watchdog

TERMS = Recovery(hang_after_s=30.0, slow_step_after_s=120.0)


def looks(watchdog: Watchdog, *times_s: float) -> list[bool]:
    """What it says at each of these times."""
    return [watchdog.hung(now_s, TERMS) for now_s in times_s]


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


@pytest.mark.parametrize(
    ("looks_s", "said"),
    [
        ([15.0, 30.0, 31.0], [False, False, True]),
        ([15.001, 30.0, 45.0, 45.002], [False, False, False, True]),
        ([1e6, 1e6 + 15, 1e6 + 30, 1e6 + 31], [False, False, False, True]),
        ([10, 20, 29, 60, 75, 90, 91], [False, False, False, False, False, False, True]),
        ([10, 20, 30, 31, 60, 1e6], [False, False, False, True, True, True]),
    ],
    ids=[
        "half the time is often enough", "a little too seldom", "asleep for days", "asleep just before", "hung before",
    ],
)  # fmt: skip
def test_a_watch_that_was_not_looked_at_begins_anew(looks_s: list[float], said: list[bool]) -> None:
    """The watch saw nothing for over half of ``hang_after_s``: it reports no hang until it has watched for all of it.

    An engine that was hung before has not responded since, so it still is.
    """
    assert looks(Watchdog(0.0), *looks_s) == said


def first_hung_s(*reports: Callable[[float], Progress], until_s: int = 200, terms: Recovery = TERMS) -> float | None:
    """When an engine that gives no other sign is first taken for hung, looked at each second; None: never."""
    watchdog = Watchdog(0.0)
    for now_s in range(until_s):
        watchdog.reported([report(now_s) for report in reports], now_s)
        if watchdog.hung(now_s, terms):
            return now_s
    return None


def at_step(now_s: float) -> Progress:
    """One long step, that computes."""
    return Progress(engine=1, beats=int(now_s), works=7, cpu_s=now_s)


def idle(now_s: float) -> Progress:
    """An engine that waits for work, and does not answer."""
    return Progress(engine=3, beats=int(now_s), works=8, cpu_s=now_s)


def frozen(now_s: float) -> Progress:
    """Stopped as a whole in the middle of a step."""
    return Progress(engine=2, beats=5, works=7, cpu_s=5.0)


def idling_workers(now_s: float) -> Progress:
    """At a step, in which no worker computes any more."""
    return Progress(engine=1, beats=int(now_s), works=7, cpu_s=5.0)


def on_a_gpu(now_s: float) -> Progress:
    """At a step, where the CPU time says nothing."""
    return Progress(engine=1, beats=int(now_s), works=7)


def short_steps(now_s: float) -> Progress:
    """Step upon step, none of which is reported in any other way."""
    return Progress(engine=1, beats=int(now_s), works=int(now_s))


def stopped_worker(now_s: float) -> Progress:
    """Idle, with a worker that was stopped at 50 s."""
    return Progress(engine=1, beats=int(now_s), works=2 * int(now_s), stopped=int(now_s >= 50))


def stepping(now_s: float) -> Progress:
    """Another rank, which steps and responds."""
    return Progress(engine=9, beats=int(now_s), works=2 * int(now_s))


def from_50_s(report: Callable[[float], Progress]) -> Callable[[float], Progress]:
    """Steps until 50 s, and from then on what this one reports."""
    return lambda now_s: short_steps(now_s) if now_s < 50 else report(now_s)


@pytest.mark.parametrize(
    ("report", "expected_s"),
    [
        (lambda now_s: Progress(engine=1, beats=49, works=49), 80),
        (idling_workers, 81),
        (at_step, 171),
        (on_a_gpu, 171),
        (lambda now_s: Progress(engine=1, beats=int(now_s), works=50), None),
        (frozen, None),
    ],
    ids=["stopped", "no CPU time", "a step without end", "the same on a GPU", "idle", "what an ended process left"],
)
def test_a_rank_is_hung_while_another_one_responds(
    report: Callable[[float], Progress], expected_s: float | None
) -> None:
    """Its own reports show it; an idle one is healthy, and a record that never changed is no evidence."""
    assert first_hung_s(from_50_s(report) if report is not frozen else frozen, stepping) == expected_s


@pytest.mark.parametrize(
    ("reports", "expected_s"),
    [
        ([], 31),
        ([at_step], 121),
        ([on_a_gpu], 121),
        ([idle], 31),
        ([frozen], 31),
        ([at_step, frozen], 31),
        ([at_step, idle], 121),
        ([idling_workers], 31),
        ([short_steps], None),
        ([stopped_worker], 80),
    ],
    ids=[
        "no reports", "a slow step", "a slow step on a GPU", "not at work", "reports that stop", "one of two stopped",
        "one of two slow", "no CPU time", "short steps", "a stopped worker",
    ],
)  # fmt: skip
def test_only_a_step_that_is_reported_to_go_on_is_excused_and_not_for_ever(
    reports: list[Callable[[float], Progress]], expected_s: float | None
) -> None:
    """A slow step has ``slow_step_after_s``; whatever else is silent, and any stopped part, ``hang_after_s``."""
    assert first_hung_s(*reports) == expected_s


def test_the_bound_of_a_slow_step_is_never_the_smaller_one() -> None:
    """Where a preset gives a hang more time than a slow step, a slow step has as much."""
    terms = Recovery(hang_after_s=60.0, slow_step_after_s=20.0)
    assert first_hung_s(at_step, terms=terms) == 61


def test_a_slow_step_is_distinguished_from_a_hang() -> None:
    """Slow is what is silent for longer than ``hang_after_s`` and excused."""
    watchdog = Watchdog(0.0)
    said = []
    for now_s in range(125):
        watchdog.reported([at_step(now_s)], now_s)
        said.append((watchdog.slow(now_s, TERMS), watchdog.hung(now_s, TERMS)))
    assert said == [(False, False)] * 31 + [(True, False)] * 90 + [(False, True)] * 4


def test_a_step_that_ends_is_a_sign_of_life_and_so_is_another_engine() -> None:
    """The time begins anew with the next step, and with a report of an engine that was not there before."""
    watchdog = Watchdog(0.0)
    for now_s in range(0, 100, 10):
        watchdog.reported([Progress(engine=1, beats=now_s, works=1 if now_s < 70 else 2)], now_s)
        assert not watchdog.hung(now_s, TERMS)
    assert watchdog.silent_s(90) == 20
    watchdog.reported([Progress(engine=9, beats=0, works=1, stopped=1)], 100)
    assert [watchdog.hung(now_s, TERMS) for now_s in (101, 115, 129)] == [False] * 3


def test_a_watch_that_was_asleep_accuses_no_stopped_worker_either() -> None:
    """The watch has not seen for how long."""
    watchdog = Watchdog(0.0)
    watchdog.reported([stopped_worker(60)], 60)
    assert [watchdog.hung(now_s, TERMS) for now_s in (60, 1e6, 1e6 + 15, 1e6 + 30, 1e6 + 31)] == [False] * 4 + [True]
