"""The arrival plan of the demo: requests drawn from a seed, without end; no clock and no network.

Arrivals are an open loop: a Poisson process whose rate and mix of classes change with the phase, by thinning a
faster process (Lewis and Shedler, 1979), plus a small burst of batch requests now and then. The first three requests
are one of each class, so that even a short run has all of them. The overload is a Poisson process of one rate and mix.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass

from headway_simulator import Request

CLASSES = ("realtime", "normal", "batch")
BURST_SIZE = 8
BURST_EVERY_S = 20.0
FIRST_BURST_S = 8.0
_ROLL_CALL_GAP_S = 0.3
_BURST_GAP_S = 0.05

#: The mix of ``CLASSES`` in the overload: little is urgent, and `normal` alone asks for most of the engine.
OVERLOAD_WEIGHTS = (0.12, 0.63, 0.25)

#: Lengths in tokens by class, as (least, most).
PROMPT_TOKENS = {"realtime": (24, 40), "normal": (32, 64), "batch": (48, 96)}
OUTPUT_TOKENS = {"realtime": (8, 16), "normal": (16, 32), "batch": (24, 48)}


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of the cycle: its length, its rate as a multiple of the mean, its mix of ``CLASSES``."""

    length_s: float
    rate_ratio: float
    weights: tuple[float, float, float]


#: One cycle; over it the rate averages to the mean asked for.
PHASES = (
    Phase(15.0, 0.5, (0.5, 0.4, 0.1)),
    Phase(15.0, 1.5, (0.4, 0.4, 0.2)),
    Phase(10.0, 1.0, (0.3, 0.3, 0.4)),
)
CYCLE_S = sum(phase.length_s for phase in PHASES)


def arrivals(seed: int, rate_per_s: float) -> Iterator[Request]:
    """All requests, without end, in order of ``at_s``. The same seed gives the same requests."""
    rng = random.Random(seed)
    steady, burst = random.Random(rng.random()), random.Random(rng.random())
    streams = (_roll_call(rng), _poisson(steady, rate_per_s), _bursts(burst))
    return heapq.merge(*streams, key=lambda request: request.at_s)


def between(seed: int, rate_per_s: float, begin_s: float, end_s: float = math.inf) -> Iterator[Request]:
    """The requests from ``begin_s`` to ``end_s``, with times that count from ``begin_s``."""
    due = itertools.dropwhile(lambda request: request.at_s < begin_s, arrivals(seed, rate_per_s))
    for request in itertools.takewhile(lambda request: request.at_s < end_s, due):
        yield request._replace(at_s=request.at_s - begin_s)


def overload(seed: int, rate_per_s: float, length_s: float, stretch: float = 1.0) -> Iterator[Request]:
    """The requests of an overload: one of each class, and a Poisson process of a constant rate.

    Answers are ``stretch`` times as long as those of the light traffic.
    """
    rng = random.Random(seed)
    steady = _mixed(random.Random(rng.random()), rate_per_s)
    mixed = heapq.merge(_roll_call(rng), steady, key=lambda request: request.at_s)
    return _stretched(itertools.takewhile(lambda request: request.at_s < length_s, mixed), stretch)


def mix(seed: int, stretch: float = 1.0) -> Iterator[Request]:
    """Requests of the mix of the overload, without end, for clients that send when they are free."""
    return _stretched(_mixed(random.Random(seed), 1.0), stretch)


def phase_at(at_s: float) -> Phase:
    """The phase of a moment."""
    into_cycle_s = at_s % CYCLE_S
    for phase in PHASES:
        if into_cycle_s < phase.length_s:
            return phase
        into_cycle_s -= phase.length_s
    return PHASES[-1]


def _roll_call(rng: random.Random) -> Iterator[Request]:
    for place, class_name in enumerate(CLASSES, start=1):
        yield _request(rng, place * _ROLL_CALL_GAP_S, class_name)


def _poisson(rng: random.Random, rate_per_s: float) -> Iterator[Request]:
    fastest = max(phase.rate_ratio for phase in PHASES)
    at_s = 0.0
    while True:
        at_s += rng.expovariate(rate_per_s * fastest)
        phase = phase_at(at_s)
        if rng.random() * fastest < phase.rate_ratio:
            yield _request(rng, at_s, rng.choices(CLASSES, phase.weights)[0])


def _mixed(rng: random.Random, rate_per_s: float) -> Iterator[Request]:
    at_s = 0.0
    while True:
        at_s += rng.expovariate(rate_per_s)
        yield _request(rng, at_s, rng.choices(CLASSES, OVERLOAD_WEIGHTS)[0])


def _stretched(requests: Iterator[Request], stretch: float) -> Iterator[Request]:
    for request in requests:
        output_tokens = round(stretch * request.output_tokens)
        yield request._replace(output_tokens=output_tokens, max_tokens=output_tokens)


def _bursts(rng: random.Random) -> Iterator[Request]:
    for number in itertools.count():
        for place in range(BURST_SIZE):
            yield _request(rng, FIRST_BURST_S + number * BURST_EVERY_S + place * _BURST_GAP_S, "batch")


def _request(rng: random.Random, at_s: float, class_name: str) -> Request:
    prompt_tokens, output_tokens = (rng.randint(*of[class_name]) for of in (PROMPT_TOKENS, OUTPUT_TOKENS))
    return Request(at_s, class_name, prompt_tokens, output_tokens, output_tokens)
