"""What long prompts do to those that decode: streams beside one prompt after another, and plain chat without any.

The first prompt of a block is not counted: an engine that has just been given other settings has not computed a long
one under them yet.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from random import Random
from typing import Any

from headway_simulator.traffic.workload import WORKLOADS, Request
from serving.client import Answer, Send, closed_loop
from serving.figures import quantiles

STREAMS = 8
MEAN_TOKENS = 64
LONG_TOKENS = 32 * MEAN_TOKENS
STREAM_TOKENS = 2400  # the most
_PROMPT_TOKENS = 16  # of a stream
_UNTIL_TOKENS = 20  # until the pace is that of all streams
_LOOK_S = 0.05
_BIN_S = 0.1
_CHAT_CLIENTS, _CHAT_LEAD_S = 8, 3.0
_PHASE = WORKLOADS["W1"].phases[0]


@dataclass(frozen=True, slots=True)
class Beside:
    """One block: seconds between tokens, p50, p95 and p99, without long prompts and beside them, and until the first
    token of each prompt that is counted. ``lost`` streams ended before the block did, ``unanswered`` prompts had no
    token.

    ``planned`` steps were those of the step policy, ``pressed`` ones with more for prompts than usual; ``share`` is the
    part of their time that prompts had. ``course``: the longest time between tokens in each tenth of a second, around
    the first prompt that is counted.
    """

    arm: str
    alone_s: tuple[float | None, float | None, float | None]
    beside_s: tuple[float | None, float | None, float | None]
    first_s: list[float]
    lost: int
    unanswered: int
    course: list[tuple[float, float]]
    planned: int = 0
    pressed: int = 0
    share: float = 0.0

    @classmethod
    def of_json(cls, plain: dict[str, Any]) -> Beside:
        """Read what the results file has."""
        alone, beside = (tuple(plain[name]) for name in ("alone_s", "beside_s"))
        return cls(**{**plain, "alone_s": alone, "beside_s": beside, "course": [tuple(one) for one in plain["course"]]})


@dataclass(frozen=True, slots=True)
class _Gaps:
    alone_s: list[float]
    beside_s: list[float]
    course: list[tuple[float, float]]


async def beside_prompts(
    arm: str, send: Send, prompts: int, pause_s: float, prompt_tokens: int = LONG_TOKENS
) -> Beside:
    """Streams that go on, ``pause_s`` alone, and then so many prompts with as long a pause after each."""
    now_s = asyncio.get_running_loop().time
    streams = [Answer("normal", "", _PROMPT_TOKENS, now_s()) for _ in range(STREAMS)]
    request = Request(0.0, "normal", _PROMPT_TOKENS, STREAM_TOKENS)
    tasks = [asyncio.create_task(send(request, one)) for one in streams]
    while any(  # noqa: ASYNC110 - answers have no event for it
        one.tokens < _UNTIL_TOKENS and not task.done() for one, task in zip(streams, tasks, strict=True)
    ):
        await asyncio.sleep(_LOOK_S)
    from_s = now_s()
    await asyncio.sleep(pause_s)
    spans, unanswered = [], 0
    for _ in range(prompts):
        long = Answer("normal", "", LONG_TOKENS, now_s())
        await send(Request(0.0, "normal", LONG_TOKENS, 1), long)
        unanswered += long.first_s is None
        spans.append((long.sent_s, long.first_s or now_s()))
        await asyncio.sleep(pause_s)
    lost = sum(task.done() for task in tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    found = _gaps([one.marks_s for one in streams], from_s, spans)
    counted = [round(to_s - sent_s, 4) for sent_s, to_s in spans[1:]]
    return Beside(arm, quantiles(found.alone_s), quantiles(found.beside_s), counted, lost, unanswered, found.course)


def _gaps(marks_s: list[list[float]], from_s: float, spans: list[tuple[float, float]]) -> _Gaps:
    """The times between these tokens; a gap that any part of a prompt falls into is beside it."""
    alone, beside, course = list[float](), list[float](), dict[int, float]()
    counted, begin_s = spans[1:], spans[1][0]
    for own in marks_s:
        for before_s, after_s in pairwise(one for one in own if one >= from_s):
            gap_s = after_s - before_s
            place = int((after_s - begin_s) // _BIN_S)
            course[place] = max(course.get(place, 0.0), gap_s)
            if any(before_s < to_s and after_s > sent_s for sent_s, to_s in counted):
                beside.append(gap_s)
            elif not any(before_s < to_s and after_s > sent_s for sent_s, to_s in spans):
                alone.append(gap_s)
    until_s = spans[2][0] - begin_s if len(spans) > 2 else inf
    found = [(round(place * _BIN_S, 1), round(gap_s, 4)) for place, gap_s in sorted(course.items())]
    return _Gaps(alone, beside, [one for one in found if one[0] < until_s])


async def chat_tokens_per_s(send: Send, length_s: float) -> float:
    """The output tokens a second of eight clients that chat without a pause."""
    answers = await closed_loop(send, _chat, _CHAT_CLIENTS, _CHAT_LEAD_S, length_s)
    return sum(one.tokens - one.lead_tokens for one in answers) / length_s


def _chat(random: Random) -> Request:
    return Request(0.0, "normal", _PHASE.prompt.sampler(random)(), _PHASE.output.sampler(random)())
