"""Custom policies, one of each kind that a preset may name: an order, a discipline, a limit and a window.

The preset beside this file names them; the folder has to be on the import path:

    python plugin/examples/own_policies.py                       # eight requests on one seat of a fake engine
    cd plugin/examples
    PYTHONPATH=. headway preset validate own_policies.toml       # runs the conformance suites
    PYTHONPATH=. headway simulate --preset ./own_policies.toml
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Mapping
from heapq import heappop, heappush
from pathlib import Path

import headway
from headway.engine.fake import FakeEngine, FakeParams
from headway_policies.conformance import (
    ClassQueues,
    Fifo,
    Gathered,
    Interval,
    LimitSettings,
    MakeDiscipline,
    PriorityClass,
    Ticket,
)


class LeastSlack(ClassQueues):
    """Order between classes: the class whose next request is closest to its queue time-out goes first."""

    def __init__(self, classes: Mapping[str, PriorityClass], make_discipline: MakeDiscipline) -> None:
        super().__init__(classes, make_discipline)
        self._patience_s = {name: terms.queue_timeout_s or math.inf for name, terms in classes.items()}

    def head(self, now_s: float, excluded: Collection[str] = ()) -> Ticket | None:
        heads = [(head.arrived_s + self._patience_s[name], head) for name, head in self.heads(now_s, excluded)]
        return min(heads, key=lambda head: head[0])[1] if heads else None


class ShortestFirst(Fifo):
    """Discipline inside a class: the shortest expected request goes first."""

    def __init__(self) -> None:
        super().__init__()
        self._heap: list[tuple[float, int, Ticket]] = []
        self._expected: dict[int, float] = {}

    def push(self, ticket: Ticket, tokens: float, now_s: float) -> None:
        super().push(ticket, tokens, now_s)
        self._expected[ticket.id] = tokens
        heappush(self._heap, (tokens, ticket.id, ticket))

    def head(self, now_s: float) -> Ticket | None:
        while self._heap and self._expected.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][2] if self._heap else None

    def remove(self, ticket_id: int) -> Ticket | None:
        self._expected.pop(ticket_id, None)
        return super().remove(ticket_id)


class Headroom:
    """Limit policy: as many seats as leave a tenth of the KV space free, by what a sequence takes on average."""

    def __init__(self, settings: LimitSettings, fixed: int) -> None:
        self._fixed = fixed

    def propose(self, seen: Interval, allowed: int) -> int:
        if not (seen.seats_taken and seen.kv_usage_ratio):
            return self._fixed
        return max(1, int(0.9 * seen.seats_taken / seen.kv_usage_ratio))


class HalfFull:
    """Batching window: a batch gathers for the preset's window_ms, but leaves once it is half full."""

    def __init__(self, longest_s: float) -> None:
        self._longest_s = longest_s

    def length_s(self, gathered: Gathered, now_s: float) -> float:
        return 0.0 if 2 * gathered.seats >= gathered.max_seats else self._longest_s

    def arrived(self, seats: int, now_s: float) -> None:
        pass

    def batch_done(self, seats: int, duration_s: float, now_s: float) -> None:
        pass


async def main() -> list[str]:
    """Run eight requests of two classes and four sizes; returns their ids in the order in which the engine got them."""
    engine = FakeEngine(max_num_seqs=1, step_s=0.002)
    wrapped = headway.wrap(engine, preset=Path(__file__).with_name("own_policies.toml"))

    async def ask(name: str, words: int) -> None:
        async for _ in wrapped.generate("word " * words, FakeParams(max_tokens=2), f"{name}-{words}", priority=name):
            pass

    sizes = (400, 20, 200, 50)
    await asyncio.gather(*(ask(name, words) for name in ("batch", "realtime") for words in sizes))
    print("in the order of the engine:", ", ".join(engine.started))
    return engine.started


if __name__ == "__main__":
    asyncio.run(main())
