"""Each batching strategy has its own pattern in vLLM's own count of running requests."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

import httpx
from client_connections import CONNECTIONS
from concurrent_requests import Answer, ask, statuses
from running_server import RunningServer
from tiers import long_form

WINDOW_MS = 3000  # of the preset dynamic4


@dataclass(frozen=True, slots=True)
class Moment:
    """What one scrape showed."""

    running: int
    waiting: int


class Watch:
    """Scrape after scrape of a server while requests of a plan run."""

    def __init__(self, server: RunningServer, client: httpx.AsyncClient) -> None:
        self.server, self.client = server, client
        self.moments: list[Moment] = []
        self.asked: list[asyncio.Task[Answer]] = []
        self.ended: list[asyncio.Task[Answer]] = []  # in this order

    def ask(self, *lengths_tokens: int) -> None:
        """Send requests of these lengths, all at once."""
        for length_tokens in lengths_tokens:
            task = asyncio.create_task(ask(self.client, self.server, "normal", length_tokens, True))
            task.add_done_callback(self.ended.append)
            self.asked.append(task)

    async def until(self, *, running: int, waiting: int) -> None:
        """Poll until the server has been in this state."""
        for _ in range(3000):
            await self._look()
            if self.moments[-1] == Moment(running, waiting):
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"never seen running {running}, waiting {waiting}; last {self.moments[-20:]}")

    async def until_all_ended(self) -> None:
        """Poll until every request has ended."""
        while len(self.ended) < len(self.asked):
            await self._look()

    async def answers(self) -> list[Answer]:
        """The answers of all requests; all of them must be complete."""
        answers = list(await asyncio.gather(*self.asked))
        assert statuses(answers) == {200: len(self.asked)}
        assert all(answer.complete for answer in answers)
        return answers

    async def _look(self) -> None:
        """Read the two figures alone: to parse a whole scrape takes the client the time in which it should read."""
        text = (await self.client.get(f"{self.server.url}/metrics")).text
        running, waiting = (
            sum(float(value) for value in re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE))
            for name in ("vllm:num_requests_running", "headway_queue_depth")
        )
        self.moments.append(Moment(int(running), int(waiting)))


async def test_a_static_batch_waits_for_exactly_four_and_the_next_one_for_its_longest(server: RunningServer) -> None:
    """Three wait without end; the fourth starts them all; four more wait until the longest of them has ended."""
    server.use("static4")
    async with httpx.AsyncClient(timeout=300, limits=CONNECTIONS) as client:
        watch = Watch(server, client)
        watch.ask(30, 30, 30)
        await watch.until(running=0, waiting=3)
        for _ in range(20):
            await watch.until(running=0, waiting=3)
        assert {moment.running for moment in watch.moments} == {0}
        watch.ask(400)
        await asyncio.gather(*watch.asked[:3])  # a first step may hold only one of the four: wait for the short ones
        watch.ask(30, 30, 30, 30)
        await watch.until(running=1, waiting=4)  # the seats of the short ones stay empty
        await watch.until(running=0, waiting=0)
        await watch.answers()
    assert max(moment.running for moment in watch.moments) <= 4
    assert all(moment.running <= 1 for moment in watch.moments if moment.waiting == 4)


async def test_a_dynamic_batch_is_dispatched_when_its_window_ends_or_when_it_is_full(server: RunningServer) -> None:
    """Two requests wait until the window that opened with the first has ended; four are dispatched at once."""
    server.use("dynamic4")
    async with httpx.AsyncClient(timeout=300, limits=CONNECTIONS) as client:
        watch = Watch(server, client)
        watch.ask(30)
        await watch.until(running=0, waiting=1)
        watch.ask(30)
        await watch.until(running=0, waiting=2)
        await watch.until(running=0, waiting=0)
        first, second = await watch.answers()
        watch.asked.clear()
        watch.ask(30, 30, 30, 30)
        full = await watch.answers()
    assert max(moment.running for moment in watch.moments) <= 2
    assert int(first.headers["x-headway-queue-ms"]) >= WINDOW_MS
    assert int(second.headers["x-headway-queue-ms"]) < int(first.headers["x-headway-queue-ms"])
    assert all(int(answer.headers["x-headway-queue-ms"]) < WINDOW_MS for answer in full)


@long_form("most tests of this folder run under it")
async def test_continuous_batching_refills_a_seat_while_the_others_run_on(server: RunningServer) -> None:
    """One long request and many short ones on four seats: the short ones pass by the long one, the seats stay full.

    In a static batch three could end before it. The order of the last ones is the client's, which may read late; and
    until vLLM has reported its first full step, it shows fewer.
    """
    server.use("continuous4")
    async with httpx.AsyncClient(timeout=300, limits=CONNECTIONS) as client:
        watch = Watch(server, client)
        watch.ask(500, *[50] * 16)
        await watch.until_all_ended()
        await watch.answers()
        assert watch.ended.index(watch.asked[0]) >= 8
    waited = [moment.running for moment in watch.moments if moment.waiting]
    busy = waited[waited.index(4) :]
    assert sum(running >= 3 for running in busy) >= 0.8 * len(busy)
