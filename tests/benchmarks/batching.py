"""``make bench-batching``: what batching gains and costs on the real engine, as the reference texts tabulate it.

--only latency spread   some parts only
--strict                exit code 1 on a goal that is missed and not accepted
--write                 put the tables into deploy/site/docs/measured/index.md, and the figures into
                        tests/benchmarks/results
--short                 a trial of latency and spread, two minutes: does all of it work?

sizes, about a quarter of an hour: SmolLM2-135M; the engine is the same one throughout, with as many seats as each row
needs.

    batch sizes   so many requests at once, 1 to 64, while all of them generate: tokens a second, time per token,
                  tokens per second of processor
    context       eight at once after prompts of several lengths: the time per token
    five          five requests together, and one after another
    strategies    one at a time, static, dynamic and continuous batches: tokens a second while more waits than fits,
                  mean latency under the same light arrivals

latency and spread: the tiny model, so that hundreds of requests take a minute; five seeds, the arms in turn. An arm is
ended after 95 s in latency and after 20 s in spread.

    latency       one at a time and continuous, the same 450 arrivals at 0.85 of what one at a time serves:
                  about nine minutes, at most eighteen
    spread        one at a time, static, padded static and continuous with a backlog of answers that differ little or
                  much in length: about five minutes, at most twenty-two
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from statistics import mean
from types import ModuleType

from accepted import BATCHING
from batching_parts import LATENCY, SIZES_PART, SPREAD, Part, keep, play
from goal import Goal
from report import Line, as_markdown, judged, put_into, summary, table
from serving.arms import STRATEGIES, without_bounds
from serving.client import Answer, Engine, closed_loop, open_loop, started
from serving.machine import describe, in_words
from serving.quiet import MAX_OTHERS, Times, others_share

from headway_policies.batching import Batching, strategy
from headway_simulator.traffic.workload import Request
from headway_tools.console import Bar

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / ".models" / "SmolLM2-135M-Instruct"
PAGE = ROOT / "deploy/site/docs/measured/index.md"
RESULTS = ROOT / "tests/benchmarks/results"

PARTS = (SIZES_PART, LATENCY, SPREAD)
SIZES = (1, 2, 4, 8, 16, 32, 64)
OPEN = Batching(seats=max(SIZES), window_ms=0)  # a preset's seats bound what the engine runs, past the gate too
CONTEXTS = (16, 256, 1024, 2048)
LENGTH_S, BACKLOG_S, LIGHT_S = 6.0, 30.0, 24.0
_SHORT_PROMPT = 16
_MARKS = {SIZES_PART: "batching"}  # on the page
BANDS = ((1, 4), (8, 16), (32, 64))
OFFLINE = "offline work"
#: What a token may take longer than alone, in ms, for the work that a batch size is suited to.
WORK = ((10.0, "dialogue"), (100.0, "an API for many"))
_NEAR = 1.2
_STRATEGY_HEAD = (
    "strategy", "tokens/s", "gain", "mean latency", "against one at a time", "lines of code", "suited to",
)  # fmt: skip
TOGETHER = 5
_LOAD = 0.85  # of what one at a time can serve


@dataclass(frozen=True, slots=True)
class Size:
    """So many requests at once: tokens a second, seconds a token of one of them, and tokens a second of processor."""

    requests: int
    tokens_per_s: float
    token_s: float
    per_core_s: float


@dataclass(frozen=True, slots=True)
class Arm:
    """One strategy: tokens a second in a backlog, and mean seconds of a request under light arrivals."""

    words: str
    batching: Batching
    tokens_per_s: float = 0.0
    latency_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Found:
    """All that a run measures. ``others``: the share of the processors that other programs used."""

    sizes: tuple[Size, ...]
    contexts: tuple[tuple[int, float], ...]
    together: float
    one_by_one: tuple[float, float]
    five: tuple[float, float]
    arms: tuple[Arm, ...]
    others: float


ARMS = tuple(Arm(words, batching) for words, batching in STRATEGIES.values())
Say = Callable[[str, float], None]


def _short_chat(random: Random) -> Request:
    return Request(0.0, "normal", 16, random.randint(8, 56))


async def measure(engine: Engine, say: Say) -> Found:
    """Everything, on one engine."""
    before = Times.now()
    sizes, contexts = [], []
    for place, requests in enumerate(SIZES):
        say(f"{requests} at once", 0.25 * place / len(SIZES))
        sizes.append(await _size(engine, requests, LENGTH_S))
    for place, tokens in enumerate(CONTEXTS):
        say(f"after {tokens} prompt tokens", 0.25 + 0.1 * place / len(CONTEXTS))
        contexts.append((tokens, await _pace(engine, tokens, LENGTH_S)))
    say(f"{TOGETHER} together, and one after another", 0.35)
    rounds = [await _five(engine) for _ in range(3)]
    together, five, one_by_one = (
        mean(one[0] for one in rounds),
        tuple(mean(one[1][i] for one in rounds) for i in (0, 1)),
        tuple(mean(one[2][i] for one in rounds) for i in (0, 1)),
    )
    arms = []
    for place, arm in enumerate(ARMS):
        say(arm.words, 0.4 + 0.6 * place / len(ARMS))
        rate_per_s = _LOAD * sizes[0].tokens_per_s / 32
        arms.append(await _arm(engine, arm, rate_per_s))
    return Found(
        tuple(sizes),
        tuple(contexts),
        together,
        (one_by_one[0], one_by_one[1]),
        (five[0], five[1]),
        tuple(arms),
        others_share(before, Times.now()),
    )


async def _size(engine: Engine, requests: int, length_s: float) -> Size:
    """So many at once past Headway, while all of them generate."""
    tokens, took_s, own_s = await _generating(engine, requests, _SHORT_PROMPT, length_s)
    return Size(requests, tokens / took_s, requests * took_s / tokens, tokens / max(own_s, 1e-9))


async def _pace(engine: Engine, prompt_tokens: int, length_s: float) -> float:
    """The time between the tokens of eight requests after such prompts."""
    tokens, took_s, _ = await _generating(engine, 8, prompt_tokens, length_s)
    return 8 * took_s / tokens


async def _generating(engine: Engine, requests: int, prompt_tokens: int, length_s: float) -> tuple[int, float, float]:
    """So many tokens in so many seconds, with so many seconds of processor; from the last first token on.

    Each answer is longer than it is watched.
    """
    asked = [Request(0.0, "normal", prompt_tokens, 500) for _ in range(requests)]
    now_s = asyncio.get_running_loop().time
    answers = [Answer(one.class_name, "", prompt_tokens, now_s()) for one in asked]
    tasks = [asyncio.create_task(engine.bare(*pair)) for pair in zip(asked, answers, strict=True)]
    while any(answer.first_s is None for answer in answers):  # noqa: ASYNC110 - the prompts are computed first
        await asyncio.sleep(0.02)
    first, began_s, before = sum(answer.tokens for answer in answers), now_s(), Times.now()
    await asyncio.sleep(length_s)
    tokens, took_s, after = sum(answer.tokens for answer in answers) - first, now_s() - began_s, Times.now()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return tokens, took_s, after.own_s - before.own_s


async def _five(engine: Engine) -> tuple[float, tuple[float, float], tuple[float, float]]:
    """The time of five together as a share of one after another; then (total, mean latency) of both, in seconds."""
    now_s = asyncio.get_running_loop().time
    requests = [Request(0.0, "normal", 32, 48) for _ in range(TOGETHER)]

    async def timed(request: Request, sent_s: float) -> float:
        await engine.bare(request, Answer("normal", "", request.prompt_tokens, sent_s))
        return now_s() - sent_s

    began_s = now_s()
    single = [await timed(request, began_s) for request in requests]
    began_s = now_s()
    both = await asyncio.gather(*(timed(request, began_s) for request in requests))
    return max(both) / max(single), (max(both), mean(both)), (max(single), mean(single))


async def _arm(engine: Engine, arm: Arm, rate_per_s: float) -> Arm:
    """A backlog of twice the seats, then the same light arrivals for all arms, and time for their last answers."""
    await engine.use(without_bounds(arm.batching))
    clients = max(2 * arm.batching.seats, 16)
    full = await closed_loop(engine.gated, _short_chat, clients, 0.0, BACKLOG_S)
    await asyncio.sleep(1.0)
    light = await open_loop(engine.gated, list(_arrivals(rate_per_s, LIGHT_S)), 1.5 * LIGHT_S)
    ended = [one.last_s - one.sent_s for one in light if one.end == "completed" and one.last_s is not None]
    return Arm(arm.words, arm.batching, sum(one.tokens for one in full) / BACKLOG_S, mean(ended))


def _arrivals(rate_per_s: float, until_s: float) -> Iterator[Request]:
    random, at_s = Random(2), 0.0
    while (at_s := at_s + random.expovariate(rate_per_s)) < until_s:
        yield _short_chat(random)._replace(at_s=at_s)


# ---------------------------------------------------------------------- the report


def goals(found: Found) -> Iterator[Goal]:
    """The texts' claims as ratios within this run."""
    first, last = found.sizes[0], found.sizes[-1]
    gain, slower = last.tokens_per_s / first.tokens_per_s, last.token_s / first.token_s
    yield Goal("N1", "64 at once : one at a time, tokens/s", 7.5, gain)
    yield Goal("N1", "the same, tokens per second of processor", 1.7, last.per_core_s / first.per_core_s)
    yield Goal("N12", "64 at once : one at a time, tokens/s", 14.0, gain)
    yield Goal("N12", "the same, time per token", 4.0, slower, most=True)
    yield Goal("N5", "five together : one after another, time to the last", 0.6, found.together, most=True)
    by_words = {arm.words: arm for arm in found.arms}
    single, continuous = by_words["one at a time"], by_words["continuous, 32"]
    for name, target in (("N3", 9.0), ("N17", 3.0)):
        figure = "continuous : one at a time, tokens/s"
        yield Goal(name, figure, target, continuous.tokens_per_s / single.tokens_per_s)


