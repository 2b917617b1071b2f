"""What Headway's layer costs where nothing waits: the same requests past the gate and through it, in turn.

One at a time they take turns request by request, so that both meet the same machine; several at once take turns loop
by loop, there and back, and count once the loop runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from statistics import mean, median

from headway_simulator.traffic.workload import Request
from serving.client import Answer, Engine, Send, closed_loop

_BARE, _GATED = "bare", "gated"
_TURNS = (_BARE, _GATED, _GATED, _BARE)
LEAD_S = 3.0


async def layer_cost(engine: Engine, clients: int, length_s: float) -> dict[str, float]:
    """One round of four times ``length_s``: the pace of the tokens : bare vLLM's, and how much later the first is, with
    the standard error of that difference.
    """
    loops: dict[str, list[list[Answer]]] = {_BARE: [], _GATED: []}
    if clients == 1:
        for name, answers in (await _by_request(engine, len(_TURNS) * length_s)).items():
            loops[name].append(answers)
    else:
        for name in _TURNS:
            send = engine.bare if name == _BARE else engine.gated
            loops[name].append(await _steady(send, clients, length_s))
    found = {name: [_medians(answers) for answers in several] for name, several in loops.items()}
    (bare_ttft_s, bare_gap_s), (ttft_s, gap_s) = (
        tuple(mean(values) for values in zip(*found[name], strict=True)) for name in (_BARE, _GATED)
    )
    return {
        "clients": clients,
        "pace_ratio": bare_gap_s / gap_s,
        "ttft_more_s": ttft_s - bare_ttft_s,
        "bare_ttft_s": bare_ttft_s,
        "bare_inter_token_s": bare_gap_s,
    }


async def _steady(send: Send, clients: int, length_s: float) -> list[Answer]:
    """The answers to requests that were sent once the loop ran: the first ones of all clients come in one moment."""
    from_s = asyncio.get_running_loop().time() + LEAD_S
    answers = await closed_loop(send, _short_chat, clients, LEAD_S, length_s)
    return [answer for answer in answers if answer.sent_s >= from_s]


async def _by_request(engine: Engine, length_s: float) -> dict[str, list[Answer]]:
    now_s, random = asyncio.get_running_loop().time, Random(0)
    ends_s, found = now_s() + length_s, dict[str, list[Answer]]({_BARE: [], _GATED: []})
    while now_s() < ends_s:
        for name in _TURNS:
            request = _short_chat(random)
            answer = Answer(request.class_name, request.tenant, request.prompt_tokens, now_s())
            await (engine.bare if name == _BARE else engine.gated)(request, answer)
            found[name].append(answer)
    return found


def _medians(answers: Sequence[Answer]) -> tuple[float, float]:
    """Of the first token, and of the mean time between tokens."""
    ttft_s = median(answer.ttft_s for answer in answers if answer.ttft_s is not None)
    return ttft_s, median(gap_s for answer in answers if (gap_s := answer.inter_token_s) is not None)


def _short_chat(random: Random) -> Request:
    """Answers of unequal lengths: equal ones all end in one step, and the next prompts are computed all at once."""
    return Request(0.0, "normal", 64, random.randint(16, 48))
