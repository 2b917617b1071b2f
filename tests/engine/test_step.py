"""The step policy in a real EngineCore: what sequences get while long prompts are computed beside them."""

from __future__ import annotations

import asyncio
from statistics import median
from typing import Any

from engine_parts import long_form
from long_prompts import Beside, beside_prompts
from running_server import RunningServer, wait_until

TOKENS, PROMPT_TOKENS, PROMPTS, STREAMS = 400, 1900, 3, 8
ROUNDS = 3
#: So many times as many tokens; counted, since the pace itself is the machine's as well.
LEAST = 2.0
#: Steps of a prompt that is computed in parts: at the most a quarter of it in each.
LEAST_PARTS = 4


def whole(found: Beside) -> bool:
    """Whether every stream and every prompt had all of its tokens."""
    return found.tokens == [TOKENS] * STREAMS and found.prompts == [1] * PROMPTS


def steps(server: RunningServer) -> dict[str, Any]:
    """What the server says of the planned steps; empty before the first."""
    return dict(server.status()["engine"]["steps"] or {})


async def test_long_prompts_are_computed_in_steps_within_their_budget(server: RunningServer) -> None:
    """Three prompts of 1,900 tokens beside eight streams are cut into many steps, none of which has more tokens than
    it was planned for; the status and the metrics count them, and every request has all of its tokens.
    """
    server.use("shaped")
    before = steps(server)
    found = await beside_prompts(server.url, tokens=TOKENS)
    assert whole(found)
    least = before.get("planned", 0) + LEAST_PARTS * PROMPTS
    wait_until(lambda: steps(server).get("planned", 0) >= least, "the steps are counted")
    after = steps(server)
    grown = {name: after[name] - before.get(name, 0) for name in ("planned", "prompt_tokens", "decode_tokens")}
    assert 0 < grown["prompt_tokens"] / grown["planned"] <= PROMPT_TOKENS / LEAST_PARTS
    assert 0 < grown["decode_tokens"] / grown["planned"] <= STREAMS + PROMPTS
    assert after["prompt_tokens"] + after["decode_tokens"] <= after["budget_tokens"]
    assert after["held"] > before.get("held", 0)
    assert server.scrape()("headway_planned_steps_total", kind="all") >= least
    assert "vLLM shapes its steps itself" not in server.log()


@long_form("test_switch switches presets under load, and the test above has the policy")
async def test_nobody_is_lost_while_the_policy_comes_and_goes_under_load(server: RunningServer) -> None:
    """Switched on and off while streams run and long prompts are computed: every request has all of its tokens."""
    server.use("whole-prompts")
    work = asyncio.create_task(beside_prompts(server.url, tokens=TOKENS))
    switches = 0
    while not work.done():
        await asyncio.to_thread(server.use, ("shaped", "shaped-auto", "whole-prompts")[switches % 3])
        switches += 1
        await asyncio.wait({work}, timeout=0.2)
    assert whole(await work)
    assert switches >= 3


@long_form("the steps of the tests above are counted; what the streams gain takes longer to see")
async def test_those_that_decode_go_on_beside_long_prompts_when_steps_are_shaped(server: RunningServer) -> None:
    """Eight streams beside three prompts of 1,900 tokens, in turn as vLLM computes them and in parts: in parts they
    have many tokens until the last prompt has its first.
    """
    found: dict[str, list[Beside]] = {"whole-prompts": [], "shaped-auto": []}
    for _ in range(ROUNDS):
        for name, ones in found.items():
            server.use(name)
            ones.append(await beside_prompts(server.url, tokens=TOKENS))
    plain, parts = (median(len(one.beside_s) for one in ones) for ones in found.values())
    assert parts >= LEAST * plain
    assert all(whole(one) for ones in found.values() for one in ones)
