"""Whatever fails, is cancelled or expires: each submit ends once, with its own result or a typed error."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st
from virtual_time import on_virtual_time

from headway import Batcher, BatchFunctionError, Expired, Refused

_MAX_BATCH, _BUDGET = 4, 10


@dataclass(frozen=True)
class Request:
    """When it comes, how urgent and large it is, its time, and when its submitter goes away."""

    at_ms: int
    priority: int
    tokens: int
    timeout_ms: int | None
    leaves_after_ms: int | None
    bad: bool


REQUESTS = st.lists(
    st.builds(
        Request,
        at_ms=st.integers(0, 200),
        priority=st.integers(0, 2),
        tokens=st.integers(0, 12),
        timeout_ms=st.none() | st.integers(0, 300),
        leaves_after_ms=st.none() | st.integers(0, 300),
        bad=st.booleans(),
    ),
    min_size=1,
    max_size=25,
)


@dataclass
class Unreliable:
    """Fails for bad items, and for whole calls at random; checks that it is never called twice at a time."""

    requests: list[Request]
    faults: list[str]
    calls: list[list[int]] = field(default_factory=list)
    running: bool = False

    async def __call__(self, items: list[int]) -> list[str]:
        assert not self.running
        self.running = True
        self.calls.append(items)
        try:
            await asyncio.sleep(0.03)
        finally:
            self.running = False
        if any(self.requests[item].bad for item in items):
            raise ValueError(items)
        match self.faults[len(self.calls) % len(self.faults)]:
            case "raise":
                raise RuntimeError(items)
            case "short":
                return [f"result {item}" for item in items][1:]
            case "cancel":
                raise asyncio.CancelledError
        return [f"result {item}" for item in items]


@given(
    requests=REQUESTS,
    faults=st.lists(st.sampled_from(["none", "none", "raise", "short", "cancel"]), min_size=1, max_size=5),
)
@on_virtual_time
async def test_each_submit_ends_once_with_its_own_result_or_a_typed_error(
    requests: list[Request], faults: list[str]
) -> None:
    """Order, futures and bounds hold under failures, cancellations, time-outs and a full queue; no state remains."""
    function = Unreliable(requests, faults)
    batcher = Batcher(function, _MAX_BATCH, 20, _BUDGET, max_size=6)
    gone = set[int]()

    async def submit(item: int, request: Request) -> str:
        await asyncio.sleep(request.at_ms / 1000)
        timeout = None if request.timeout_ms is None else request.timeout_ms / 1000
        task = asyncio.create_task(batcher.submit(item, request.priority, timeout, request.tokens))
        if request.leaves_after_ms is not None:
            await asyncio.wait([task], timeout=request.leaves_after_ms / 1000)
            if task.cancel():
                gone.add(item)
        await asyncio.wait([task])
        return await task

    answers = await asyncio.gather(
        *(submit(item, request) for item, request in enumerate(requests)), return_exceptions=True
    )
    await batcher.drain()

    for item, (request, answer) in enumerate(zip(requests, answers, strict=True)):
        if isinstance(answer, str):
            assert answer == f"result {item}"
        elif isinstance(answer, asyncio.CancelledError):
            assert item in gone
        elif isinstance(answer, Refused):
            assert not isinstance(answer, Expired) or all(item not in call for call in function.calls)
        elif isinstance(answer, ValueError):
            assert request.bad
            assert answer.args == ([item],)
        else:
            assert isinstance(answer, BatchFunctionError) or (
                isinstance(answer, RuntimeError) and answer.args == ([item],)
            )
    for call in function.calls:
        tokens = sum(max(1, requests[item].tokens) for item in call)
        assert len(call) <= _MAX_BATCH
        assert tokens <= _BUDGET or len(call) == 1
    stats = batcher.stats()
    assert sum(stats["outcomes"].values()) == len(requests)
    assert (stats["total_queued"], stats["running"], batcher._members) == (0, 0, {})