def tables(found: Found) -> str:
    """The tables of the texts with the figures of this run."""
    first = found.sizes[0]
    sizes = [
        [
            str(size.requests),
            f"{size.tokens_per_s:.0f}",
            f"{size.tokens_per_s / first.tokens_per_s:.1f}",
            f"{1000 * size.token_s:.0f} ms",
            f"+{1000 * (size.token_s - first.token_s):.0f} ms",
            f"{size.per_core_s:.0f}",
        ]
        for size in found.sizes
    ]
    bands = [[f"{ends[0]} to {ends[1]}", *_band(found.sizes, *ends)] for ends in BANDS]
    contexts = [[str(tokens), f"{1000 * token_s:.0f} ms"] for tokens, token_s in found.contexts]
    slowest = found.arms[0]
    arms = [
        [
            arm.words,
            f"{arm.tokens_per_s:.0f}",
            f"{arm.tokens_per_s / slowest.tokens_per_s:.1f}",
            f"{arm.latency_s:.2f} s",
            f"{arm.latency_s / slowest.latency_s - 1:+.0%}",
            str(_lines_of(arm.batching)),
            _work_of(arm, found.arms),
        ]
        for arm in found.arms
    ]
    (together_s, together_mean_s), (single_s, single_mean_s) = found.five, found.one_by_one
    return "\n\n".join(
        [
            table(["at once", "tokens/s", "gain", "time per token", "more", "tokens per second of processor"], sizes),
            table(["batch", "gain", "more time per token", "suited to"], bands),
            f"Five requests together take {together_s:.1f} s (each {together_mean_s:.1f} s on average), "
            f"one after another {single_s:.1f} s ({single_mean_s:.1f} s).",
            table(_STRATEGY_HEAD, arms),
            table(["prompt tokens", "time per token, eight at once"], contexts),
        ]
    )


