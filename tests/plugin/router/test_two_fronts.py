"""Two `headway route` as processes before the same stand-ins, one of which is killed: what the clients of both see."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from client_connections import CONNECTIONS, drop_connections
from running_router import RunningRouter, StandIn
from running_server import wait_until
from tiers import long_form

pytestmark = pytest.mark.slow

SEATS, REQUESTS = 4, 24


async def ask(client: httpx.AsyncClient, front: RunningRouter, prompt: str) -> httpx.Response | None:
    """The answer; None where the connection ended first."""
    content = {"model": "tiny", "prompt": prompt, "max_tokens": 10}
    try:
        return await client.post(f"{front.url}/v1/completions", json=content)
    except httpx.TransportError:
        return None


def whole(answer: httpx.Response | None, prompt: str) -> bool:
    """Whether it is the whole answer to this prompt."""
    return answer is not None and answer.status_code == 200 and f"{prompt} by" in answer.text


def own_seats(front: RunningRouter, instances: list[StandIn]) -> list[float]:
    """The seats of each instance that the front may fill."""
    scrape = front.scrape()
    return [scrape("headway_instance_own_seats", instance_name=instance.name) for instance in instances]


@long_form("test_fronts kills one on a virtual clock")
async def test_of_a_killed_front_the_clients_try_again_and_the_other_one_goes_on(tmp_path: Path) -> None:
    """Its clients get a connection error, and an answer when they ask the other front. That one has all seats then and
    answers all that waited in it; no instance ever ran more than its seats, and only what was tried again ran twice.
    """
    with ExitStack() as stack:
        instances = [stack.enter_context(StandIn(step_s=0.05, seats=64)) for _ in range(2)]
        urls = [instance.url for instance in instances]
        fronts = [RunningRouter.before(tmp_path / f"{at}.log", urls, "--seats", str(SEATS)) for at in range(2)]
        for front in fronts:
            front.command = [*front.command, "--fronts", ",".join(each.url for each in fronts)]
        first, second = (stack.enter_context(front) for front in fronts)
        stack.callback(drop_connections)
        await asyncio.to_thread(wait_until, lambda: sum(own_seats(second, instances)) == SEATS, "each has its half")
        async with httpx.AsyncClient(timeout=120, limits=CONNECTIONS) as client:
            of_first, of_second = (
                [asyncio.create_task(ask(client, front, f"{name}-{at:03}")) for at in range(REQUESTS)]
                for front, name in ((first, "a"), (second, "b"))
            )
            for front in fronts:
                await asyncio.to_thread(wait_until, lambda front=front: front.status()["queued"] > 0, "requests wait")
            await asyncio.to_thread(wait_until, lambda: all(instance.running() for instance in instances), "both run")
            assert first.process is not None
            first.process.send_signal(signal.SIGKILL)
            answers = await asyncio.gather(*of_first)
            lost = [f"a-{at:03}" for at, answer in enumerate(answers) if answer is None]
            assert lost, "it was killed while it had requests"
            assert all(whole(answer, f"a-{at:03}") for at, answer in enumerate(answers) if answer is not None)
            again = await asyncio.gather(*(ask(client, second, prompt) for prompt in lost))
            assert all(whole(answer, prompt) for answer, prompt in zip(again, lost, strict=True))
            answers = await asyncio.gather(*of_second)
            assert all(whole(answer, f"b-{at:03}") for at, answer in enumerate(answers))
        assert own_seats(second, instances) == [SEATS, SEATS]
        assert max(instance.peak() for instance in instances) == SEATS
        seen = Counter(prompt for instance in instances for prompt in instance.seen())
        assert set(seen) == {f"{name}-{at:03}" for name in "ab" for at in range(REQUESTS)}
        assert {prompt for prompt, times in seen.items() if times > 1} <= set(lost)
        assert max(seen.values()) <= 2
        second.settle()
        assert second.scrape().unbalanced() == []
