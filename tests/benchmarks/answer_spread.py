"""N3, N4 and G4 on the real engine: what continuous batches gain over static ones, by how much answers differ.

A backlog on the tiny model with 32 seats, for answers of 12 tokens on average with a coefficient of variation (cv) of
0, 0.5, 1 and 2. The arms of one spread have the same answers, in turn, and in the other order with the next seed:

    one at a time    of cv 1 alone, since its rate does not depend on the spread
    static, padded   each answer of a batch is as long as its longest: what a program computes that pads its batches
    static           the seats of answers that have ended are empty until the longest has ended
    continuous       each seat is filled again

Tokens count that were asked for, not those of the padding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from statistics import mean, pstdev

from equal_load import PROMPT_TOKENS, SEEDS
from goal import Goal
from report import table
from serving.arms import STRATEGIES, without_bounds
from serving.client import Answer, Engine, Send, backlog
from serving.figures import middle

from headway_simulator import lognormal
from headway_simulator.traffic.workload import Request

CVS = (0.0, 0.5, 1.0, 2.0)
SEATS, MEAN_TOKENS = 32, 12
#: Batches of an arm whose tokens count; ``continuous``, which is quicker, has so many times as many. Two more wait
#: behind them, so that no seat lacks a request.
BATCHES, MORE = 4, 3
ALONE = 48
ARM_S = 20.0  # the most time of an arm
SINGLE, PADDED, STATIC, CONTINUOUS = "one at a time", "static, padded", "static", "continuous"
_PRESETS = {SINGLE: "serial", PADDED: "static-32", STATIC: "static-32", CONTINUOUS: "continuous-32"}


@dataclass(frozen=True, slots=True)
class Rate:
    """Tokens a second of one arm with the answers of one seed; ``drawn_cv`` is the cv that these answers have."""

    cv: float
    seed: int
    arm: str
    tokens_per_s: float
    drawn_cv: float


async def measure(
    engine: Engine, say: Callable[[str, float], None], seeds: Sequence[int] = SEEDS, batches: int = BATCHES
) -> list[Rate]:
    """Each arm with each spread and each seed."""
    found = []
    for place, seed in enumerate(seeds):
        for part, cv in enumerate(CVS):
            arms = [PADDED, STATIC, CONTINUOUS, *([SINGLE] if cv == 1 else ())]
            asked = answers_of(cv, seed, SEATS * (MORE * batches + 2))
            drawn_cv = cv_of(asked)
            for arm in arms if place % 2 == 0 else arms[::-1]:
                say(f"answers of cv {cv:g}, seed {seed}: {arm}", (place + part / len(CVS)) / len(seeds))
                own = asked if arm == CONTINUOUS else asked[:ALONE] if arm == SINGLE else asked[: SEATS * (batches + 2)]
                found.append(Rate(cv, seed, arm, await _per_s(engine, arm, own), drawn_cv))
    return found


async def _per_s(engine: Engine, arm: str, asked: Sequence[Request]) -> float:
    """The tokens a second that were asked for."""
    await engine.use(without_bounds(STRATEGIES[_PRESETS[arm]][1]))
    send = padding(engine.gated, longest(asked)) if arm == PADDED else engine.gated
    answers, took_s = await backlog(send, asked, 2 if arm == SINGLE else 2 * SEATS, ARM_S)
    await engine.idle()
    return wanted(answers) / took_s


def answers_of(cv: float, seed: int, number: int) -> list[Request]:
    """So many requests; the same ones for the same spread and seed."""
    draw = lognormal(MEAN_TOKENS, cv, least=1).sampler(Random(f"{cv} {seed}"))
    return [Request(0.0, "normal", PROMPT_TOKENS, draw()) for _ in range(number)]


def cv_of(asked: Sequence[Request]) -> float:
    """The coefficient of variation of their answers."""
    tokens = [one.output_tokens for one in asked]
    return pstdev(tokens) / mean(tokens)


def longest(asked: Sequence[Request]) -> list[int]:
    """For each request, the longest answer of its batch: each ``SEATS`` of them are one, in this order."""
    batches = [asked[first : first + SEATS] for first in range(0, len(asked), SEATS)]
    return [max(one.output_tokens for one in batch) for batch in batches for _ in batch]


def padding(send: Send, lengths: Sequence[int]) -> Send:
    """Send each request with an answer of the next of these lengths."""
    following = iter(lengths)

    async def padded(request: Request, answer: Answer) -> None:
        await send(request._replace(output_tokens=next(following)), answer)

    return padded


def wanted(answers: Sequence[Answer]) -> int:
    """Their tokens without those of a padding."""
    return sum(min(one.tokens, one.asked_tokens) for one in answers)


# ---------------------------------------------------------------------- the report


def goals(rates: Sequence[Rate]) -> Iterator[Goal]:
    """The texts' ratios for answers of cv 1, by the median of the seeds."""
    for name, against, target in (("N3", SINGLE, 9.0), ("N4", PADDED, 1.9), ("G4", STATIC, 1.9)):
        ratio, least, most = _ratio(rates, 1.0, against)
        figure = f"continuous : {against}, {SEATS} seats, answers of cv 1, tokens/s"
        yield Goal(name, figure, target, ratio, note=f"{least:.2f} to {most:.2f}")


def tables(rates: Sequence[Rate]) -> str:
    """A line for each spread: the median of the seeds, and the least and the largest."""
    rows = []
    for cv in CVS:
        own = [one for one in rates if one.cv == cv]
        per_s = [_words(middle(one.tokens_per_s for one in own if one.arm == arm), ".0f") for arm in _PRESETS]
        ratios = [_words(_ratio(rates, cv, against), ".2f") for against in (PADDED, STATIC)]
        rows.append([f"{cv:g}", f"{mean(one.drawn_cv for one in own):.2f}", *per_s, *ratios])
    arms = [f"{arm}, tokens/s" for arm in _PRESETS]
    return table(["cv", "as drawn", *arms, f"{CONTINUOUS} : {PADDED}", f"{CONTINUOUS} : {STATIC}"], rows)


def _ratio(rates: Sequence[Rate], cv: float, against: str) -> tuple[float, float, float]:
    """Continuous to another arm, by the seeds: median, least and largest."""
    per_s = {(one.seed, one.arm): one.tokens_per_s for one in rates if one.cv == cv}
    seeds = dict.fromkeys(seed for seed, _ in per_s)
    found = middle(per_s[seed, CONTINUOUS] / per_s[seed, against] for seed in seeds)
    assert found is not None
    return found


def _words(found: tuple[float, float, float] | None, form: str) -> str:
    """Median, least and largest; nothing for none."""
    if found is None:
        return ""
    middle_of, least, most = (f"{one:{form}}" for one in found)
    return f"{middle_of} ({least} to {most})"