def processors(folder: Path = RESULTS) -> str:
    """The texts' table for each processor on which `make bench` has run, from its results."""
    rows = []
    for file in sorted(folder.glob("*.json")):
        results = json.loads(file.read_text(encoding="utf-8"))
        if "constants" not in results:
            continue
        levels = [
            Size(level["clients"], level["tokens_per_s"], level["inter_token_s"], 0.0)
            for level in results["constants"]["levels"]
        ]
        cells = [", ".join(_band(levels, *ends)) for ends in BANDS]
        slower = levels[-1].token_s / levels[0].token_s
        rows.append([f"`{file.name}`: {in_words(results['machine'])}", *cells, f"{slower:.1f}"])
    heads = [f"{least} to {most}: gain, more time per token, suited to" for least, most in BANDS]
    return table(["results", *heads, f"times as long a token, {SIZES[-1]} at once"], rows)


def _band(sizes: Sequence[Size], least: int, most: int) -> list[str]:
    """The gains and costs of the batch sizes from ``least`` to ``most``, and the work that bears the cost."""
    alone = sizes[0]
    inside = [size for size in sizes if least <= size.requests <= most]
    gains = [one.tokens_per_s / alone.tokens_per_s for one in inside]
    more_ms = [1000 * (one.token_s - alone.token_s) for one in inside]
    work = next((work for most_ms, work in WORK if max(more_ms) < most_ms), OFFLINE)
    return [f"{min(gains):.1f} to {max(gains):.1f}", f"{min(more_ms):.0f} to {max(more_ms):.0f} ms", work]


