"""Open and closed loops of clients.

An open loop (``send``) never waits for an answer before the next request is due; in a closed loop (``keep_busy``) each
client has one request at a time. Every request ends in exactly one ``Served``.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any

from headway_simulator.traffic.workload import Request
from headway_tools.load.served import COMPLETED, Served

_PAUSE_S = 0.5  # of a client in a closed loop whose request was not completed


class Sender:
    """Sends requests by ``ask`` and reports each end to ``record``."""

    def __init__(self, ask: Callable[[Request], Coroutine[Any, Any, Served]], record: Callable[[Served], None]) -> None:
        self.sent: Counter[str] = Counter()
        self.lag_s = 0.0  # the longest delay of a sending in the open loop
        self._ask = ask
        self._record = record
        self._open: set[asyncio.Task[Served]] = set()

    @property
    def unfinished(self) -> int:
        """Requests sent and not ended."""
        return len(self._open)

    async def send(self, requests: Iterable[Request]) -> None:
        """Send each request when it is due; returns when the last one is sent."""
        clock = asyncio.get_running_loop().time
        begin_s = clock()
        for request in requests:
            await asyncio.sleep(begin_s + request.at_s - clock())
            self.lag_s = max(self.lag_s, clock() - begin_s - request.at_s)
            self._begin(request)

    async def keep_busy(self, requests: Iterator[Request], clients: int, enough: asyncio.Event) -> None:
        """Let so many clients send one request after the other until it is enough; returns when the last have ended."""
        async with asyncio.TaskGroup() as group:
            for _ in range(clients):
                group.create_task(self._one_by_one(requests, enough))

    async def settle(self, within_s: float) -> None:
        """Wait until every request has ended, or until the time is up."""
        if self._open:
            await asyncio.wait(set(self._open), timeout=within_s)

    async def abandon(self) -> None:
        """Cancel requests that have not ended."""
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _one_by_one(self, requests: Iterator[Request], enough: asyncio.Event) -> None:
        while not enough.is_set():
            if (await self._begin(next(requests))).ending != COMPLETED:
                await asyncio.sleep(_PAUSE_S)

    def _begin(self, request: Request) -> asyncio.Task[Served]:
        self.sent[request.class_name] += 1
        task = asyncio.create_task(self._one(request))
        self._open.add(task)
        task.add_done_callback(self._open.discard)
        return task

    async def _one(self, request: Request) -> Served:
        served = await self._ask(request)
        self._record(served)
        return served
