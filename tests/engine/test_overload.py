"""Overload: three times more requests than the server can hold, in three classes."""

from __future__ import annotations

import asyncio

from concurrent_requests import scrapes_while, send_all, statuses
from running_server import RunningServer, wait_until


async def test_under_overload_refusals_have_retry_after_and_the_others_complete(server: RunningServer) -> None:
    """With 6 places and 18 requests: 12 or so get 429 with a whole-second Retry-After, streams included, all others
    complete, the client's count is the server's count, and every scrape balances."""
    server.use("tight")
    before = server.scrape()
    plan = [(name, 60, stream) for name in ("realtime", "normal", "batch") for stream in (False, True) * 3]
    work = asyncio.create_task(send_all(server, plan))
    taken = await scrapes_while(server, work)
    answers = work.result()

    refused = [answer for answer in answers if answer.status in (429, 503)]
    served = [answer for answer in answers if answer.status == 200]
    assert len(served) + len(refused) == len(plan), statuses(answers)
    assert all(one.complete for one in served)
    assert len(served) >= 2
    assert {one.stream for one in refused if one.status == 429} == {False, True}
    assert all(1 <= int(one.headers["retry-after"]) <= 30 for one in refused)

    server.settle()
    after = server.scrape()
    assert after("headway_arrivals_total") - before("headway_arrivals_total") == len(plan)
    no_room = [answer for answer in answers if answer.status == 429]
    for outcomes, seen in ((["completed"], served), (["rejected_full", "rejected_limit", "shed"], no_room)):
        name = "headway_outcomes_total"
        counted = sum(after(name, outcome=outcome) - before(name, outcome=outcome) for outcome in outcomes)
        assert counted == len(seen), outcomes
    assert len(taken) >= 2
    assert [line for scrape in taken for line in scrape.unbalanced()] == []
    assert max(scrape("vllm:num_requests_running") for scrape in taken) <= 2


async def test_the_urgent_class_is_served_first(server: RunningServer) -> None:
    """While both seats are taken, a realtime request that came last is served before batch requests that came first."""
    server.use("tight")
    holders = asyncio.create_task(send_all(server, [("realtime", 1900, False)] * 2))
    await asyncio.to_thread(wait_until, lambda: server.status()["seats_taken"] == 2, "both seats are taken")
    assert server.admin("POST", "pause", json={"reason": "a test"}).status_code == 200  # though the two may end before
    ended: list[str] = []

    async def one(class_name: str, after_queued: int) -> None:
        await asyncio.to_thread(wait_until, lambda: server.status()["queued"] >= after_queued, "the others wait")
        (answer,) = await send_all(server, [(class_name, 60, False)])
        assert answer.status == 200
        ended.append(class_name)

    others = asyncio.gather(one("batch", 0), one("batch", 1), one("realtime", 2), one("realtime", 3))
    await asyncio.to_thread(wait_until, lambda: server.status()["queued"] == 4, "all four wait")
    holders.cancel()
    assert server.admin("POST", "resume", json={"reason": "a test"}).status_code == 200
    await others
    await asyncio.gather(holders, return_exceptions=True)
    assert sorted(ended[:2]) == ["realtime", "realtime"], ended
