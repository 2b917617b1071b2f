"""Overload with retries: ten times the normal arrivals, and clients that retry after a refusal.

The traffic is 1x, 10x and 1x of the usual rate. Refused clients retry: half of them after the Retry-After of the
refusal, half after one second, until they give up after ten seconds; batch clients give up later.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from random import Random

import pytest
from closed_loop import ClosedLoop, Record, percentile
from tiers import LONG, long_form

from headway_policies import Timeouts, bundled_presets

SEEDS = range(5 if LONG else 1)
CALM_S, OVERLOAD_S = (300.0, 300.0) if LONG else (60.0, 40.0)
LATER_S = CALM_S if LONG else 90.0
SEATS, SERVICE_S = 32, 2.0
PEAK_PER_S = SEATS / SERVICE_S
USUAL_PER_S = 0.8 * PEAK_PER_S
MIX = {"realtime": 0.05, "normal": 0.6, "batch": 0.35}  # at 10x realtime alone is 0.4 of the server
PATIENCE_S = {"realtime": 10.0, "normal": 10.0, "batch": 120.0}


@dataclass
class RetryTraffic:
    """The traffic: its rate by the clock, and its clients."""

    loop: ClosedLoop
    random: Random
    stage: str = "queue_s"  # which time-out a client sends: how long it would queue, or how long it waits in all
    arrivals: Counter[int] = field(default_factory=Counter)

    def factor(self) -> int:
        """The present multiple of the usual traffic."""
        return 10 if CALM_S <= self.loop.now_s < CALM_S + OVERLOAD_S else 1

    def new_clients(self) -> None:
        """Start new clients continuously."""
        names, weights = zip(*MIX.items(), strict=True)
        self.come(self.random.choices(names, weights)[0])
        self.loop.at(self.loop.now_s + self.random.expovariate(USUAL_PER_S * self.factor()), self.new_clients)

    def come(self, name: str, gives_up_s: float | None = None) -> None:
        """One attempt of one client; the request has the time that the client waits for its answer."""
        now_s = self.loop.now_s
        last_s = now_s + PATIENCE_S[name] if gives_up_s is None else gives_up_s
        self.arrivals[int(now_s)] += 1
        honours = self.random.random() < 0.5

        def on_end(record: Record) -> None:
            pause_s = record.retry_after_s if honours else 1.0
            if not record.completed and self.loop.now_s + pause_s < last_s:
                self.loop.at(self.loop.now_s + pause_s, lambda: self.come(name, last_s))

        tenant = f"t{self.random.randrange(20)}"
        asked = Timeouts(**{self.stage: last_s - now_s})
        self.loop.ask(name, on_end, tenant=tenant, asked=asked, prompt_tokens=50, max_tokens=100)


@cache
def overload(seed: int, stage: str = "queue_s") -> RetryTraffic:
    """A run of all phases under the bundled default preset."""
    random = Random(seed)
    loop = ClosedLoop(bundled_presets()["balanced"], lambda record: SERVICE_S * random.uniform(0.5, 1.5))
    made = RetryTraffic(loop, random, stage)
    loop.at(0.0, made.new_clients)
    loop.run(CALM_S + OVERLOAD_S + LATER_S)
    return made


def asked(made: RetryTraffic, start_s: float, end_s: float, name: str) -> list[Record]:
    """The requests of a class that came within some time."""
    return [
        one for one in made.loop.records if start_s <= one.ticket.arrived_s < end_s and one.ticket.class_name == name
    ]


def goodput_ratio(made: RetryTraffic) -> float:
    """Answers in time, once the overload has begun, as a share of all that the server can give."""
    start_s, end_s = CALM_S + 10.0, CALM_S + OVERLOAD_S
    answers = sum(record.completed and start_s <= (record.ended_s or 0.0) < end_s for record in made.loop.records)
    return answers / (end_s - start_s) / PEAK_PER_S


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_ten_times_the_load_costs_neither_goodput_nor_the_urgent(seed: int) -> None:
    """At 10x at least 95 % of the peak is served, and realtime has its answers in at most 1.5 times the usual time."""
    made = overload(seed)
    assert goodput_ratio(made) >= 0.95, seed
    calm = asked(made, 20.0, CALM_S, "realtime")
    busy = asked(made, CALM_S + 10.0, CALM_S + OVERLOAD_S - 10.0, "realtime")
    assert all(one.completed for one in busy), seed
    usual_s = percentile([one.took_s for one in calm], 0.99)
    assert percentile([one.took_s for one in busy], 0.99) <= 1.5 * usual_s, seed


@pytest.mark.parametrize("seed", SEEDS)
def test_after_the_storm_all_is_as_before_within_thirty_seconds(seed: int) -> None:
    """Requests that arrive half a minute later, realtime or normal, are served as without overload; batch work waits
    longer."""
    made = overload(seed)
    later_s = CALM_S + OVERLOAD_S + 30.0
    for name in ("realtime", "normal"):
        calm, later = asked(made, 20.0, CALM_S, name), asked(made, later_s, later_s + 30.0, name)
        assert all(one.completed for one in later), (seed, name)
        usual_s = percentile([one.took_s for one in calm], 0.99)
        assert percentile([one.took_s for one in later], 0.99) <= 1.5 * usual_s, (seed, name)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_refused_do_not_come_back_in_a_wave(seed: int) -> None:
    """In no second of the overload are there more than 2.2 times the mean arrivals, though half the clients obey
    Retry-After. The most come back from the end of the burst that ``balanced`` absorbs: what has waited through it is
    refused within a moment."""
    made = overload(seed)
    seconds = [made.arrivals[second] for second in range(int(CALM_S) + 10, int(CALM_S + OVERLOAD_S))]
    assert max(seconds) / (sum(seconds) / len(seconds)) <= 2.2, seed


@pytest.mark.slow
@long_form("a known weak spot; the tests above have the promise, for clients that time their wait in the queue")
def test_clients_that_time_the_whole_answer_cost_goodput() -> None:
    """The known weak spot: a total time-out is not seen to be out of reach until it comes. Not below half."""
    assert goodput_ratio(overload(0, "total_s")) >= 0.5
