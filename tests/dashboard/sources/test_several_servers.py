"""Several servers read as one: the merge against an oracle, restarts and gaps of one of them, and servers away."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stub_server import StubServer

from headway_dashboard.analysis.catalogue import panels
from headway_dashboard.analysis.queries import expressions as ex
from headway_dashboard.analysis.queries.model import Grid
from headway_dashboard.analysis.server.condition import State
from headway_dashboard.analysis.server.instances import away_words, by_instance, instance_name, of_instances
from headway_dashboard.analysis.server.newest_values import condition_of
from headway_dashboard.sources import ChosenSource, ScrapeSource, read
from headway_dashboard.sources.evaluation import Evaluator
from headway_dashboard.sources.ring import Ring

STALE_S = 5.0
BOUNDS = (1.0, 4.0)
ON = Grid(start_s=20.0, end_s=40.0, step_s=2.0, window_s=16.0)

# ---------------------------------------------------------------------- the oracle


@dataclass(frozen=True)
class Scrape:
    """What one server says at one time: a counter, a gauge, and how many observations each bucket holds."""

    time_s: float
    counter: int
    gauge: int
    buckets: tuple[int, int, int]


History = list[Scrape]


@st.composite
def histories(draw: st.DrawFn) -> list[History]:
    """One history a server, each with gaps and restarts of its own."""
    found = []
    for _ in range(draw(st.integers(1, 4))):
        offset_s, counter, buckets = draw(st.sampled_from([0.0, 0.3, 1.1])), draw(st.integers(0, 500)), [0, 0, 0]
        history = []
        for at in range(20):
            if draw(st.integers(0, 9)) == 0:  # the server restarts
                counter, buckets = 0, [0, 0, 0]
            counter += draw(st.integers(0, 9))
            for place in range(3):
                buckets[place] += draw(st.integers(0, 3))
            if draw(st.integers(0, 4)):  # else this scrape is missing
                history.append(Scrape(2.0 * at + offset_s, counter, draw(st.integers(0, 50)), (*buckets,)))
        found.append(history)
    return found


def increase_per_s(samples: list[tuple[float, float]], at_s: float) -> float | None:
    """By definition: what a counter grew inside the window, over the time between its first and last sample there."""
    inside = [(time_s, value) for time_s, value in samples if at_s - ON.window_s <= time_s <= at_s]
    if len(inside) < 2 or at_s - inside[-1][0] > STALE_S + ON.step_s:
        return None
    grown = 0.0
    for (_, before), (_, after) in pairwise(inside):
        grown += after if after < before else after - before
    return grown / (inside[-1][0] - inside[0][0])


def held(samples: list[tuple[float, float]], at_s: float) -> float | None:
    """The newest sample, while it is not stale."""
    past = [(time_s, value) for time_s, value in samples if time_s <= at_s]
    return past[-1][1] if past and at_s - past[-1][0] <= STALE_S + ON.step_s else None


def known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def merged_quantile(share: float, rates: list[float]) -> float | None:
    """Of bucket rates (not cumulative) with the bounds ``BOUNDS`` and infinity, by walking through them."""
    left = share * sum(rates)
    if sum(rates) <= 0:
        return None
    lower = 0.0
    for bound, rate in zip((*BOUNDS, math.inf), rates, strict=True):
        if rate > 0 and left <= rate:
            return lower if bound == math.inf else lower + (bound - lower) * left / rate
        left -= rate
        if bound != math.inf:
            lower = bound
    return lower


def rings_of(told: list[History]) -> list[Ring]:
    """Each history in a ring of its own."""
    rings = []
    for at, history in enumerate(told):
        ring = Ring(1000.0, STALE_S, instance=f"s{at}")
        for one in history:
            cumulative = (one.buckets[0], sum(one.buckets[:2]), sum(one.buckets))
            ring.add(
                one.time_s,
                [
                    (("headway_c_total", ()), float(one.counter)),
                    (("headway_g", ()), float(one.gauge)),
                    *(
                        (("headway_h_bucket", (("le", le),)), float(count))
                        for le, count in zip(("1.0", "4.0", "+Inf"), cumulative, strict=True)
                    ),
                ],
            )
        rings.append(ring)
    return rings


def evaluator(told: list[History]) -> Evaluator:
    """All histories read as one."""
    rings = rings_of(told)
    return Evaluator(
        lambda metric, suffix, since_s: (one for ring in rings for one in ring.columns(metric, suffix, since_s)),
        STALE_S,
    )


LEAST = 5.0
COUNTER, GAUGE, HISTOGRAM = ex.Metric("headway_c_total"), ex.Metric("headway_g"), ex.Metric("headway_h")


@given(histories())
def test_merging_is_what_the_oracle_says(told: list[History]) -> None:
    """Rates are taken on each server and then summed, buckets are merged before a quantile is read; the worst server's
    quantile is of its own buckets, and an imbalance is of the servers that have a value."""
    merged = evaluator(told)
    rates = merged.evaluate(ex.Rate(COUNTER), ON)
    gauges = {
        choose: merged.evaluate(gauge, ON)
        for choose, gauge in ((sum, ex.Gauge(GAUGE)), (max, ex.Gauge(GAUGE, largest=True)),
                              (min, ex.Gauge(GAUGE, least=True)))
    }  # fmt: skip
    medians = merged.evaluate(ex.Quantile(0.5, HISTOGRAM), ON)
    worst = merged.evaluate(ex.Worst(ex.Quantile(0.5, HISTOGRAM)), ON)
    imbalance = merged.evaluate(ex.Imbalance(ex.Gauge(GAUGE), LEAST), ON)
    for at, at_s in enumerate(ON.times_s):
        each = known(increase_per_s([(one.time_s, one.counter) for one in history], at_s) for history in told)
        assert point(rates.line(), at) == (pytest.approx(sum(each)) if each else None)
        values = known(held([(one.time_s, one.gauge) for one in history], at_s) for history in told)
        for choose, series in gauges.items():
            assert point(series.line(), at) == (pytest.approx(choose(values)) if values else None)
        by_bucket = [
            known(increase_per_s([(one.time_s, sum(one.buckets[: place + 1])) for one in history], at_s)
                  for history in told)
            for place in range(3)
        ]  # fmt: skip
        cumulative = [sum(found) for found in by_bucket]
        apart = [cumulative[0], cumulative[1] - cumulative[0], cumulative[2] - cumulative[1]]
        expected = merged_quantile(0.5, apart) if by_bucket[0] else None
        assert point(medians.line(), at) == (None if expected is None else pytest.approx(expected))
        alone = known(
            merged_quantile(0.5, [first, second - first, third - second])
            for first, second, third in zip(*by_bucket, strict=True)
        )
        assert point(worst.line(), at) == (pytest.approx(max(alone)) if alone else None)
        uneven = max(values, default=0.0) >= LEAST
        assert point(imbalance.line(), at) == (
            pytest.approx(max(values) / (sum(values) / len(values))) if uneven else None
        )


def point(line: object, at: int) -> float | None:
    """One point of a line; none of a line that is not there."""
    return line[at] if line else None  # type: ignore[index,no-any-return]  # a sequence of points


@given(histories(), st.data())
def test_one_server_alone_is_as_if_there_were_no_others(told: list[History], data: st.DataObject) -> None:
    """A limit to an instance, and the lines by instance, give what its own ring gives."""
    at = data.draw(st.integers(0, len(told) - 1))
    alone = rings_of(told)[at]
    merged = evaluator(told)
    for expression in (ex.Rate(COUNTER), ex.Gauge(GAUGE), ex.Quantile(0.9, HISTOGRAM), ex.Buckets(HISTOGRAM)):
        expected = alone.evaluate(expression, ON)
        assert merged.evaluate(of_instances(expression, (f"s{at}",)), ON) == expected
        apart = merged.evaluate(by_instance(expression), ON).lines
        assert {labels[1:]: line for labels, line in apart.items() if labels[0] == f"s{at}"} == expected.lines


def test_a_restart_of_one_server_does_not_distort_the_others() -> None:
    """The sum of the counters falls; the sum of the rates does not, and nothing jumps when it is back."""
    steady = [Scrape(2.0 * at, 1000 + 10 * at, 0, (0, 0, 0)) for at in range(21)]
    restarted = [Scrape(2.0 * at, 4 * at if at < 10 else 4 * (at - 10), 0, (0, 0, 0)) for at in range(21)]
    line = evaluator([steady, restarted]).evaluate(ex.Rate(COUNTER), ON).line()
    assert line == pytest.approx([7.0 if at_s < 20 else line[at] for at, at_s in enumerate(ON.times_s)])
    assert all(point is not None and 6.0 < point <= 7.0 for point in line)


def test_the_memory_of_a_ring_is_bounded() -> None:
    """A server with very many series is remembered for a shorter time, not in more memory."""
    ring = Ring(1e9, STALE_S, max_values=1000)
    for at in range(200):
        ring.add(float(at), [((f"headway_{number}", ()), 1.0) for number in range(50)])
    assert len(ring) == 20


# ---------------------------------------------------------------------- real scrapes


class Clock:
    """A clock a test sets."""

    def __init__(self) -> None:
        self.now_s = 10_000.0

    def __call__(self) -> float:
        return self.now_s


def polled(source: ScrapeSource, clock: Clock, stubs: Iterable[StubServer], times: int) -> None:
    """Let the stubs move on, and poll them by hand."""
    source._start = lambda: None  # type: ignore[method-assign]  # no threads
    for _ in range(times):
        for stub in stubs:
            stub.world.step(2.0)
        clock.now_s += 2
        source.poll()


def test_two_servers_are_summed_and_one_that_goes_away_is_left_out(stub: StubServer) -> None:
    """No zero is shown for it, and the state says so in words."""
    clock = Clock()
    with StubServer() as other:
        source = ScrapeSource(stub.url, other.url, interval_s=2.0, clock=clock)
        polled(source, clock, (stub, other), 20)
        both = read(source, (*panels.FACTS, *panels.HEAD), 300.0)
        assert both[panels.LIMIT].latest() == 64
        assert both[panels.LIMIT_OF_ONE].latest() == 32
        assert both[panels.READY].latest() == 1
        queued = sum((*stub.world.queued.values(), *other.world.queued.values()))
        assert both[panels.QUEUED].latest() == queued
        assert both[panels.ARRIVALS].latest() == pytest.approx(26, rel=0.1)
        assert away_words(both, clock.now_s) == ""
    polled(source, clock, (stub,), 20)
    left = read(source, (*panels.FACTS, *panels.HEAD), 300.0)
    assert left[panels.LIMIT].latest() == 32
    assert left[panels.ARRIVALS].latest() == pytest.approx(13, rel=0.1)
    state = condition_of(left, clock.now_s)
    assert state.state is State.LIVE
    assert "1 of 2 servers does not answer." in state.sentence
    apart = read(source, (by_instance(panels.LIMIT),), 300.0)[by_instance(panels.LIMIT)]
    assert apart.latest(instance_name(stub.url)) == 32
    assert apart.latest(instance_name(other.url)) is None
    source.close()


def test_all_servers_away_is_down(nobody: str, black_hole: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With none left there is no partial state."""
    monkeypatch.setattr("headway_dashboard.sources.scrape.READ_TIMEOUT_S", 0.1)
    clock = Clock()
    source = ScrapeSource(nobody, black_hole, interval_s=2.0, clock=clock)
    polled(source, clock, (), 20)
    reading = read(source, (*panels.FACTS, *panels.HEAD), 300.0)
    assert condition_of(reading, clock.now_s).state is State.DOWN
    assert away_words(reading, clock.now_s) == ""
    source.close()