def _work_of(arm: Arm, arms: Sequence[Arm]) -> str:
    """The work that a strategy is suited to: near the shortest mean latency of all, near the most tokens/s, or both."""
    quick = arm.latency_s <= _NEAR * min(one.latency_s for one in arms)
    much = _NEAR * arm.tokens_per_s >= max(one.tokens_per_s for one in arms)
    if quick:
        return "any" if much else "little load"
    return OFFLINE if much else "none"


def _lines_of(batching: Batching) -> int:
    """How much code decides under this strategy: the lines of its class."""
    module: ModuleType = strategy
    return len(inspect.getsource(getattr(module, batching.strategy.capitalize())).splitlines())


def _saying(bar: Bar) -> Say:
    """Show each part in the bar; without a terminal print it, with the seconds so far."""
    began_s = time.monotonic()

    def say(what: str, ratio: float) -> None:
        bar.show(what, ratio)
        if not sys.stderr.isatty():
            print(f"{time.monotonic() - began_s:4.0f} s  {what}", file=sys.stderr, flush=True)

    return say


def main(words: Sequence[str]) -> int:
    """0; with ``--strict`` 1 where a goal is missed that is not accepted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", default=list(PARTS))
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--model", type=Path, default=MODEL, metavar="DIR", help="another model's folder, of sizes")
    chosen = parser.parse_args(words)
    if chosen.short and (chosen.write or chosen.strict or SIZES_PART in chosen.only):
        parser.error(f"--short is a trial of --only {LATENCY} {SPREAD}, and has no results")
    lines = list[Line]()
    for name in PARTS:
        if name in chosen.only:
            part = asyncio.run(_sizes(chosen.model) if name == SIZES_PART else _part(name, short=chosen.short))
            text = _shown(part, lines)
            if chosen.write:
                _put(text, _MARKS.get(name, name))
                print(f"kept in {keep(RESULTS, name, part, text)}")
    if chosen.write:
        _put(processors(), "processors")
    played = {(line.goal.name, line.goal.figure) for line in lines}
    accepted = BATCHING if set(chosen.only) == set(PARTS) else {key: BATCHING[key] for key in BATCHING if key in played}
    print("\n".join(summary(lines, accepted)))
    return int(chosen.strict and any(line.fails for line in lines))


async def _sizes(model: Path) -> Part:
    with Bar(sys.stderr) as bar:
        say = _saying(bar)
        say("starting the engine", 0.0)
        async with started(model, without_bounds(OPEN), max(SIZES)) as engine:
            found = await measure(engine, say)
    figures = asdict(found) | {"arms": [asdict(arm) | {"batching": arm.batching.model_dump()} for arm in found.arms]}
    return Part(tables(found), tuple(goals(found)), [figures], found.others, describe(model))


async def _part(name: str, *, short: bool) -> Part:
    with Bar(sys.stderr) as bar:
        say = _saying(bar)
        say("starting the engine", 0.0)
        return await play(name, say, short=short)


def _shown(part: Part, lines: list[Line]) -> str:
    """Print the tables and goals of a part, add its lines to those of the run, and return what was printed."""
    own = [judged(one, BATCHING) for one in part.goals]
    lines += own
    text = f"{part.text}\n\n{as_markdown(own)}"
    print(text, end="\n\n")
    if part.others > MAX_OTHERS:
        print(f"disturbed: other programs used {part.others:.0%} of the processors", end="\n\n")
    return text


def _put(text: str, name: str) -> None:
    """Put a text between its marks on the page."""
    PAGE.write_text(put_into(PAGE.read_text(encoding="utf-8"), text, name), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
