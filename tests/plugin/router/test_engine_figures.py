"""What the router's engine reports: progress, the load, and how its exchanges ended."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence

from routed_engine import Answers, cancelled, engine_of, statuses
from virtual_time import on_virtual_time

from headway.engine import Ended
from headway.router.adapter import InstancesAdapter
from headway.router.forwarding.forwarded import CallParams, Piece
from headway.router.instances.reading import InstanceReading
from headway_policies import Load, Usage


@on_virtual_time
async def test_progress_is_carried_over_to_another_instance() -> None:
    """The gate sees progress in each larger number: tokens are, and another instance is for what had begun. To be given
    seats is none, so the time to the first token runs."""
    client = Answers(None)
    engine = engine_of(client, "a", "b")
    running = asyncio.create_task(statuses(engine, "a"))
    await asyncio.sleep(0.1)
    first, other = engine.pool.links["a"], engine.pool.links["b"]
    for tokens in range(1, 40):
        engine.pool.read(other, InstanceReading(tokens=tokens), 0)
    seen = [engine.progress_of("a")]
    for tokens in (5, 5, 9):
        engine.pool.read(first, InstanceReading(tokens=tokens), 1)
        seen.append(engine.progress_of("a"))
    engine.pool.lost(first)
    await asyncio.sleep(0.1)
    assert client.asked == ["a", "b"]
    seen.append(engine.progress_of("a"))
    engine.pool.read(other, InstanceReading(tokens=99), 1)
    seen.append(engine.progress_of("a"))
    assert seen == [0, 1, 1, 2, 3, 4]
    await cancelled(running)
    assert engine.progress_of("a") is None


class Listener:
    """Keeps the loads that are reported."""

    def __init__(self) -> None:
        self.loads: list[Load | None] = []

    def step(self, load: Load | None, sequences: int, ended: Sequence[Ended]) -> None:
        assert (sequences, list(ended)) == (0, [])
        self.loads.append(load)


@on_virtual_time
async def test_the_load_is_that_of_the_healthy_instances() -> None:
    """Requests added up, those that this router has sent meanwhile among them; of the KV caches the fullest."""
    engine, listener = engine_of(Answers(), "a", "b", "c"), Listener()
    engine.report()
    engine.listen(listener)
    a, b, c = engine.pool.links.values()
    engine.pool.read(a, InstanceReading(running=3, waiting=1, kv_use=0.2), 0)
    engine.pool.read(b, InstanceReading(running=0, waiting=2, kv_use=0.6), 0)
    engine.pool.read(c, InstanceReading(running=9, waiting=9, kv_use=0.9), 0)
    engine.pool.unready(c)
    running = asyncio.create_task(statuses(engine))
    await asyncio.sleep(0.1)
    engine.report()
    assert (engine.max_num_seqs, b.sent) == (12, 1)
    assert listener.loads == [Load(4, 3, 0.6)]
    await cancelled(running)


@on_virtual_time
async def test_exchanges_are_counted_by_how_they_ended() -> None:
    """And those that were sent again; each in the series of its instance."""
    client = Answers(None, b=(429, ()))
    client.length_s = 0.1
    engine = engine_of(client, "a", "b", "c")
    client.broken = {"a"}
    assert await statuses(engine) == [200]
    assert client.asked == ["a", "b", "c"]
    for _ in range(3):
        await asyncio.sleep(1)
        for link in engine.pool.links.values():
            engine.pool.heard(link)
    client.broken = {"a", "c"}
    assert await statuses(engine, "again", raises=True) == []
    ended = {name: dict(link.ended) for name, link in engine.pool.links.items()}
    assert ended == {"a": {"lost": 2}, "b": {"refused": 2}, "c": {"answered": 1, "lost": 1}}
    assert engine.pool.retried == 2


def test_what_is_particular_to_instances() -> None:
    """Sizes come with the request, and what a response says is believed."""
    adapter = InstancesAdapter()
    assert adapter.seats(CallParams(3)) == 3
    assert [adapter.unstreamed(CallParams(stream=stream)) for stream in (True, False)] == [False, True]
    delays = [adapter.first_token_delay_s(Piece(b"", status)) for status in (200, None, 400)]
    assert (delays[:2], math.isnan(delays[2] or 0.0)) == ([None, None], True)
    assert adapter.usage(Piece(b"", usage=Usage(1, 2)), 2) == Usage(1, 2)
    assert [adapter.unfinished(Piece(b"", last=last)) for last in (True, False)] == [False, True]