def test_a_chosen_server_has_its_own_figures_and_its_own_state(stub: StubServer) -> None:
    """The other one, which is down, changes neither."""
    clock = Clock()
    with StubServer() as other:
        source = ScrapeSource(stub.url, other.url, interval_s=2.0, clock=clock)
        polled(source, clock, (stub, other), 10)
    polled(source, clock, (stub,), 10)
    alone = read(ChosenSource(source, instance_name(stub.url)), (*panels.FACTS, *panels.HEAD), 300.0)
    assert alone[panels.LIMIT].latest() == 32
    assert "servers" not in condition_of(alone, clock.now_s).sentence
    gone = read(ChosenSource(source, instance_name(other.url)), (*panels.FACTS, *panels.HEAD), 300.0)
    assert condition_of(gone, clock.now_s).state is State.DOWN
    assert gone[panels.LIMIT].latest() is None
    source.close()


def test_each_server_has_a_thread_of_its_own(stub: StubServer, black_hole: str, until: Callable[..., None]) -> None:
    """One that hangs delays none of the others, and only the first of many readings."""
    stub.moving = True
    with contextlib.closing(ScrapeSource(black_hole, stub.url, interval_s=0.5)) as source:
        readings, took_s = [], []
        for _ in range(6):
            began_s = time.monotonic()
            readings.append(read(source, (panels.LIMIT,), 300.0))
            took_s.append(time.monotonic() - began_s)
        assert sum(took_s[1:]) < 0.5 * took_s[0]
        assert readings[-1][panels.LIMIT].latest() == 32
        assert readings[-1].instances[instance_name(black_hole)].trouble is None, "it waited until it was given up"
        until(lambda: read(source, (), 300.0).instances[instance_name(black_hole)].trouble == "silent")
        assert read(source, (), 300.0).health.trouble is None
