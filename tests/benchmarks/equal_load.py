"""N2, N3 and G30 on the real engine: the mean latency of continuous batches and of one at a time, at equal load.

A queue forms over hundreds of requests, whatever time they take. So requests are counted, not seconds: as many as ten
minutes have of such a load on SmolLM2-135M, played with answers of 8 tokens on the tiny model, where they take a
minute. What one at a time serves is measured anew before each seed; both arms get the same arrivals, in turn, and in
the other order with the next seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from statistics import mean, median

from goal import Goal
from report import table
from serving.arms import STRATEGIES, without_bounds
from serving.client import Answer, Engine, backlog, open_loop
from serving.figures import middle

from headway_simulator import lognormal
from headway_simulator.traffic.workload import Request

SEEDS = (1, 2, 3, 4, 5)
LOAD = 0.85  # of what one at a time serves
#: In ten minutes at that load, of answers of 32 tokens, where one at a time generates 28 tokens a second: 446.
REQUESTS = 450
#: An arm ends after so long; what arrives later than the first number is left out, on a machine that slow.
ARRIVALS_S, ARM_S = 75.0, 95.0
#: The requests by which the rate of one at a time is measured, and the most time for it.
ALONE, ALONE_S = 60, 20.0
PROMPT_TOKENS, ANSWERS = 16, lognormal(8, 1.0, least=1)
SERIAL, CONTINUOUS = (STRATEGIES[name] for name in ("serial", "continuous-32"))
SEATS = CONTINUOUS[1].seats


@dataclass(frozen=True, slots=True)
class Pair:
    """Both arms with the arrivals of one seed; mean latencies in seconds.

    ``load`` is what one at a time got: the mean time in which it served a request, times the arrivals a second. A queue
    model with these arrivals saves ``expected``.
    """

    seed: int
    requests: int
    load: float
    serial_s: float
    continuous_s: float
    expected: float

    @property
    def saved(self) -> float:
        """The share of the mean latency that continuous batches save."""
        return 1 - self.continuous_s / self.serial_s


async def measure(
    engine: Engine, say: Callable[[str, float], None], seeds: Sequence[int] = SEEDS, requests: int = REQUESTS
) -> list[Pair]:
    """A pair for each seed."""
    found = []
    for place, seed in enumerate(seeds):
        say(f"equal load, seed {seed}: one at a time, without end", place / len(seeds))
        per_s = await alone(engine, seed, min(ALONE, requests))
        asked = arrivals(seed, requests, per_s)
        arms = (SERIAL, CONTINUOUS) if place % 2 == 0 else (CONTINUOUS, SERIAL)
        answers = {}
        for part, (words, batching) in enumerate(arms):
            say(f"equal load, seed {seed}: {words}", (place + (1 + 5 * part) / 11) / len(seeds))
            await engine.use(without_bounds(batching))
            answers[words] = await open_loop(engine.gated, asked, ARM_S, early=True)
            await engine.idle()
        found.append(pair(seed, asked, answers[SERIAL[0]], answers[CONTINUOUS[0]], per_s))
    return found


async def alone(engine: Engine, seed: int, requests: int) -> float:
    """The tokens a second of one at a time while another one always waits."""
    await engine.use(without_bounds(SERIAL[1]))
    draw = ANSWERS.sampler(Random(-seed))
    asked = [Request(0.0, "normal", PROMPT_TOKENS, draw()) for _ in range(requests)]
    answers, took_s = await backlog(engine.gated, asked, 2, ALONE_S)
    await engine.idle()
    return sum(one.tokens for one in answers) / took_s


def arrivals(seed: int, requests: int, per_s: float) -> list[Request]:
    """Poisson arrivals at the load of one that generates so many tokens a second, of just these answers."""
    random = Random(seed)
    draw = ANSWERS.sampler(random)
    lengths = [draw() for _ in range(requests)]
    rate_per_s, at_s, found = LOAD * per_s / mean(lengths), 0.0, list[Request]()
    for tokens in lengths:
        at_s += random.expovariate(rate_per_s)
        found.append(Request(at_s, "normal", PROMPT_TOKENS, tokens))
    return [one for one in found if one.at_s < ARRIVALS_S]


def pair(
    seed: int, asked: Sequence[Request], serial: Sequence[Answer], continuous: Sequence[Answer], per_s: float
) -> Pair:
    """The figures of both arms."""
    service_s = mean(_services_s(serial))
    load = service_s * len(asked) / asked[-1].at_s
    expected = expected_saving(asked, 1 / per_s)
    return Pair(seed, len(asked), load, _latency_s(asked, serial), _latency_s(asked, continuous), expected)


def expected_saving(asked: Sequence[Request], token_s: float) -> float:
    """The saving by a model of the queue: one at a time with so many seconds a token, beside none that ever waits."""
    free_s, alone_s, whole_s = 0.0, list[float](), list[float]()
    for request in asked:
        alone_s.append(request.output_tokens * token_s)
        free_s = max(free_s, request.at_s) + alone_s[-1]
        whole_s.append(free_s - request.at_s)
    return 1 - mean(alone_s) / mean(whole_s)


def _latency_s(asked: Sequence[Request], answers: Sequence[Answer]) -> float:
    """The mean; an answer that was cut counts with the time that it had by then."""
    return mean(
        one.last_s - one.sent_s if one.end == "completed" and one.last_s is not None else ARM_S - request.at_s
        for request, one in zip(asked, answers, strict=True)
    )


def _services_s(answers: Sequence[Answer]) -> Iterator[float]:
    """The time that each answer took alone: from its arrival or the end of the one before it, whichever is later."""
    ended = [(one.sent_s, one.last_s) for one in answers if one.end == "completed" and one.last_s is not None]
    yield ended[0][1] - ended[0][0]
    for (_, before_s), (sent_s, last_s) in pairwise(ended):
        yield last_s - max(sent_s, before_s)


# ---------------------------------------------------------------------- the report


def goals(pairs: Sequence[Pair]) -> Iterator[Goal]:
    """The texts' two figures, by the median of the seeds."""
    saved, least, most = middle(one.saved for one in pairs) or (0.0, 0.0, 0.0)
    figure = "mean latency saved at equal load, continuous against one at a time, answers of cv 1"
    load = median(one.load for one in pairs)
    note = f"{least:.2f} to {most:.2f} with {len(pairs)} seeds; one at a time had a load of {load:.2f}"
    yield Goal("G30, N2", figure, 0.62, saved, note=note)
    yield Goal("N3", figure, 0.68, saved, note=note)


def tables(pairs: Sequence[Pair]) -> str:
    """A line for each seed."""
    rows = [
        [
            str(one.seed),
            str(one.requests),
            f"{one.load:.2f}",
            f"{one.serial_s:.3f} s",
            f"{one.continuous_s:.3f} s",
            f"{one.saved:.0%}",
            f"{one.expected:.0%}",
        ]
        for one in pairs
    ]
    head = ["seed", "requests", "load of one at a time", "mean latency, one at a time", "continuous, 32"]
    return table([*head, "saved", "saved by a model of the queue"], rows)
