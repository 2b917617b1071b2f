"""The ramp: its end, its knee, and its steps on a server."""

from __future__ import annotations

from typing import cast

import pytest
from load_stand_in import LoadStandIn

from headway_simulator.engine_model.capacity import Slo
from headway_simulator.traffic.workload import Request
from headway_tools.load.completions import Completions
from headway_tools.load.measured import Measured
from headway_tools.load.ramp import LOADS, TURNED, RampStep, knee, ramp, turned
from headway_tools.load.run import Load
from headway_tools.load.served import COMPLETED, Served

SLO = Slo(5.0, 1.0)


def step(load: float, tokens: int, first_token_s: float | None) -> RampStep:
    """A step of one second in which so many tokens came, and a first one after that time."""
    measured, request = Measured(SLO, 0.0, 1.0), Request(0.0, "chat", 1, tokens)
    measured.offer(request)
    measured.end(request, Served("chat", COMPLETED, ttft_s=first_token_s, output_tokens=tokens), 0.5)
    return RampStep(load, 10 * load, measured)


def test_the_latency_has_turned_at_so_many_times_that_of_the_first_step() -> None:
    """Not before; a step without any token ends a ramp as well."""
    steps = [step(0.2, 20, 0.1), step(0.4, 40, 0.9 * TURNED * 0.1)]
    assert not turned(steps[:1])
    assert not turned(steps)
    assert turned([*steps, step(0.6, 50, 1.1 * TURNED * 0.1)])
    assert turned([*steps, step(0.6, 0, None)])
    assert turned([step(0.2, 0, None)])


def test_the_knee_is_where_more_load_brings_latency_in_place_of_tokens() -> None:
    """A curve that bends the other way has none, nor has a load that brings nothing."""
    curve = [(0.2, 20, 0.1), (0.4, 40, 0.11), (0.8, 80, 0.15), (1.0, 88, 0.6), (1.25, 90, 2.0)]
    steps = [step(*one) for one in curve]
    assert knee(steps) is steps[2]
    assert knee([*steps, step(1.5, 0, None)]) is steps[2]
    assert knee([step(0.1 * n, n, (0.1, 0.5, 0.8, 0.9, 1.0)[n - 1]) for n in range(1, 6)]) is None
    assert knee([step(0.1 * n, 5, 0.1 * n) for n in range(1, 6)]) is None
    assert knee(steps[:2]) is None


async def test_each_step_offers_more_until_the_load_is_that_of_the_last() -> None:
    """A server with room for all of it: its latency does not turn because of the load."""
    asked: list[float] = []

    def load_at(rate_per_s: float) -> Load:
        asked.append(rate_per_s)
        return Load([Request(0.0, "chat", 1, 2), Request(0.01, "slow", 1, 2)], 0.02, SLO, 5.0)

    shown: list[float] = []
    with LoadStandIn(wait_s=0.05) as server:
        async with Completions(server.url, model=None, as_text=False, timeout_s=5.0) as client:
            steps = await ramp(client, 100.0, load_at, lambda what, ratio: shown.append(ratio))
    assert [one.load for one in steps] == [*LOADS][: len(steps)]
    assert asked == [one.rate_per_s for one in steps] == [100 * one.load for one in steps]
    assert all(one.measured.all.completed == one.measured.all.offered == 1 for one in steps)
    assert len(steps) == len(LOADS) or turned(steps)
    assert 0.0 <= min(shown) <= max(shown) <= 1.0


async def test_it_ends_with_the_load_at_which_the_latency_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is beyond it would only fill the queue of a server in use."""

    async def offer(server: object, load: Load, *_: object) -> Measured:
        load_of = len(load.requests) / 10
        return step(load_of, 10, 2.0 if load_of >= 0.7 else 0.1).measured

    monkeypatch.setattr("headway_tools.load.ramp.offer", offer)
    asked = [Request(0.0, "chat", 1, 2)]
    steps = await ramp(
        cast(Completions, None), 10.0, lambda rate: Load(asked * round(rate), 1.0, SLO, 5.0), lambda *_: None
    )
    assert [one.load for one in steps] == [0.2, 0.4, 0.6, 0.7]
