"""Instances of a router that answer as a test wants, and requests to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import nullcontext
from typing import Any

import pytest
from instance_pools import pool_of

from headway.router.addresses import Address
from headway.router.engine import InstancesEngine
from headway.router.forwarding.call import Call, InstanceLostError
from headway.router.forwarding.forwarded import CallParams, Forwarded, Headers, Piece
from headway_policies.routing import Demand

REQUEST = Forwarded("POST", "/v1/completions", ())


class Answers:
    """A client of instances: those in ``refusing`` answer with that status and those headers, the others at length,
    after ``first`` at once, None for nothing. The connection to those in ``broken`` breaks after that; ``sent`` says
    whether they had the request then.
    """

    def __init__(self, first: bytes | None = b"", **refusing: tuple[int, Headers]) -> None:
        self.first = first
        self.refusing = refusing
        self.broken: set[str] = set()
        self.sent = True
        self.length_s = 3600.0
        self.asked: list[str] = []
        self.requests: list[Forwarded] = []
        self.prompt_tokens: list[int] = []

    async def exchange(
        self, address: Address, request: Forwarded, call: Call, prompt_tokens: int
    ) -> AsyncGenerator[Piece, None]:
        self.asked.append(address.name)
        self.requests.append(request)
        self.prompt_tokens.append(prompt_tokens)
        if address.name in self.refusing:
            status, headers = self.refusing[address.name]
            yield Piece(b"no", status, headers)
            yield Piece(b", and why", last=True)
            return
        if self.first is not None:
            yield Piece(self.first, 200)
        if address.name in self.broken:
            raise InstanceLostError(address.name, sent=self.sent)
        await call.step(asyncio.sleep(self.length_s))
        yield Piece(b"yes", 200 if self.first is None else None, last=True)


def engine_of(client: Answers, *names: str) -> InstancesEngine:
    """Healthy instances with four seats each."""
    return InstancesEngine(pool_of(*names), client)  # type: ignore[arg-type]


async def statuses(engine: InstancesEngine, request_id: str = "a", *, raises: bool = False) -> list[int]:
    """Run one request to its end, which is the loss of its instances where it ``raises``."""
    pieces, found = engine.generate(REQUEST, CallParams(), request_id, demand=Demand(10)), list[int]()
    with pytest.raises(InstanceLostError) if raises else nullcontext():
        found.extend([piece.status async for piece in pieces if piece.status is not None])
    return found


def held(engine: InstancesEngine) -> int:
    """Seats, calls and leases that are held anywhere."""
    links = engine.pool.links.values()
    return sum(one.sent + len(one.calls) + len(one.leases) for one in links)


async def cancelled(*asked: asyncio.Task[Any]) -> None:
    """End these requests."""
    for one in asked:
        one.cancel()
    await asyncio.gather(*asked, return_exceptions=True)


async def unseated(engine: InstancesEngine) -> bytes:
    """Run one request that takes no seat to its end."""
    return b"".join([piece.body async for piece in engine.fetch(Forwarded("GET", "/v1/models", ()))])
