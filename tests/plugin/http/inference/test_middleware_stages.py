"""The stages of a request over HTTP: the queue, the first token, the gaps between tokens, and headers that shorten
them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from engines import assert_no_residue, outcomes
from generating_site import PATHS, GeneratingSite
from small_presets import small_preset
from virtual_time import now_s, on_virtual_time

from headway_policies import PriorityClass


class Site(GeneratingSite):
    """One seat, one place in the queue, and a more urgent class."""

    def __init__(self, **terms: Any) -> None:
        own = {"priority": 1, "max_waiting": 10, "queue_timeout_s": 10.0, "total_timeout_s": 100.0} | terms
        better = own | {"priority": 2}
        classes = {"usual": PriorityClass.model_validate(own), "better": PriorityClass.model_validate(better)}
        super().__init__(small_preset(classes=classes, most_waiting=1, queue={"evict": True}))

    def stall_at(self, at_s: float) -> None:
        """From then on the engine makes no more tokens."""
        asyncio.get_running_loop().call_later(at_s, lambda: setattr(self.engine, "stalled", True))


@pytest.mark.parametrize("stream", [False, True])
@on_virtual_time
async def test_a_request_that_may_not_queue_is_refused_at_once_or_served(stream: bool) -> None:
    """x-headway-queue: no is 429 no_free_seat while the seat is taken, with Retry-After; else it is served."""
    site = Site()
    first = asyncio.create_task(site.post({"max_tokens": 9}))
    await asyncio.sleep(0.5)
    status, headers, _ = await site.post({"stream": stream}, x_headway_queue="no")
    assert (status, headers["x-headway-reason"]) == (429, "no_free_seat")
    assert 1 <= int(headers["retry-after"]) <= 30
    assert now_s() == 0.5
    await first
    assert (await site.post({"stream": stream}, x_headway_queue="no"))[0] == 200
    await assert_no_residue(site.control)
    assert outcomes(site.control) == {"completed": 2, "rejected_limit": 1}


@pytest.mark.parametrize("stream", [False, True])
@on_virtual_time
async def test_an_evicted_request_is_refused_at_once(stream: bool) -> None:
    """The only place in the queue goes to a more urgent arrival: 429 evicted, with Retry-After."""
    site = Site()
    holder = asyncio.create_task(site.post({"max_tokens": 3}))
    await asyncio.sleep(0.5)
    waiting = asyncio.create_task(site.post({"stream": stream}))
    await asyncio.sleep(0.5)
    better = asyncio.create_task(site.post({}, x_headway_class="better"))
    status, headers, _ = await waiting
    assert (status, headers["x-headway-reason"], now_s()) == (429, "evicted", 1.0)
    assert 1 <= int(headers["retry-after"]) <= 30
    assert [(await task)[0] for task in (holder, better)] == [200, 200]
    await assert_no_residue(site.control)


@pytest.mark.parametrize("path", PATHS)
@on_virtual_time
async def test_a_stream_that_stalls_ends_with_one_error_event(path: str) -> None:
    """Two tokens, then nothing: after the stall time-out one event in the form of the API, and the engine aborts the
    request."""
    site = Site(stall_timeout_s=5.0)
    site.stall_at(2.5)
    status, _, content = await site.post({"stream": True, "max_tokens": 9}, path)
    assert status == 200
    assert content.startswith(b"data: 1\n\ndata: 2\n\n")
    assert content.count(b"(stall_timeout)") == 1
    assert content.count(b"event: error" if path in PATHS[2:] else b'"error"') == 1
    assert now_s() == pytest.approx(2.0 + 5.0, abs=1.01)
    await assert_no_residue(site.control)
    assert site.engine.aborted == ["id", "id"]
    assert outcomes(site.control) == {"expired_running": 1}


@on_virtual_time
async def test_an_answer_that_stalls_before_a_byte_was_sent_is_a_504() -> None:
    """A whole answer of which tokens came, but none was sent: a true status, and no retry."""
    site = Site(stall_timeout_s=5.0)
    site.stall_at(2.5)
    status, headers, _ = await site.post({"max_tokens": 9})
    assert (status, headers["x-headway-reason"], headers["x-should-retry"]) == (504, "stall_timeout", "false")
    assert "retry-after" not in headers
    await assert_no_residue(site.control)


@on_virtual_time
async def test_tokens_that_keep_coming_are_no_stall() -> None:
    """Nine seconds of answer at one token a second outlive a stall time-out of two."""
    site = Site(stall_timeout_s=2.0)
    status, _, content = await site.post({"stream": True, "max_tokens": 9})
    assert (status, content.count(b"data: ")) == (200, 9)
    await assert_no_residue(site.control)


STAGES = [
    ("x_headway_queue_timeout_seconds", "3", "queue_timeout", 503),
    ("x_headway_first_token_timeout_seconds", "13", "first_token_timeout", 504),
    ("x_headway_stall_timeout_seconds", "5.5", "stall_timeout", 200),
    ("x_request_timeout_seconds", "16", "total_timeout", 200),
]


@pytest.mark.parametrize(("header", "value", "reason", "status"), STAGES)
@on_virtual_time
async def test_a_client_sets_a_time_out_where_its_class_has_none(
    header: str, value: str, reason: str, status: int
) -> None:
    """Each header ends its stage: in the queue, before the first token, between tokens, or in all."""
    none = dict.fromkeys(("queue_timeout_s", "total_timeout_s"))
    site = Site(**none)
    waits_s = {"queue_timeout": 8, "first_token_timeout": 8, "stall_timeout": 1, "total_timeout": 1}[reason]
    holder = asyncio.create_task(site.post({"max_tokens": waits_s}))
    await asyncio.sleep(0.5)
    site.stall_at({"first_token_timeout": 7.9, "queue_timeout": 99.0}.get(reason, 3.9))
    found, headers, content = await site.post({"stream": True, "max_tokens": 9}, **{header: value})
    assert found == status
    assert (headers.get("x-headway-reason") or "") == (reason if status != 200 else "")
    assert reason.encode() in content
    site.engine.stalled = False
    await holder
    await assert_no_residue(site.control)


@pytest.mark.parametrize(
    ("header", "value", "reason"),
    [
        ("x_headway_first_token_timeout_seconds", "50", "first_token_timeout"),
        ("x_request_timeout_seconds", "50", "first_token_timeout"),
        ("x_headway_first_token_timeout_seconds", "2", "first_token_timeout"),
    ],
)
@on_virtual_time
async def test_a_client_can_only_shorten(header: str, value: str, reason: str) -> None:
    """A longer wish than the class allows changes nothing; a shorter one holds."""
    site = Site(first_token_timeout_s=4.0)
    site.engine.stalled = True
    status, headers, _ = await site.post({}, **{header: value})
    assert (status, headers["x-headway-reason"]) == (504, reason)
    assert now_s() == pytest.approx(2.0 if value == "2" else 4.0, abs=1.01)
    await assert_no_residue(site.control)


@on_virtual_time
async def test_what_the_entrance_knows_of_the_size_reaches_the_desk() -> None:
    """Bytes, estimated tokens and max_tokens of the body stand in the ticket."""
    site = Site()
    holder = asyncio.create_task(site.post({"max_tokens": 3}))
    await asyncio.sleep(0.5)
    waiting = asyncio.create_task(site.post({"max_tokens": 2, "prompt": "x" * 400}))
    await asyncio.sleep(0.5)
    ((ticket, _),) = site.control.gateway.gate.desk.waiting()
    size_bytes = len(json.dumps({"max_tokens": 2, "prompt": "x" * 400}))
    assert (ticket.prompt_bytes, ticket.prompt_tokens, ticket.max_tokens) == (size_bytes, size_bytes // 4, 2)
    status = site.control.status()
    assert (status.queued_bytes, status.queued_tokens) == (size_bytes, size_bytes // 4)
    await asyncio.gather(holder, waiting)
    await assert_no_residue(site.control)
