"""Clients of a real server that each send their next request as soon as the last one is answered."""

from __future__ import annotations

import asyncio

import httpx
from client_connections import CONNECTIONS
from concurrent_requests import ask, statuses
from running_server import RunningServer

WORK_TOKENS = 120


class ClosedLoopClients:
    """A number of clients; each sends its next request as soon as the last one is answered."""

    def __init__(self, server: RunningServer, clients: int) -> None:
        self.server, self.clients = server, clients
        self.over = False
        self.codes: list[int] = []

    async def __aenter__(self) -> ClosedLoopClients:
        self.client = httpx.AsyncClient(timeout=300, limits=CONNECTIONS)
        self.work = [asyncio.create_task(self._one()) for _ in range(self.clients)]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.over = True
        await asyncio.gather(*self.work)
        await self.client.aclose()

    async def _one(self) -> None:
        while not self.over:
            answer = await ask(self.client, self.server, "normal", WORK_TOKENS, True)
            self.codes += statuses([answer])
