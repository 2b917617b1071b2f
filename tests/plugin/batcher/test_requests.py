"""Requests and settings as plain data: defaults, the size against the token budget, and the log of a failure."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import asdict

import pytest
from virtual_time import on_virtual_time

import headway
from headway import BatchConfig, Batcher, InferenceRequest, PriorityRequestQueue, UnknownClassError
from headway.batcher.settings import batch_preset


class Echo:
    """Returns the ids of a batch, and keeps them; a batch with a request named ``bad`` raises."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    async def __call__(self, requests: list[InferenceRequest]) -> list[str]:
        ids = [request.request_id for request in requests]
        self.batches.append(ids)
        if any(request_id.startswith("bad") for request_id in ids):
            raise RuntimeError("secret prompt")
        return ids


def test_the_defaults_are_those_of_the_batcher() -> None:
    """32 requests, 50 ms, 8192 tokens, 3 priorities; 512 tokens and priority 0 for a request."""
    assert asdict(BatchConfig()) == {
        "max_batch_size": 32, "max_wait_ms": 50, "max_total_tokens": 8192, "priority_classes": 3,
    }  # fmt: skip
    request = InferenceRequest("1", "hello")
    assert (request.max_tokens, request.priority, request.timeout) == (512, 0, None)
    batcher = Batcher(Echo(), **BatchConfig().arguments())
    plain = batch_preset(urgent_wait_ms=0, max_size=10_000, **BatchConfig().arguments())
    assert batcher.stats()["max_size"] == plain.queue.max_waiting


@pytest.mark.parametrize(
    ("prompt", "given", "tokens"), [("x" * 400, None, 100), ("x" * 401, None, 101), ("", None, 1), ("x" * 400, 7, 7)]
)
def test_a_prompt_is_a_quarter_of_its_bytes_unless_its_tokens_are_given(
    prompt: str, given: int | None, tokens: int
) -> None:
    """Rounded up, at least one."""
    assert InferenceRequest("1", prompt, prompt_tokens=given).size_tokens == tokens


@on_virtual_time
async def test_the_token_budget_counts_what_a_request_may_use() -> None:
    """Requests of 100 + 512 tokens: 13 of them fit into 8192, though 32 may be in a batch; shorter ones fit better."""
    echo = Echo()
    async with Batcher(echo) as batcher:
        requests = [InferenceRequest(str(number), "x", prompt_tokens=100) for number in range(26)]
        assert await asyncio.gather(*map(batcher.submit, requests)) == [request.request_id for request in requests]
        short = [InferenceRequest(str(number), "x", max_tokens=20, prompt_tokens=100) for number in range(32)]
        await asyncio.gather(*map(batcher.submit, short))
    assert [len(batch) for batch in echo.batches] == [13, 13, 32]


@on_virtual_time
async def test_a_request_brings_its_own_priority_and_time_out() -> None:
    """A full batch runs; of those that wait the urgent one goes first, and the impatient one expires."""
    echo = Echo()
    async with Batcher(echo, max_batch_size=1, max_wait_ms=0) as batcher:
        async with asyncio.TaskGroup() as group:
            for request in (
                InferenceRequest("first", "x"),
                InferenceRequest("batch", "x", priority="batch"),
                InferenceRequest("realtime", "x", priority="realtime"),
                InferenceRequest("normal", "x", priority=1),
            ):
                group.create_task(batcher.submit(request))
            group.create_task(batcher.submit(InferenceRequest("lowered", "x", priority="realtime"), priority=0))
        with pytest.raises(headway.Expired):
            await batcher.submit(InferenceRequest("late", "x", timeout=0))
        with pytest.raises(UnknownClassError, match="one of batch, normal, realtime, not 'urgent'"):
            await batcher.submit(InferenceRequest("lost", "x", priority="urgent"))
    assert echo.batches[0] == ["first"]
    assert echo.batches.index(["realtime"]) < echo.batches.index(["normal"]) < echo.batches.index(["lowered"])
    assert [name for batch in echo.batches for name in batch if name in ("late", "lost")] == []


@on_virtual_time
async def test_a_failed_batch_is_logged_with_its_members_and_without_their_prompts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Ids, classes and sizes, of sixteen at the most; then the one that fails alone. No prompt, no error's text."""
    caplog.set_level(logging.WARNING, "headway.batcher.batcher")
    async with Batcher(Echo()) as batcher:
        requests = [
            InferenceRequest(f"r{number}", "private", max_tokens=10, prompt_tokens=5, priority="normal")
            for number in range(19)
        ]
        requests.insert(0, InferenceRequest("bad\n" + "x" * 500, "private", max_tokens=10, prompt_tokens=5))
        await asyncio.gather(*map(batcher.submit, requests), return_exceptions=True)
    whole, alone = [record.getMessage() for record in caplog.records]
    assert "a batch of 20 failed; its members are retried one by one: RuntimeError: " in whole
    assert "r0 (priority-1, 15 tokens), " in whole
    assert whole.count(" tokens)") == 16
    assert whole.endswith(" and 4 more")
    assert alone.startswith("a request failed, alone in its batch: RuntimeError: bad?xxx")
    assert alone.endswith("x (priority-0, 15 tokens)")
    for line in (whole, alone):
        assert "private" not in line
        assert "secret" not in line
        assert "\n" not in line
        assert len(line) < 1000


def test_a_queue_takes_names_and_the_priority_of_a_request() -> None:
    """realtime before normal before batch, whatever came first."""
    queue: PriorityRequestQueue[object] = PriorityRequestQueue()
    queue.enqueue("b", "batch")
    queue.enqueue(InferenceRequest("n", "x", priority="normal"))
    queue.enqueue("r", "realtime")
    found = queue.dequeue_batch(3)
    assert [getattr(waiting, "request_id", waiting) for waiting in found] == ["r", "n", "b"]


def test_an_unknown_class_is_an_error_unless_a_default_class_is_named() -> None:
    """By default a typing error is an error; with a default class it waits there."""
    queue: PriorityRequestQueue[str] = PriorityRequestQueue(default_class="normal")
    for name in ("batch", "reltime"):
        assert queue.enqueue(name, name)
    assert queue.dequeue_batch(2) == ["reltime", "batch"]
    with pytest.raises(UnknownClassError, match="one of batch, normal, realtime"):
        PriorityRequestQueue[str]().enqueue("x", "reltime")
    with pytest.raises(UnknownClassError):
        PriorityRequestQueue[str](default_class="gone")
